"""Facts folded into the state of a plan, as a reader of its log sees it."""

from __future__ import annotations

import msgspec
import pytest

from ipc import events as e
from planner.plan.status import PlanStatus, StepStatus
from planner.state.evolve import FactInvalidError, evolve, fold
from planner.state.state import Left, State, StepState
from subagents.executor import StepResult
from tests.fakes.executor import completed, failed
from tests.unit.planner.facts import began, decision, ended, moved, paused, revised, took_up
from vibe.core.messages import Outcome, Spending, Usage, total_of

PENDING = StepStatus.PENDING


def left_alone(*facts: e.Fact) -> State:
    """Return the state once nobody runs the plan any more."""
    return evolve(fold(facts), e.PlanEditedEvent())


def brief(step: StepState) -> tuple[StepStatus, int, Left | None]:
    return step.status, step.attempt, step.left


def test_no_facts_are_an_idle_plan() -> None:
    state = fold(())
    assert (state.status, state.steps, state.spent(), state.attached) == (PlanStatus.IDLE, {}, {}, 0)


def test_a_step_that_was_running_comes_back_pending_at_its_attempt() -> None:
    state = left_alone(took_up(), began("a", attempt=2))
    assert brief(state.steps["a"]) == (PENDING, 2, Left.CUT)
    assert state.steps["a"].spans[-1].ended == "cut"


def test_a_finished_step_has_its_result_and_reason() -> None:
    state = fold((began("a"), ended("a", failed()), moved("a", StepStatus.FAILED, reason="verify", detail="broken")))
    step = state.steps["a"]
    assert (*brief(step), step.reason, step.detail) == (StepStatus.FAILED, 1, None, "verify", "broken")
    assert (step.result, state.failures) == (failed(), {"a": "verify"})


def test_a_result_counts_even_when_the_transition_was_never_written() -> None:
    refused = StepResult(outcome=Outcome.FAILED, reason="provider", provider_refused=True)
    limit = StepResult(outcome=Outcome.LIMIT, reason="budget")
    state = left_alone(
        ended("done", completed()),
        ended("failed", failed()),
        ended("again", failed(), left="retrying"),
        ended("limit", limit),
        ended("refused", refused, left="stopped"),
        ended("interrupted", StepResult(outcome=Outcome.INTERRUPTED), attempt=3, left="cut"),
        ended("asking", failed(), left="asking"),
    )
    assert {step_id: brief(step) for step_id, step in state.steps.items()} == {
        "done": (StepStatus.COMPLETED, 1, None),
        "failed": (StepStatus.FAILED, 1, None),
        "again": (PENDING, 2, None),
        "limit": (StepStatus.FAILED, 1, None),
        "refused": (PENDING, 1, Left.STOPPED),
        "interrupted": (PENDING, 3, Left.CUT),
        "asking": (PENDING, 1, Left.ASKING),
    }
    assert set(state.results()) == {"done", "failed", "limit", "asking"}
    assert state.failures == {"failed": "verify", "limit": "budget"}


def test_usage_and_cost_are_summed_over_every_attempt() -> None:
    first = StepResult(outcome=Outcome.FAILED, usage=Usage(10, 5, 1, 1), cost_usd=0.25)
    second = StepResult(outcome=Outcome.COMPLETED, usage=Usage(20, 5, 0, 2), cost_usd=0.5)
    state = fold((ended("a", first, left="retrying"), ended("a", second, attempt=2), ended("b", completed())))
    assert total_of(state.spent().values()) == Spending(Usage(30, 10, 1, 3), 0.75)


def test_one_unknown_price_makes_the_cost_unknown() -> None:
    unknown = StepResult(outcome=Outcome.COMPLETED, usage=Usage(1, 1, 0, 1))
    known = StepResult(outcome=Outcome.COMPLETED, usage=Usage(1, 1, 0, 1), cost_usd=0.5)
    state = fold((ended("a", known), ended("b", unknown), ended("c", known)))
    assert total_of(state.spent().values()).cost_usd is None


def test_decisions_taken_are_open_no_more() -> None:
    state = fold((decision("x"), decision("y"), decision("x", "one", "two", by="user")))
    assert (state.answers(), list(state.open)) == ({"x": ("one", "two")}, ["y"])


def test_active_time_is_that_of_processes_without_the_gaps_between_them() -> None:
    state = fold((took_up(100.0), paused(at=110.0), took_up(5000.0, again=True), began("a", at=5005.0)))
    assert (state.active_seconds, state.breaks, state.attached) == (15.0, [10.0], 2)
    assert (state.status, state.reason) == (PlanStatus.ACTIVE, None)


def test_the_time_between_a_killed_process_and_the_next_is_nobodys() -> None:
    killed = (took_up(100.0), began("a", at=110.0))
    assert fold((*killed, took_up(5000.0, again=True), began("a", at=5005.0))).active_seconds == 15.0
    assert fold((*killed, e.PlanEditedEvent(ts=5000.0), paused(at=5001.0))).active_seconds == 10.0


def test_a_clock_that_is_set_back_takes_no_time_from_what_was_used() -> None:
    state = fold((took_up(100.0), paused(at=110.0), began("a", at=40.0), paused(at=45.0)))
    assert state.active_seconds == 15.0


def test_leaving_the_workspace_takes_no_time_whatever_the_clock_was_set_to() -> None:
    left = (took_up(100.0), paused(at=110.0), e.PlanLeftEvent(ts=5_000_000.0, commit="c0ffee"))
    assert fold(left).active_seconds == 10.0


def test_a_reset_step_is_pending_again_under_its_next_attempt() -> None:
    reset = e.PlanResetEvent(step_ids=("a", "b", "unknown"))
    state = fold((
        *(began("a"), ended("a", failed()), moved("a", StepStatus.FAILED)),
        *(moved("b", StepStatus.SKIPPED, previous=PENDING), reset),
    ))
    assert {step_id: brief(step) for step_id, step in state.steps.items()} == {
        "a": (PENDING, 2, None),
        "b": (PENDING, 1, None),
    }
    assert (state.results(), state.counted(), state.failures) == ({}, {"pending": 2}, {})


def test_a_revision_that_leaves_the_failed_step_as_it_is_lets_it_have_failed() -> None:
    elsewhere = revised({"op": "add_step", "step": {"id": "n"}}, by="replan", step_id="a")
    state = left_alone(began("a"), ended("a", failed(), left="revising"), moved("a", PENDING), elsewhere)
    assert brief(state.steps["a"]) == (StepStatus.FAILED, 1, None)
    assert (state.steps["a"].result, state.revisions) == (failed(), [elsewhere])


def test_a_step_that_is_removed_is_remembered_as_it_stood() -> None:
    gone = revised({"op": "remove_step", "id": "a"})
    state = fold((ended("a", failed(), attempt=2, left="asking"), moved("a", PENDING, attempt=2), gone))
    (removed,) = state.removed_for_good()
    assert (state.steps, removed.id, removed.status, removed.step.begun) == ({}, "a", StepStatus.FAILED, 2)
    again = fold((began("a"), gone, revised({"op": "add_step", "step": {"id": "a"}})))
    assert again.removed_for_good() == []


def test_a_step_that_waits_for_an_answer_keeps_why_over_another_process() -> None:
    asked = moved("a", StepStatus.NEEDS_DECISION, previous=PENDING, reason="verify", detail="no luck")
    no_luck = failed(detail="no luck")
    state = left_alone(took_up(), began("a"), ended("a", no_luck, left="asking"), asked)
    step = state.steps["a"]
    assert (*brief(step), step.reason, step.detail) == (PENDING, 1, Left.ASKING, "verify", "no luck")
    assert step.result == no_luck


def test_a_yes_to_running_it_again_is_used_up_by_running_it() -> None:
    yes = decision("interrupted:a:1", "again")
    cut = (began("a"), e.PlanEditedEvent())
    assert fold((*cut, yes)).answers() == {"interrupted:a:1": ("again",)}
    assert fold((*cut, yes, began("a"))).answers() == {}


@pytest.mark.parametrize(
    "fact",
    [
        moved("a", PENDING).__class__(step_id="a", title="a", status="dancing", previous="pending"),
        e.PlanAttemptEvent(step_id="a", attempt=1, result=msgspec.Raw(b'{"outcome":"odd"}')),
        e.PlanAttemptEvent(step_id="a", attempt=1, result=msgspec.Raw(b"nonsense")),
        ended("a", left="elsewhere"),
        e.PlanCompletedEvent(status="lost", counts={}, duration_s=0.0),
        e.PlanStartedEvent(goal="g", steps=(e.StepOutline(id="a", title="a", mode="code", status="odd"),)),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_what_a_later_version_means_is_said_not_guessed(fact: e.Fact) -> None:
    state = fold((took_up(1.0, None, "a"),))
    with pytest.raises(FactInvalidError, match="can't be applied"):
        evolve(state, fact)
    assert state.steps == fold((took_up(1.0, None, "a"),)).steps
