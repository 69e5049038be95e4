"""A failed step, and a plan that runs while the person leaves: the text, and the effect of each key."""

from __future__ import annotations

from typing import Any

import pytest

from ipc import events as e
from tests.unit.cli.textual_ui.panels.stage import Stage, request, stage
from vibe.cli.textual_ui.panels.plan_panels import blocked_by
from vibe.view.view import View, apply

PLAN: dict[str, Any] = {"plan_id": "p", "source": "s", "ts": 1_000.0}
HOST: dict[str, Any] = {"tool_call_id": "c", "tool": "command", "subagent_step_id": "totals", **PLAN}
AGENT: dict[str, Any] = {"subagent_id": "a", "subagent_step_id": "totals", **PLAN}
CHECK = "python3 -m unittest"
PRINTED = "".join(f"line {number}\n" for number in range(7)) + "\x1b[2JAssertionError: 9.9 != 9.0\n\n"
STEPS = (
    e.StepOutline(id="totals", title="Fix total()", mode="code", order=e.WorkOrder(on_failure="continue")),
    e.StepOutline(id="check", title="Run all", mode="code", depends_on=("totals",)),
    e.StepOutline(id="docs", title="Write", mode="code", depends_on=("check",)),
    e.StepOutline(id="other", title="Else", mode="code"),
)


def moved(status: str, previous: str, **fields: Any) -> e.PlanStepUpdateEvent:
    known: dict[str, Any] = {"step_id": "totals", "title": "Fix total()", **PLAN, **fields}
    return e.PlanStepUpdateEvent(status=status, previous=previous, **known)


def failing(on_failure: str = "continue") -> View:
    """Return a view of a plan whose first step failed."""
    first = e.StepOutline(id="totals", title="Fix total()", mode="code", order=e.WorkOrder(on_failure=on_failure))
    view = View()
    for event in (
        e.PlanStartedEvent(goal="g", steps=(first, *STEPS[1:]), **PLAN),
        moved("in_progress", "pending"),
        e.ToolCallEvent(arguments={"command": CHECK, "purpose": "verify"}, **HOST),
        e.ToolResultEvent(
            status="error", content=PRINTED, display=e.CommandDisplay(command=CHECK, exit_code=1), **HOST
        ),
        e.AssistantEvent(message_id="m", text="I tried.\n\nA share, or\nan amount?", **AGENT),
        moved("failed", "in_progress", reason="verify"),
    ):
        apply(view, event)
    return view


async def present(on: Stage, view: View) -> None:
    on.app.bottom.present(view, frozenset({("plans", "p")}))
    await on.settle()


async def test_exit_code_and_tries_are_told_beside_a_check_that_fills_the_row() -> None:
    async with stage(width=70) as on:
        view = failing()
        (step,) = view.plans["p"].failed.values()
        step.checks[CHECK].command = "python3 -m unittest tests.test_cart tests.test_receipt tests.test_all"
        await present(on, view)

        first = next(place for place, row in enumerate(on.rows) if "✗" in row)
        assert on.rows[first].endswith("  exit 1 · 1 try")
        assert on.rows[first + 1].strip("▌ ") == "tests.test_receipt tests.test_all"


async def test_a_failed_step_is_told_with_its_check_its_output_and_the_agents_last_words() -> None:
    async with stage() as on:
        await present(on, failing())
        assert on.lines == [
            "Failed  totals  Fix total()",
            "  ✗ python3 -m unittest",
            "  │ line 5",
            "  │ line 6",
            "  │ AssertionError: 9.9 != 9.0",
            '  "A share, or an amount?"',
        ]
        assert [row.rpartition("   ")[2] for row in on.rows if "✗" in row or "Assertion" in row] == [
            "exit 1 · 1 try",
            "5 more lines · Enter",
        ]
        assert on.rows[-1].endswith("blocks check, docs")
        await on.press("enter")
        assert "  │ line 0" in on.lines
        assert on.app.heard == []


@pytest.mark.parametrize(
    ("key", "action"), [("r", "/retry totals"), ("k", "/skip totals"), ("o", "opens p/totals"), ("R", "/retry totals")]
)
async def test_each_key_acts_on_a_failed_step(key: str, action: str) -> None:
    async with stage() as on:
        await present(on, failing())
        await on.press(key)
        assert on.app.heard == [(action, "")]
        assert (on.app.bottom.shown is on.app.prompt) == (key != "o")


async def test_a_failed_step_of_a_run_that_takes_no_commands_any_more_can_only_be_read() -> None:
    async with stage() as on:
        await present(on, failing())
        assert "r retry   t tell it something first   k skip   o open   Esc later" in on.screen
        on.app.bottom.is_over = True
        await present(on, failing())
        assert "Failed  totals" in on.screen
        assert "o open   Esc later" in on.screen
        assert not any(key in on.screen for key in ("r retry", "t tell", "k skip"))
        await on.press("k", "t", "r")
        assert on.app.heard == []


async def test_a_failed_step_is_told_something_before_it_is_tried_again() -> None:
    async with stage() as on:
        await present(on, failing())
        await on.press("t", *"a share", "escape")
        assert on.app.heard == []
        await on.press("t", *"an amount", "enter")
        assert on.app.heard == [("/retry totals an amount", "")]
        assert on.app.bottom.shown is on.app.prompt


async def test_a_failed_step_can_be_put_off_and_goes_once_it_is_tried_again() -> None:
    view = failing()
    async with stage() as on:
        await present(on, view)
        await on.press("escape")
        assert on.app.sign == "✗ 1 failed · Tab"
        await on.press("tab", "tab")
        assert "Failed" in on.screen
        apply(view, moved("in_progress", "failed", attempt=2))
        await present(on, view)
        assert on.app.bottom.shown is on.app.prompt
        assert on.app.sign == ""
        apply(view, moved("failed", "in_progress", attempt=2))
        on.app.clock.now += 1
        await present(on, view)
        assert "Failed" in on.screen


async def test_a_request_comes_before_a_failed_step() -> None:
    async with stage() as on:
        await present(on, failing())
        await on.approve(request())
        assert "Permission" in on.screen
        assert "1 of 2 · Tab next" in on.screen
        await on.press("tab")
        assert "Failed" in on.screen


async def test_a_step_that_gets_a_better_plan_is_told_of_once_none_was_found() -> None:
    view = failing("replan")
    async with stage() as on:
        await present(on, view)
        assert on.app.bottom.shown is on.app.prompt
        apply(view, e.PlanCompletedEvent(status="failed", outcome="failed", counts={}, duration_s=1.0, **PLAN))
        await present(on, view)
        assert "Failed" in on.screen


async def test_what_a_command_printed_is_told_once_and_its_exit_code_in_words() -> None:
    steps = (e.StepOutline(id="totals", title="Sum", mode="test", order=e.WorkOrder(command="make")),)
    work = e.WorkDone(summary="boom")
    view = View()
    for event in (
        e.PlanStartedEvent(goal="g", steps=steps, **PLAN),
        moved("in_progress", "pending"),
        moved("failed", "in_progress", reason="exit_code", detail="`make` exited with 2", work=work),
    ):
        apply(view, event)
    async with stage() as on:
        await present(on, view)
        assert on.lines == ["Failed  totals  Sum", "  ✗ `make` exited with 2"]
        assert "r retry   k skip   o open   Esc later" in on.screen  # a command has no agent to tell something to
        await on.press("t")
        assert "what should it know?" not in on.screen


async def test_in_a_low_window_the_ways_to_leave_are_among_the_keys() -> None:
    async with stage(20, 5) as on:
        assert on.app.bottom.ask_leaving(failing().plans["p"], "vibe -c goes on", can_outlive=True)
        await on.settle()
        assert all(word in on.screen for word in ("p pause", "b leave", "c cancel", "Esc stay"))


def test_only_steps_that_come_after_it_are_held_up() -> None:
    plan = failing().plans["p"]
    assert blocked_by(plan, "totals") == ["check", "docs"]
    assert blocked_by(plan, "docs") == []


async def test_who_leaves_again_is_asked_no_longer() -> None:
    async with stage() as on:
        assert on.app.bottom.ask_leaving(failing().plans["p"], "vibe -c goes on")
        await on.settle()
        assert not on.app.bottom.ask_leaving(failing().plans["p"], "vibe -c goes on")
        await on.settle()

        assert on.app.bottom.shown is on.app.prompt
        assert "Leave?" not in on.screen


@pytest.mark.parametrize(
    ("key", "heard"),
    [("p", ("", "leaves")), ("b", ("", "leaves, it goes on")), ("c", ("/cancel", "leaves")), ("escape", ("", ""))],
)
async def test_who_leaves_says_what_becomes_of_the_plan(key: str, heard: tuple[str, str]) -> None:
    async with stage() as on:
        await on.press(*"half a")
        assert on.app.bottom.ask_leaving(failing().plans["p"], "vibe -c goes on", can_outlive=True)
        await on.settle()
        assert "Leave?  a plan is running" in on.screen
        assert any(line.endswith("when they are done; vibe -c goes on") for line in on.lines)
        assert any(line.endswith("vibe --attach p looks on; open requests wait") for line in on.lines)
        assert "0/4 · 0 agents at work" in on.screen
        await on.press("x")
        on.app.clock.now += 1
        await on.press(key)
        assert on.app.heard == [heard]
        assert on.app.bottom.shown is on.app.prompt
        assert on.app.prompt.text == "half a"
