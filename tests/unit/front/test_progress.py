from __future__ import annotations

import io

from msgspec import structs

from ipc.events import (
    ErrorEvent,
    Event,
    PlacementEvent,
    PlanDecisionEvent,
    PlanRevisedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    PlanWaitingEvent,
    StepOutline,
    SubAgentFinishedEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolStreamEvent,
    WarningEvent,
    WorkOrder,
)
from vibe.front.progress import ProgressLines
from vibe.system.plain_text import LINE_LENGTH


def written(*events: Event) -> list[str]:
    out = io.StringIO()
    sink = ProgressLines(out)
    for event in events:
        sink.publish(event)
    return out.getvalue().splitlines()


def moved(previous: str, status: str, *, attempt: int = 1, detail: str = "", took: float | None = None) -> Event:
    return PlanStepUpdateEvent(
        step_id="s", title="Do it", status=status, previous=previous, detail=detail, attempt=attempt, duration_s=took
    )


def called(tool: str, summary: str, *, purpose: str = "") -> Event:
    arguments = {"command": "make", "purpose": purpose} if purpose else {}
    return ToolCallEvent(tool_call_id="c", tool=tool, arguments=arguments, summary=summary, subagent_step_id="s")


def ended(tool: str, status: str, content: str) -> Event:
    return ToolResultEvent(
        tool_call_id="c", tool=tool, status=status, content=content, duration_s=0.1, subagent_step_id="s"
    )


def test_waiting_is_not_worth_a_line() -> None:
    assert written(moved("pending", "blocked"), moved("pending", "needs_decision"), moved("blocked", "pending")) == []


def test_a_step_of_a_cluster_says_that_no_worker_has_room_and_which_one_it_was_lost_with() -> None:
    placed, lost = (
        PlacementEvent(status=status, worker="build2:40001", detail=detail, subagent_step_id="s")
        for status, detail in (("placed", ""), ("lost", "the link broke"))
    )
    waits = PlanWaitingEvent(step_id="s", waits_for="worker")

    assert written(PlanWaitingEvent(step_id="t", waits_for="files"), placed, lost, waits) == [
        "[0:00] s: lost with build2:40001: the link broke",
        "[0:00] s waits for a worker",
    ]


def test_a_step_says_that_it_starts_and_what_it_took() -> None:
    finished = SubAgentFinishedEvent(
        outcome="completed", reason=None, tokens=1_234, turns=2, duration_s=1.0, subagent_step_id="s"
    )

    lines = written(moved("pending", "in_progress"), finished, moved("in_progress", "completed", took=1.25))

    assert lines == ["[0:00] s starts: Do it", "[0:00] s done, 1.2 s"]


def test_a_step_whose_models_step_up_says_which_one_is_at_it() -> None:
    order = WorkOrder(models=("small", "large"))
    begun = PlanStartedEvent(goal="g", steps=(StepOutline(id="s", title="Do it", mode="code", order=order),))

    lines = written(begun, moved("pending", "in_progress"), moved("pending", "in_progress", attempt=2))

    assert lines[1:] == ["[0:00] s starts, small, 1st of 2: Do it", "[0:00] s starts, large, 2nd of 2: Do it"]


def test_a_failure_says_why_and_whether_it_is_tried_again() -> None:
    lines = written(
        moved("pending", "in_progress"),
        moved("in_progress", "pending", attempt=2, detail="`make` exited with 2", took=1.0),
        moved("pending", "in_progress", attempt=2),
        moved("in_progress", "failed", attempt=2, detail="`make` exited with 2", took=1.0),
    )

    assert lines == [
        "[0:00] s starts: Do it",
        "[0:00] s failed after 1.0 s: `make` exited with 2; trying again",
        "[0:00] s starts, try 2: Do it",
        "[0:00] s failed after 1.0 s: `make` exited with 2",
    ]


def test_a_step_that_was_stopped_is_not_over() -> None:
    lines = written(moved("pending", "in_progress"), moved("in_progress", "pending", detail="paused", took=2.0))

    assert lines[-1] == "[0:00] s stopped after 2.0 s: paused"


def test_a_plan_that_is_mended_says_so() -> None:
    ours = SubAgentStartedEvent(
        title="Revise the plan after Do it",
        mode="design",
        model="m",
        tools=(),
        max_tokens=1,
        max_turns=1,
        subagent_step_id="s",
    )
    lines = written(
        moved("pending", "in_progress"),
        ours,
        moved("in_progress", "pending", detail="`make` exited with 2", took=1.0),
        ours,
        PlanRevisedEvent(operations=({"op": "remove_step", "id": "s"},), reason="it can't be done"),
    )

    assert lines[1:3] == [
        "[0:00] s stopped after 1.0 s: `make` exited with 2",
        "[0:00] s: revising the plan: Revise the plan after Do it",
    ]
    assert "it can't be done" in lines[3]


def test_calls_are_lines_and_results_only_where_they_failed() -> None:
    assert written(called("grep", "grep 'x' in ."), ended("grep", "ok", "found")) == ["[0:00] s: search 'x' in ."]
    assert written(called("todo", "3 items")) == ["[0:00] s: todo 3 items"]
    assert written(ended("write_file", "denied", "Denied: nobody is there to ask.")) == [
        "[0:00] s: write_file denied: nobody is there to ask."
    ]


def test_a_failed_check_shows_its_last_line_and_a_failed_command_does_not() -> None:
    failed = ended("command", "error", "one\ntwo failed\n\n")

    assert written(called("command", "", purpose="verify"), failed) == [
        "[0:00] s: check make",
        "[0:00] s: check failed (two failed)",
    ]
    assert written(called("command", "", purpose="step"), failed) == ["[0:00] s: run make"]


def test_trouble_is_said_once() -> None:
    said = written(
        WarningEvent(code="start", message="the summary says it"),
        WarningEvent(code="model.retry", message="attempt 2 follows", subagent_step_id="s"),
        WarningEvent(code="model.wait", message="a live tree shows it beside its step", subagent_step_id="s"),
        ErrorEvent(code="model.model", message="the step's end says it", subagent_step_id="s"),
        ErrorEvent(code="x", message="nobody else says it"),
    )

    assert said == ["[0:00] s: warning: attempt 2 follows", "[0:00] error: nobody else says it"]


def test_the_plan_begins_with_its_id_and_a_decision_with_its_options() -> None:
    outline = StepOutline(id="s", title="Do it", mode="run", depends_on=(), status="pending")
    started = PlanStartedEvent(plan_id="20260101-abcdef", goal="Try", steps=(outline,), max_parallel_steps=4)
    open_decision = PlanDecisionEvent(decision_id="d", question="Ship?", options=("yes", "no"), selections=(), by="")

    assert written(started) == ["[0:00] plan 20260101-abcdef starts: Try (1 step, up to 4 side by side)"]
    assert written(open_decision) == ["[0:00] decision d open: Ship? (yes, no)"]


def test_no_line_is_longer_than_a_line_or_moves_the_cursor() -> None:
    [line] = written(called("bash", "\x1b[2J\u202e\n" + "x" * 1_000))

    assert len(line) <= LINE_LENGTH + len("[0:00] s: ")
    assert "\x1b" not in line
    assert "\u202e" not in line


def test_a_failed_check_is_told_by_its_first_telling_line() -> None:
    lines = written(
        called("command", "verify: make", purpose="verify"),
        ended("command", "error", "ok 1 - adds\nnot ok 2 - subtracts\n# fail 1\n# duration_ms 318"),
    )

    assert lines[-1] == "[0:00] s: check failed (not ok 2 - subtracts)"


def test_output_is_printed_line_by_line_where_it_is_asked_for_and_cannot_move_the_cursor() -> None:
    out = io.StringIO()
    printed = ToolStreamEvent(tool_call_id="c", tool="command", text="  one\n\x1b[2Jtwo\n", subagent_step_id="s")

    ProgressLines(out, output=True).publish(printed)

    assert out.getvalue() == "[s] |   one\n[s] | two\n"
    assert written(printed) == []


def test_who_fixes_what_its_check_found_says_so_with_the_time_that_has_passed() -> None:
    check = called("command", "", purpose="verify")
    events = [
        moved("pending", "in_progress"),
        check,
        ended("command", "error", "9.9 != 9.0"),
        called("search_replace", "search_replace shop/cart.py"),
        called("read_file", "read_file shop/cart.py"),
    ]

    lines = written(*(structs.replace(event, ts=100.0 + 61 * number) for number, event in enumerate(events)))

    assert lines[2:] == [
        "[2:02] s: check failed (9.9 != 9.0)",
        "[3:03] s: fixing it: edit shop/cart.py",
        "[4:04] s: read shop/cart.py",
    ]


def test_a_step_that_fixed_itself_says_so_and_in_how_many_tries() -> None:
    begun = PlanStartedEvent(
        plan_id="p", goal="g", steps=(StepOutline(id="s", title="Do it", mode="code"),), max_parallel_steps=1
    )
    checked = structs.replace(called("command", "make", purpose="verify"), plan_id="p")
    failed = structs.replace(ended("command", "error", "E"), plan_id="p")
    start, done = (
        structs.replace(each, plan_id="p")
        for each in (moved("pending", "in_progress"), moved("in_progress", "completed", took=18.0))
    )

    assert written(begun, start, checked, failed, done)[-1].endswith("s done, 18 s, fixed itself, 2 tries")
