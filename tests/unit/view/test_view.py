"""The view: the effect of each event on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import process_time
from typing import Any

import pytest
from msgspec import structs

from ipc import events as e
from ipc.events import BaseEvent, Event, StepOutline
from subagents.executor import StepResult
from tests.fakes.events import event_classes, example
from tests.unit.planner.facts import ended
from vibe.core.budget import WAITED as HAD_ROOM
from vibe.core.llm.announcing import WAIT, WAITED
from vibe.core.messages import Outcome
from vibe.view.plan_view import PlanView, StepView, depths
from vibe.view.view import PASSING, View, apply, lose

WHO: dict[str, Any] = {"subagent_id": "agent", "subagent_step_id": "a"}


def outline(step_id: str, *above: str, status: str = "pending") -> StepOutline:
    return StepOutline(id=step_id, title=step_id.upper(), mode="code", depends_on=above, status=status)


def started(*steps: StepOutline, ts: float = 100.0) -> e.PlanStartedEvent:
    return e.PlanStartedEvent(goal="goal", steps=steps or (outline("a"), outline("b", "a")), ts=ts)


def moved(step_id: str, status: str, previous: str = "pending", **fields: Any) -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(step_id=step_id, title="T", status=status, previous=previous, **fields)


def view_of(*events: Event) -> View:
    view = View()
    for event in events:
        apply(view, event)
    return view


def view_after(*events: Event) -> View:
    return view_of(started(), moved("a", "in_progress", ts=110.0), *events)


def after(*events: Event) -> PlanView:
    return view_after(*events).plans[""]


def step_after(*events: Event) -> StepView:
    return after(*events).steps["a"]


CALL = e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash ls", **WHO)
OTHER_CALL = e.ToolCallEvent(tool_call_id="2", tool="grep", arguments={}, **WHO)
ASKED = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)

ALLOWED = e.ApprovalDecisionEvent(request_id="r", decision="allow", **WHO)
QUEUED = e.ToolQueuedEvent(tool_call_id="1", tool="bash", summary="bash ls", waits_for="request", **WHO)
PRINTED = e.ToolStreamEvent(tool_call_id="1", tool="bash", text="a\n", **WHO)


@dataclass(frozen=True)
class Case:
    name: str
    events: tuple[Event, ...]
    doing: str


CASES = [
    Case("started", (), "starting"),
    Case(
        "subagent",
        (e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=9, max_turns=1, **WHO),),
        "waiting for m",
    ),
    Case("prompt", (e.UserMessageEvent(text="go", **WHO),), "waiting for the model"),
    Case("reasoning", (e.ReasoningDeltaEvent(message_id="1", text="hm", **WHO),), "thinking"),
    Case(
        "answer so far",
        tuple(e.AssistantDeltaEvent(message_id="1", text=text, **WHO) for text in ("one\ntw", "o")),
        "two",
    ),
    Case(
        "repeated answer",
        (
            e.AssistantDeltaEvent(message_id="1", text="wrong", **WHO),
            e.AssistantDeltaEvent(message_id="1", text="right", attempt=2, **WHO),
        ),
        "right",
    ),
    Case("answer", (e.AssistantEvent(message_id="1", text="all of it", **WHO),), "answered"),
    Case("answer with calls", (e.AssistantEvent(message_id="1", text="", tool_calls=2, **WHO),), ""),
    Case("call", (CALL,), "bash ls"),
    Case("two calls", (CALL, OTHER_CALL), "search (+1 more)"),
    Case(
        "output",
        (CALL, e.ToolStreamEvent(tool_call_id="1", tool="bash", text="one\ntwo\n\n", **WHO)),
        "bash ls › two",  # noqa: RUF001  a mark
    ),
    Case(
        "result",
        (CALL, e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="", **WHO)),
        "bash ls: done",
    ),
    Case(
        "denied",
        (CALL, e.ToolResultEvent(tool_call_id="1", tool="bash", status="denied", content="", **WHO)),
        "bash ls: denied",
    ),
    Case("waits to ask", (CALL, QUEUED), "will ask: bash ls"),
    Case("asks in its turn", (CALL, QUEUED, ASKED, ALLOWED), "bash ls"),
    Case("ran without asking", (CALL, QUEUED, PRINTED), "bash ls › a"),  # noqa: RUF001  a mark
    Case("approval wanted", (CALL, ASKED), "asks: bash"),
    Case("a command", (CALL, structs.replace(ASKED, preview=e.CommandDisplay(command="ls -l"))), "asks: run ls -l"),
    Case(
        "approval given",
        (CALL, ASKED, ALLOWED),
        "bash ls",
    ),
    Case("question", (e.QuestionEvent(request_id="q", questions=(), **WHO),), "asks you"),
    Case(
        "answered",
        (e.QuestionEvent(request_id="q", questions=(), **WHO), e.AnswerEvent(request_id="q", **WHO)),
        "starting",
    ),
    Case(
        "compaction",
        (e.CompactStartEvent(context_tokens=12345, threshold=1, **WHO),),
        "summarising 12,345 tokens of history",
    ),
    Case("compacted", (e.CompactEndEvent(tokens_before=2, tokens_after=1, **WHO),), "waiting for the model"),
    Case("retry", (e.WarningEvent(code="model.retry", message="again in 2 s", **WHO),), "again in 2 s"),
    Case("another step's", (e.ReasoningDeltaEvent(message_id="1", text="", subagent_step_id="b"),), "starting"),
    Case("nobody's", (e.ReasoningDeltaEvent(message_id="1", text=""),), "starting"),
    Case("ended", (CALL, moved("a", "completed", "in_progress")), ""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_is_said_to_do(case: Case) -> None:
    assert step_after(*case.events).doing() == case.doing


def test_that_a_call_waits_for_its_turn_is_said_beside_its_step_and_nowhere_else() -> None:
    view = view_after(moved("a", "in_progress"), e.WarningEvent(code="model.wait", message="waits for its turn", **WHO))

    assert (view.plans[""].steps["a"].doing(), view.notices) == ("waits for its turn", {})


def test_passing_warnings_are_those_of_calls_that_wait() -> None:
    assert {HAD_ROOM, WAIT, WAITED} == PASSING


@pytest.mark.parametrize("kind", event_classes(), ids=lambda kind: kind.__name__)
def test_every_event_is_taken_before_and_during_a_plan(kind: type[BaseEvent]) -> None:
    event = structs.replace(example(kind), source="run", seq=7, ts=200.0)
    for view in (View(), view_after()):
        assert ("runs", "run") in apply(view, event)
        assert (view.runs["run"].seq, view.runs["run"].updated_at) == (7, 200.0)
        assert apply(view, event) == (), "it was taken"
        for plan in view.plans.values():
            assert plan.counts == Counter(step.status for step in plan.steps.values())


def test_time_runs_from_the_events_and_stops_with_the_step() -> None:
    view = view_after()
    plan = view.plans[""]
    assert (plan.steps["a"].started_at, plan.steps["b"].started_at) == (110.0, None)
    apply(view, moved("a", "completed", "in_progress", duration_s=7.0))
    assert plan.steps["a"].duration_s == 7.0
    assert plan.elapsed(130.0) == 30.0
    apply(view, e.PlanCompletedEvent(status="completed", counts={}, duration_s=1.0, ts=140.0))
    assert (plan.elapsed(999.0), plan.status) == (40.0, "completed")


def test_totals_count_only_what_completed_as_done() -> None:
    state = after(moved("a", "failed", "in_progress", reason="verify", detail="it broke"), moved("b", "skipped"))
    assert (state.done, state.total, list(state.failed), list(state.running)) == (0, 2, ["a"], [])
    assert state.counts == {"failed": 1, "skipped": 1}
    assert state.steps["a"].reason == "verify: it broke"


def test_another_attempt_starts_its_clock_and_budget_anew() -> None:
    begin = e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=100, max_turns=1, **WHO)
    usage = e.UsageEvent(model="m", prompt_tokens=30, completion_tokens=10, **WHO)
    state = after(
        begin,
        usage,
        moved("a", "pending", "in_progress", duration_s=5.0),
        moved("a", "in_progress", attempt=2, ts=200.0),
        begin,
        usage,
    )
    step = state.steps["a"]
    assert (step.attempt, step.started_at, step.budget_used, step.max_tokens, step.spent.tokens) == (
        2,
        200.0,
        40,
        100,
        80,
    )


def test_a_finished_subagent_says_what_its_budget_came_to() -> None:
    ended = e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=77, turns=3, duration_s=1.0, **WHO)
    assert step_after(ended).budget_used == 77


def test_the_time_of_a_turn_has_none_of_the_wait_for_a_person() -> None:
    talk: dict[str, Any] = {"session_id": "talk"}
    view = View()
    for event in (
        e.PromptStartedEvent(prompt_id="p", ts=100.0, **talk),
        e.QuestionEvent(request_id="q", questions=(), ts=101.0, **talk),
        e.QuestionEvent(request_id="r", questions=(), ts=110.0, **talk),
        e.AnswerEvent(request_id="q", answers=(), ts=130.0, **talk),
        e.AnswerEvent(request_id="r", answers=(), ts=161.0, **talk),
        e.PromptEndedEvent(prompt_id="p", outcome="completed", duration_s=62.0, ts=162.0, **talk),
    ):
        apply(view, event)
    [turn] = [agent.turn for agent in view.agents.values()]
    assert turn is not None
    assert turn.seconds == pytest.approx(2.0)


def test_turns_are_counted() -> None:
    assert step_after(*[e.AssistantEvent(message_id=str(n), text="", **WHO) for n in range(3)]).turns == 3


def test_usage_adds_up_and_one_unknown_price_makes_the_sum_unknown() -> None:
    known = e.UsageEvent(model="m", prompt_tokens=10, completion_tokens=5, cost_usd=0.25, **WHO)
    unknown = e.UsageEvent(model="m", prompt_tokens=1, completion_tokens=1)
    view = view_after(known, known)
    plan, step = view.plans[""], view.plans[""].steps["a"]
    assert (plan.tokens, plan.spent.cost_usd, step.spent.tokens, step.spent.cost_usd) == (30, 0.5, 30, 0.5)
    apply(view, unknown)
    apply(view, known)
    assert (plan.tokens, plan.spent.cost_usd, step.spent.cost_usd) == (47, None, 0.75)
    assert (view.spent.tokens, view.spent.calls, view.runs[""].spent.cost_usd) == (47, 4, None)


def test_decisions_are_open_until_taken() -> None:
    opened = e.PlanDecisionEvent(decision_id="d", question="which?", options=("x", "y"))
    view = view_after(opened)
    assert list(view.plans[""].state.open) == ["d"]
    assert [(each.kind, each.event) for each in view.requests.values()] == [("decision", opened)]
    apply(view, e.PlanDecisionEvent(decision_id="d", question="which?", selections=("x",), by="user"))
    assert not view.plans[""].state.open
    assert not view.requests


def test_warnings_errors_and_revisions_are_noticed_once_each() -> None:
    view = view_after(
        e.WarningEvent(code="w", message="careful", **WHO),
        e.ErrorEvent(code="e", message="broken"),
        e.PlanRevisedEvent(operations=({"op": "remove_step", "id": "b"},), reason="better so"),
    )
    assert [(each.number, each.kind, each.message, each.step_id) for each in view.notices.values()] == [
        (1, "warning", "careful", "a"),
        (2, "error", "broken", None),
        (3, "note", "the plan was revised (better so): removed b", None),
    ]
    assert [each.number for each in view.notices_after(1)] == [2, 3]


def test_a_resumed_plan_begins_where_it_stood() -> None:
    resumed = e.PlanResumedEvent(goal="g", steps=(outline("a", status="completed"), outline("b", "a")), done=1)
    state = view_of(resumed).plans[""]
    assert (state.done, state.total, state.status) == (1, 2, "active")


def test_a_paused_plan_says_so() -> None:
    state = after(e.PlanPausedEvent(reason="SIGINT", ts=120.0))
    assert (state.status, state.reason, state.elapsed(500.0)) == ("paused", "SIGINT", 20.0)


def test_a_step_that_a_revision_added_is_shown() -> None:
    state = after(moved("new", "in_progress"))
    assert state.total == 3
    assert list(state.running) == ["a", "new"]


def fastest_event(steps: int) -> float:
    """Return the processor seconds of an event of a plan with so many steps, in the quickest of the rounds."""
    view = View()
    apply(view, started(*(outline(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(steps))))
    rounds: list[float] = []
    for first in range(0, steps, 1_000):
        events: list[Event] = []
        for n in range(first, first + 1_000):
            mine: dict[str, Any] = {"subagent_step_id": f"s{n}"}
            events += [
                moved(f"s{n}", "in_progress"),
                e.AssistantDeltaEvent(message_id="1", text="some words", **mine),
                e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, **mine),
                e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="", **mine),
                e.UsageEvent(model="m", prompt_tokens=1, completion_tokens=1, **mine),
                moved(f"s{n}", "completed", "in_progress"),
            ]
        begun = process_time()
        for event in events:
            apply(view, event)
        rounds.append((process_time() - begun) / len(events))
    assert view.plans[""].done == steps
    return min(rounds)


def test_an_event_costs_the_same_however_many_steps_there_are() -> None:
    few = min(fastest_event(1_000) for _ in range(5))

    assert fastest_event(10_000) < 3 * few


def test_a_plan_whose_process_died_goes_on_no_more_from_when_it_was_heard_of_last() -> None:
    view = view_of(started(outline("a")), moved("a", "in_progress", ts=101.0), moved("b", "completed", ts=105.0))
    source = next(iter(view.runs))

    keys = lose(view, source)

    plan = view.plan
    assert plan is not None
    assert plan.ended_at == 105.0
    assert plan.clock(999.0) == plan.clock(105.0)
    assert [span.end for span in plan.steps["a"].spans] == [5.0]
    assert [(each.ts, each.status) for each in plan.steps["a"].history] == [(101.0, "in_progress"), (105.0, "pending")]
    assert {plan.key, plan.steps["a"].key} <= set(keys)
    assert (plan.steps["a"].status, plan.running, plan.counts.get("in_progress", 0)) == ("pending", {}, 0)


def test_time_at_work_is_exact_however_often_a_step_waited_or_was_checked() -> None:
    view = view_of(started(outline("a")), moved("a", "in_progress", ts=100.0))
    assert view.plan is not None
    step = view.plan.steps["a"]
    begins = e.ToolCallEvent(tool_call_id="c", tool="command", arguments={})
    ends = e.ToolResultEvent(tool_call_id="c", tool="command", status="ok", content="", duration_s=0.1)

    for round_ in range(100):  # checks while it works
        step.update_check(begins, "make test", 0.25 * round_)
        step.update_check(ends, "make test", 0.25 * round_ + 0.125)
    for round_ in range(200):  # one second of work, then ten of waiting for a person
        step.enter("ask", 26.0 + 11.0 * round_)
        step.enter("work", 36.0 + 11.0 * round_)

    now = 36.0 + 11.0 * 199 + 1.0
    assert step.worked(now) == pytest.approx(26.0 + 200.0)
    assert len(step.spans) <= 64


def test_depth_is_that_of_the_longest_path_and_a_circle_breaks_nothing() -> None:
    above = {"a": (), "b": ("a",), "c": ("a", "b", "of another plan"), "d": ("c", "a")}
    assert depths(above) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert set(depths({"a": ("b",), "b": ("a",)})) == {"a", "b"}
    steps = after(started(outline("a", "b"), outline("b", "a"))).steps
    assert list(steps) == ["a", "b"]


def test_files_that_an_agent_changed_are_kept_with_their_lines_until_it_is_given_them_back() -> None:
    def wrote(added: int, removed: int) -> e.ToolResultEvent:
        file = e.WrittenFile(path="a.py", added=added, removed=removed)
        return e.ToolResultEvent(
            tool_call_id="1",
            tool="write_file",
            status="ok",
            content="",
            session_id="chat",
            files_changed=("a.py",),
            display=e.DiffDisplay(files=(file,)),
        )

    made = e.ToolResultEvent(
        tool_call_id="2", tool="bash", status="ok", content="", session_id="chat", files_changed=("b.py",)
    )
    view = view_of(wrote(3, 1), wrote(1, 0), made)
    changed = view.agents["chat"].changed
    assert {path: (file.added, file.removed) for path, file in changed.items()} == {"a.py": (4, 1), "b.py": (0, 0)}
    apply(view, e.ConversationRewoundEvent(message_index=0, files=("a.py",), session_id="chat"))
    assert list(changed) == ["b.py"]
    apply(view, e.ConversationClearedEvent(session_id="chat"))
    assert not changed


def test_a_request_says_what_is_asked_in_a_few_words() -> None:
    new = e.DiffDisplay(files=(e.WrittenFile(path="a.py", created=True),))
    old = e.DiffDisplay(files=(e.WrittenFile(path="a.py"),))
    previews: list[e.Display | None] = [e.CommandDisplay(command="make"), new, old, None]
    asked = [structs.replace(ASKED, preview=preview, request_id=f"{at}") for at, preview in enumerate(previews)]
    said = [(request.asked, request.words) for request in view_of(*asked).requests.values()]
    assert said == [
        ("run make", "asks: run make"),
        ("new a.py?", "asks: new a.py"),
        ("edit a.py?", "asks: edit a.py"),
        ("bash?", "asks: bash"),
    ]


def check(number: int, status: str = "", output: str = "", step_id: str = "a") -> list[Event]:
    """Return the events of a step's check that begins and, with a status, ends."""
    whose: dict[str, Any] = {"subagent_step_id": step_id, "tool_call_id": f"check-{number}", "tool": "command"}
    arguments = {"command": "make test", "purpose": "verify"}
    begun: list[Event] = [e.ToolCallEvent(arguments=arguments, **whose)]
    return [*begun, e.ToolResultEvent(status=status, content=output, **whose)] if status else begun


def test_the_checks_of_all_steps_are_counted_as_they_run() -> None:
    order = e.WorkOrder(verify=("make test", "make lint"))
    steps = (structs.replace(outline("a"), order=order), structs.replace(outline("b"), order=order))
    view = view_of(started(*steps), moved("a", "in_progress"))
    plan = view.plans[""]

    def counted(*events: Event) -> tuple[int, int, int, int]:
        for event in events:
            apply(view, event)
        checks = plan.checks
        return checks.passed, checks.failed, checks.all, checks.same_failure

    assert counted() == (0, 0, 4, 0)
    assert counted(*check(1, "error", "line 7 is wrong")) == (0, 1, 4, 1)
    assert counted(*check(2, "error", "line 9 is wrong")) == (0, 1, 4, 2)
    assert counted(*check(3)) == (0, 0, 4, 2), "it runs again"
    assert counted(*check(4, "ok")) == (1, 0, 4, 0)
    assert counted(*check(5, "error", "no", "b")) == (1, 1, 4, 1)
    assert counted(started(steps[0])) == (1, 0, 2, 0), "those of a step that is gone no more"


def test_a_step_has_its_order_its_attempts_and_who_stops_it() -> None:
    order = e.WorkOrder(prompt="Do it", on_failure="continue")
    view = view_of(started(structs.replace(outline("a"), order=order, workspace="worktree")), moved("a", "in_progress"))
    changed = apply(view, e.PlanActEvent(step_id="a", attempt=1, status="skipped", by="Ana"))
    step = view.plans[""].steps["a"]
    assert ("plans", "", "steps", "a") in changed
    assert (step.order, step.merges) == (order, True)
    assert step.state.stopping is not None
    assert (step.state.stopping.status, step.state.stopping.by) == ("skipped", "Ana")
    result = StepResult(outcome=Outcome.FAILED)
    apply(view, ended("a", result, at=130.0))
    (attempt,) = step.state.attempts
    assert (attempt.number, attempt.result.outcome, attempt.ended_at) == (1, "failed", 130.0)
