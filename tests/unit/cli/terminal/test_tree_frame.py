"""The picture of a run: what is on it, and that it always fits."""

from __future__ import annotations

from io import StringIO
from time import process_time
from typing import Any

import pytest
from msgspec import structs
from rich.cells import cell_len
from rich.console import Console, Group

from ipc import events as e
from ipc.events import Event, StepOutline
from vibe.cli.terminal.tree_frame import frame
from vibe.front.plan_words import bar
from vibe.view.plan_view import PlanView
from vibe.view.view import View, apply

WHO: dict[str, Any] = {"subagent_id": "agent", "subagent_step_id": "slugify"}


def outline(step_id: str, title: str, mode: str, *above: str, status: str = "pending") -> StepOutline:
    return StepOutline(id=step_id, title=title, mode=mode, depends_on=above, status=status)


def moved(step_id: str, status: str, previous: str = "pending", **fields: Any) -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(step_id=step_id, title="T", status=status, previous=previous, **fields)


def quickstart(*events: Event) -> View:
    view = View()
    steps = (
        outline("survey", "Learn how textkit is built", "research"),
        outline("design", "Decide on the two functions", "design", "survey"),
        outline("slugify", "Write slugify()", "code", "design"),
        outline("shorten", "Write shorten()", "code", "design"),
        outline("test", "Run all tests", "test", "slugify", "shorten"),
    )
    begun: tuple[Event, ...] = (
        e.PlanStartedEvent(goal="Give textkit two functions.", steps=steps, ts=1000.0),
        moved("survey", "completed", duration_s=4.25),
        moved("design", "completed", duration_s=75.0),
        moved("slugify", "in_progress", ts=1080.0),
        e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=50_000, max_turns=9, **WHO),
        e.UsageEvent(model="m", prompt_tokens=40_000, completion_tokens=1_000, cost_usd=0.12, **WHO),
        e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash pytest -q", **WHO),
    )
    for event in (*begun, *events):
        apply(view, event)
    return view


def plan_of(view: View) -> PlanView:
    return view.plan or PlanView(key=())


def lines_of(view: View, now: float = 1092.0, width: int = 80, height: int = 23) -> list[str]:
    return [line.plain.rstrip() for line in frame(plan_of(view), now, width, height)]


def test_a_run_on_a_screen_of_80_by_24() -> None:
    assert lines_of(quickstart()) == [
        " Give textkit two functions.",
        "",
        " ✓ Learn how textkit is built           ⌕ research    4.2s",
        " ✓ Decide on the two functions          △ design      1:15",
        " ├ ⠦ Write slugify()                    ◆ code        0:12     41k/50k ██████▌·",
        " │   ╰ bash pytest -q",
        " ├ · Write shorten()                    ◆ code      next",
        " · Run all tests                        ◎ test      after slugify, shorten",
        "",
        " ━━━━━───────  2/5 steps · 1 running · 41k tok · $0.12 · 01:32",
    ]


def test_a_failure_says_why_and_a_skipped_step_too() -> None:
    lines = lines_of(
        quickstart(
            moved("slugify", "failed", "in_progress", reason="verify", detail="2 tests failed", duration_s=20.0),
            moved("shorten", "cancelled", reason="fail_fast"),
            moved("test", "skipped", reason="slugify failed"),
        )
    )
    assert " ├ ✗ Write slugify()                    ◆ code        0:20     41k/50k ██████▌·" in lines
    assert " │   ╰ verify: 2 tests failed" in lines
    assert " ├ × Write shorten()                    ◆ code      cancelled: fail_fast" in lines  # noqa: RUF001  a cross
    assert " - Run all tests                        ◎ test      skipped: slugify failed" in lines
    assert "2/5 steps · 1 failed · 1 skipped · 1 cancelled · 41k tok" in lines[-1]


def test_a_step_behind_a_failed_one_is_not_said_to_be_next() -> None:
    lines = lines_of(
        quickstart(moved("slugify", "failed", "in_progress"), moved("shorten", "completed"), moved("test", "blocked"))
    )
    assert " · Run all tests                        ◎ test      held up by slugify" in lines


def test_where_rows_are_few_what_a_step_does_stands_beside_its_title() -> None:
    lines = lines_of(quickstart(), width=60, height=7)
    assert any("Write slu" in line and "bash p" in line for line in lines), lines


def test_the_totals_are_whole_on_80_columns() -> None:
    view = quickstart(
        moved("shorten", "failed"),
        moved("test", "skipped"),
        e.PlanDecisionEvent(decision_id="d", question="q", options=("a", "b")),
    )
    assert lines_of(view)[-1].endswith("$0.12 · 01:32")


def test_an_open_decision_is_on_the_picture() -> None:
    lines = lines_of(
        quickstart(
            e.PlanDecisionEvent(decision_id="db", question="Which one?", options=("sqlite", "postgres")),
            moved("shorten", "needs_decision"),
        )
    )
    assert " ? db: Which one? (sqlite / postgres)" in lines
    assert any("? Write shorten()" in line and "waits for a decision" in line for line in lines)
    assert "1 undecided" in lines[-1]


def test_a_question_to_the_person_is_marked() -> None:
    asked = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)
    lines = lines_of(quickstart(asked))
    assert any("? Write slugify()" in line for line in lines)
    assert " │   ╰ waits for your approval of bash" in lines


def test_an_unknown_price_is_never_shown_as_a_number() -> None:
    unknown = e.UsageEvent(model="m", prompt_tokens=1, completion_tokens=1, **WHO)
    assert "$" not in lines_of(quickstart(unknown))[-1]
    assert "$" not in lines_of(View())[-1]


def test_another_attempt_is_said() -> None:
    lines = lines_of(quickstart(moved("shorten", "in_progress", attempt=2, ts=1090.0)))
    assert any("Write shorten() (attempt 2)" in line for line in lines)


def test_nothing_a_tool_said_can_move_the_cursor() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\r\n\u202eevil\x9b2J"
    view = quickstart(
        e.ToolStreamEvent(tool_call_id="1", tool="bash", text=evil, **WHO),
        moved("shorten", "failed", "in_progress", reason=evil),
        e.PlanDecisionEvent(decision_id=evil, question=evil, options=(evil,)),
    )
    plan_of(view).goal = evil
    for name, fields in (("survey", {"title": evil}), ("test", {"mode": evil})):
        step = plan_of(view).state.steps[name]
        step.outline = structs.replace(step.outline, **fields)
    drawn = "".join(line.plain for line in frame(plan_of(view), 1092.0, 80, 23))
    assert "evil" in drawn
    assert not [char for char in drawn if char < " " or "\x7f" <= char < "\xa0" or char == "\u202e"]


def big_plan(count: int, running: int = 0, failed: int = 0, done: int = 0) -> View:
    view = View()
    titles = (
        "漢字の長い題名をもつ手順です" * 4,
        "A step with a title that is rather long for one line",
        "Café 👩‍👩‍👧 " * 9,
    )
    apply(
        view,
        e.PlanStartedEvent(
            goal="ゴール " * 60,
            steps=tuple(outline(f"s{n}", f"{n} {titles[n % 3]}", "code") for n in range(count)),
            ts=1000.0,
        ),
    )
    for n in range(done):
        apply(view, moved(f"s{n}", "completed", duration_s=1.0))
    for n in range(done, done + failed):
        apply(view, moved(f"s{n}", "failed", reason="why " * 90))
    for n in range(done + failed, done + failed + running):
        apply(view, moved(f"s{n}", "in_progress", ts=1000.0))
        call = e.ToolCallEvent(
            tool_call_id="1", tool="bash", arguments={}, summary="命令 " * 90, subagent_step_id=f"s{n}"
        )
        apply(view, call)
    return view


@pytest.mark.parametrize(
    ("width", "height"), [(80, 23), (120, 50), (60, 10), (40, 8), (20, 5), (10, 3), (3, 2), (1, 1)]
)
@pytest.mark.parametrize(
    ("count", "running", "failed", "done"), [(3, 1, 1, 1), (20, 4, 0, 8), (60, 40, 10, 5), (2_000, 4, 300, 900)]
)
def test_it_fits_every_terminal(width: int, height: int, count: int, running: int, failed: int, done: int) -> None:
    view = big_plan(count, running, failed, done)
    lines = frame(plan_of(view), 1010.0, width, height)
    assert len(lines) <= height
    assert max(cell_len(line.plain) for line in lines) <= width
    out = StringIO()
    Console(file=out, width=width, height=height, force_terminal=True).print(Group(*lines), end="")
    assert out.getvalue().count("\n") <= height


def test_where_not_all_fit_the_running_the_failed_and_the_next_are_shown_and_the_rest_counted() -> None:
    lines = lines_of(big_plan(500, running=3, failed=2, done=100))
    shown = [line.split()[1] for line in lines if "◆ code" in line]
    assert {"100", "101", "102", "103", "104", "105", "106", "107", "108", "99"} <= set(shown)
    assert shown == sorted(shown, key=int)
    hidden = next(line for line in lines if line.startswith(" …"))
    total = sum(int(part.replace(",", "")) for part in hidden.split() if part.replace(",", "").isdigit())
    assert total + len(shown) == 500
    assert "waiting" in hidden
    assert "pending" not in hidden
    assert "100/500 steps · 3 running · 2 failed" in lines[-1]


def test_runnable_steps_come_before_blocked_ones() -> None:
    steps = [outline(f"b{n}", f"blocked {n}", "code", "first") for n in range(30)]
    ready = [outline(f"r{n}", f"ready {n}", "code") for n in range(2)]
    view = View()
    apply(view, e.PlanStartedEvent(goal="g", steps=(outline("first", "First", "code"), *steps, *ready)))
    apply(view, moved("first", "in_progress"))
    drawn = "\n".join(lines_of(view, height=12))
    assert "ready 0" in drawn
    assert "ready 1" in drawn


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, "····"), (0.001, "▏···"), (0.5, "██··"), (0.97, "███▉"), (1.0, "████"), (3.0, "████")]
)
def test_a_bar(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


def test_a_frame_of_10_000_steps_is_drawn_in_time() -> None:
    view = big_plan(10_000, running=8, failed=20, done=5_000)
    frame(plan_of(view), 1010.0, 80, 23)
    rounds: list[float] = []
    for _ in range(5):
        begun = process_time()
        frame(plan_of(view), 1010.0, 80, 23)
        rounds.append(process_time() - begun)
    assert min(rounds) < 0.06


def test_what_was_taken_over_and_what_is_left_out_say_so() -> None:
    view = View()
    steps = (
        StepOutline(id="a", title="Done before", mode="code", status="completed", reason="reused"),
        StepOutline(id="b", title="Not asked for", mode="code", status="skipped", reason="only"),
        StepOutline(id="c", title="To do", mode="code", depends_on=("a",)),
    )
    apply(view, e.PlanStartedEvent(goal="Again.", steps=steps, ts=1000.0, note="1 of 3 steps reused"))

    assert lines_of(view)[2:5] == [
        " ↺ Done before                          ◆ code      reused",
        " - Not asked for                        ◆ code      left out",
        " · To do                                ◆ code      next",
    ]
    assert [notice.message for notice in view.notices.values()] == ["1 of 3 steps reused"]


def test_the_plans_budget_has_a_bar_that_counts_earlier_runs() -> None:
    view = View()
    steps = (outline("slugify", "Write", "code"),)
    apply(view, e.PlanResumedEvent(goal="Go on.", steps=steps, done=0, tokens=40_000, max_tokens=100_000, ts=1000.0))
    apply(view, e.UsageEvent(model="m", prompt_tokens=9_000, completion_tokens=1_000, cost_usd=0.1, **WHO))

    assert lines_of(view, now=1001.0)[-1] == " ────────────  0/1 steps · 50k/100k tok · $0.10 · 00:01 ████····"


def test_a_step_for_which_a_better_plan_is_looked_for_shows_it_and_the_revision_changes_the_tree() -> None:
    planner: dict[str, Any] = {"subagent_id": "planner", "subagent_step_id": "slugify"}
    view = quickstart(
        moved("slugify", "pending", "in_progress", reason="verify", duration_s=12.0),
        e.SubAgentStartedEvent(title="Mend", mode="design", model="m", tools=(), max_tokens=9, max_turns=9, **planner),
    )
    drawn = lines_of(view)
    assert any(line.startswith(" ├ ⠦ Write slugify()") for line in drawn)
    assert " │   ╰ replanning › waiting for the model" in drawn  # noqa: RUF001  a mark
    assert "1 replanning" in drawn[-1]

    operations = (
        {"op": "add_step", "step": {"id": "plan-b", "title": "Another way", "mode": "code", "depends_on": ["design"]}},
        {"op": "add_edge", "step": "test", "depends_on": {"step": "plan-b", "on": "completed"}},
        {"op": "remove_edge", "step": "test", "depends_on": "slugify"},
        {"op": "update_step", "id": "shorten", "changes": {"title": "Write shorten() first"}},
        {"op": "remove_step", "id": "slugify"},
    )
    apply(view, e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=5, turns=1, duration_s=1.0, **planner))
    apply(view, e.PlanRevisedEvent(operations=operations, reason="it can't be done so"))
    drawn = lines_of(view)

    assert not any("Write slugify()" in line or "replanning" in line for line in drawn)
    assert any("Write shorten() first" in line for line in drawn)
    assert any("Another way" in line and "next" in line for line in drawn)
    assert any("Run all tests" in line and "after shorten, plan-b" in line for line in drawn)
    assert list(view.notices.values())[-1].message == (
        "the plan was revised (it can't be done so): added plan-b; reordered test; changed shorten; removed slugify"
    )


def test_a_step_in_a_worktree_is_merged_when_its_agent_is_done() -> None:
    view = View()
    steps = (StepOutline(id="slugify", title="Write", mode="code", workspace="worktree"),)
    for event in (
        e.PlanStartedEvent(goal="Go.", steps=steps, ts=1000.0),
        moved("slugify", "in_progress", ts=1000.0),
        e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=9, max_turns=9, **WHO),
        e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=5, turns=1, duration_s=1.0, **WHO),
    ):
        apply(view, event)

    assert "   ╰ its work is being merged" in lines_of(view)


@pytest.mark.parametrize(("purpose", "shown"), [("step", "$ make all"), ("verify", "check make all")])
def test_the_hosts_own_commands_look_as_in_a_shell(purpose: str, shown: str) -> None:
    call = e.ToolCallEvent(
        tool_call_id="9", tool="command", arguments={"command": "make all", "purpose": purpose}, summary="x", **WHO
    )

    assert plan_of(quickstart(call)).steps["slugify"].doing().startswith(shown)
