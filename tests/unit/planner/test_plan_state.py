"""A program that runs steps itself learns which ones to run, and its reports are checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ipc.events import PlanCompletedEvent, PlanStartedEvent, PlanStepUpdateEvent
from planner.plan.diagnostics import DecisionInvalidError, IllegalTransitionError, UnknownStepError
from planner.plan.status import PlanStatus, StepStatus
from planner.plan_state import PlanState, PlanStepStatus
from tests.unit.planner.scripted_run import choice, make_plan, step


def runnable(state: PlanState) -> list[str]:
    return [one.step_id for one in state.get_runnable_steps()]


def done(state: PlanState, step_id: str, status: str = "completed") -> None:
    state.update_step_status(step_id, "in_progress")
    state.update_step_status(step_id, status)


def test_steps_are_offered_as_what_they_wait_for_is_done() -> None:
    state = PlanState(make_plan([step("a"), step("b"), step("c", "a", "b")]))
    assert state.status is PlanStatus.ACTIVE
    assert runnable(state) == ["a", "b"]
    assert [one.status for one in state.steps] == ["pending", "pending", "blocked"]
    state.update_step_status("a", PlanStepStatus.IN_PROGRESS)
    assert runnable(state) == ["b"]
    state.update_step_status("a", PlanStepStatus.COMPLETED)
    done(state, "b")
    assert runnable(state) == ["c"]
    done(state, "c")
    assert state.status is PlanStatus.COMPLETED
    assert {one.status for one in state.steps} == {StepStatus.COMPLETED}


def test_a_decision_unblocks_what_waited_and_skips_what_it_rules_out() -> None:
    steps = [step("a", decision="which"), step("b", when={"which": ["y"]})]
    state = PlanState(make_plan(steps, [choice("which", "x", "y")]))
    assert runnable(state) == []
    assert [one.status for one in state.steps] == ["needs_decision", "needs_decision"]
    with pytest.raises(DecisionInvalidError):
        state.decide("which", ["z"])
    assert state.decisions["which"].selections == ()
    state.decide("which", ["x"])
    assert state.decisions["which"].selections == ("x",)
    assert runnable(state) == ["a"]
    done(state, "a")
    assert state.status is PlanStatus.COMPLETED
    assert state.steps[1].status is StepStatus.SKIPPED


def test_a_failed_step_is_offered_again_while_it_has_retries() -> None:
    state = PlanState(make_plan([step("a", retries=1), step("b", "a")]))
    done(state, "a", "failed")
    assert runnable(state) == ["a"]
    done(state, "a", "failed")
    assert runnable(state) == []
    assert state.status is PlanStatus.FAILED


def test_what_cannot_be_is_refused() -> None:
    state = PlanState(make_plan([step("a"), step("b", "a")]))
    with pytest.raises(IllegalTransitionError):
        state.update_step_status("b", "in_progress")
    with pytest.raises(IllegalTransitionError):
        state.update_step_status("a", "completed")
    with pytest.raises(IllegalTransitionError):
        state.update_step_status("a", "skipped")
    with pytest.raises(UnknownStepError):
        state.update_step_status("z", "completed")


def test_no_more_steps_are_offered_than_may_run_at_once() -> None:
    state = PlanState(make_plan([step(name) for name in "abc"]), max_parallel=2)
    assert runnable(state) == ["a", "b"]
    done(state, "b")
    assert runnable(state) == ["a", "c"]


def test_the_documented_program_runs_and_hears_what_a_run_announces(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "plan.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"## From a program.*?```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102  our own documentation

    assert capsys.readouterr().out == "completed ['completed', 'completed']\n"
    told = names["events"].events
    assert (type(told[0]), type(told[-1])) == (PlanStartedEvent, PlanCompletedEvent)
    moves = [(event.step_id, event.status) for event in told if isinstance(event, PlanStepUpdateEvent)]
    assert [move for move in moves if move[0] == "build"] == [("build", "in_progress"), ("build", "completed")]
