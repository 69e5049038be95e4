from __future__ import annotations

from typing import Any

from planner.instructions import RestoredStep, Unfinished
from planner.journal import JournalContent
from planner.model import PlanStatus, StepStatus
from planner.records import (
    AttemptEnded,
    DecisionMade,
    DecisionOpened,
    JournalRecord,
    PlanMoved,
    PlanRevised,
    ProcessAttached,
    StepMoved,
    StepsReset,
)
from planner.replay import RestoredPlan, Spending, restore, total_of
from subagents.executor import StepResult
from tests.fakes.executor import completed, failed
from vibe.core.messages import Usage
from vibe.core.outcome import Outcome

PENDING, RUNNING = StepStatus.PENDING, StepStatus.IN_PROGRESS


def replayed(*records: JournalRecord) -> RestoredPlan:
    return restore(JournalContent(records=records, dropped=("lost",), length=0, unfinished=False))


def began(step_id: str = "a", attempt: int = 1) -> StepMoved:
    return StepMoved(at=1.0, step_id=step_id, previous=PENDING, status=RUNNING, attempt=attempt)


def moved(status: StepStatus, step_id: str = "a", attempt: int = 1, **fields: Any) -> StepMoved:
    return StepMoved(at=2.0, step_id=step_id, previous=RUNNING, status=status, attempt=attempt, **fields)


def ended(result: StepResult, step_id: str = "a", attempt: int = 1, **fields: Any) -> AttemptEnded:
    return AttemptEnded(at=2.0, step_id=step_id, attempt=attempt, result=result, **fields)


def test_an_empty_journal_is_an_idle_plan() -> None:
    plan = replayed()
    assert (plan.status, plan.steps, plan.spent, plan.attached) == (PlanStatus.IDLE, {}, {}, 0)
    assert plan.dropped == ("lost",)


def test_a_step_that_was_running_comes_back_pending_at_its_attempt() -> None:
    assert replayed(began(attempt=2)).steps == {"a": RestoredStep(PENDING, 2, Unfinished.CUT)}


def test_a_finished_step_comes_back_with_its_result_and_reason() -> None:
    plan = replayed(began(), ended(failed()), moved(StepStatus.FAILED, reason="verify", detail="broken"))
    assert plan.steps == {"a": RestoredStep(StepStatus.FAILED, 1, reason="verify")}
    assert plan.results == {"a": failed()}
    assert plan.reasons["a"].detail == "broken"


def test_a_result_counts_even_when_the_transition_was_never_written() -> None:
    refused = StepResult(outcome=Outcome.FAILED, reason="provider", provider_refused=True)
    interrupted = StepResult(outcome=Outcome.INTERRUPTED)
    limit = StepResult(outcome=Outcome.LIMIT, reason="budget")
    plan = replayed(
        ended(completed(), "done"),
        ended(failed(), "failed"),
        ended(failed(), "again", retry=True),
        ended(limit, "limit"),
        ended(refused, "refused"),
        ended(interrupted, "interrupted", attempt=3),
    )
    assert plan.steps == {
        "done": RestoredStep(StepStatus.COMPLETED, 1),
        "failed": RestoredStep(StepStatus.FAILED, 1, reason="verify"),
        "again": RestoredStep(PENDING, 2),
        "limit": RestoredStep(StepStatus.FAILED, 1, reason="budget"),
        "refused": RestoredStep(PENDING, 1, Unfinished.STOPPED),
        "interrupted": RestoredStep(PENDING, 3, Unfinished.STOPPED),
    }
    assert set(plan.results) == {"done", "failed", "limit"}


def test_usage_and_cost_are_summed_over_every_attempt() -> None:
    first = StepResult(outcome=Outcome.FAILED, usage=Usage(10, 5, 1, 1), cost_usd=0.25)
    second = StepResult(outcome=Outcome.COMPLETED, usage=Usage(20, 5, 0, 2), cost_usd=0.5)
    command = StepResult(outcome=Outcome.COMPLETED)
    plan = replayed(ended(first, retry=True), ended(second, attempt=2), ended(command, "b"))
    assert total_of(plan.spent.values()) == Spending(Usage(30, 10, 1, 3), 0.75)


def test_one_unknown_price_makes_the_cost_unknown() -> None:
    unknown = StepResult(outcome=Outcome.COMPLETED, usage=Usage(1, 1, 0, 1))
    known = StepResult(outcome=Outcome.COMPLETED, usage=Usage(1, 1, 0, 1), cost_usd=0.5)
    plan = replayed(ended(known), ended(unknown, "b"), ended(known, "c"))
    assert total_of(plan.spent.values()).cost_usd is None


def test_decisions_taken_are_kept_and_open_ones_are_not() -> None:
    plan = replayed(
        DecisionOpened(at=1.0, decision_id="x"),
        DecisionOpened(at=1.0, decision_id="y"),
        DecisionMade(at=2.0, decision_id="x", selections=("one", "two"), by="user"),
    )
    assert plan.decisions == {"x": ("one", "two")}


def test_active_time_is_that_of_processes_without_the_gaps_between_them() -> None:
    plan = replayed(
        ProcessAttached(at=100.0, pid=1),
        PlanMoved(at=110.0, status=PlanStatus.PAUSED, reason="user"),
        ProcessAttached(at=5000.0, pid=2),
        PlanMoved(at=5000.0, status=PlanStatus.ACTIVE),
        StepMoved(at=5005.0, step_id="a", previous=PENDING, status=RUNNING, attempt=1),
    )
    assert plan.active_seconds == 15.0
    assert plan.attached == 2
    assert (plan.status, plan.reason) == (PlanStatus.ACTIVE, None)


def test_a_clock_that_is_set_back_takes_no_time_from_what_was_used() -> None:
    plan = replayed(
        ProcessAttached(at=100.0, pid=1),
        PlanMoved(at=110.0, status=PlanStatus.ACTIVE),
        StepMoved(at=40.0, step_id="a", previous=PENDING, status=RUNNING, attempt=1),
        PlanMoved(at=45.0, status=PlanStatus.PAUSED, reason="user"),
    )
    assert plan.active_seconds == 15.0


def test_a_reset_step_is_pending_again_under_its_next_attempt() -> None:
    plan = replayed(
        ended(failed()),
        moved(StepStatus.FAILED),
        moved(StepStatus.SKIPPED, "b"),
        StepsReset(at=3.0, step_ids=("a", "b", "unknown")),
    )
    assert plan.steps == {"a": RestoredStep(PENDING, 2), "b": RestoredStep(PENDING, 1)}
    assert plan.results == {}
    assert plan.counts() == {"pending": 2}


def test_a_revision_that_leaves_the_failed_step_as_it_is_lets_it_have_failed() -> None:
    revised = PlanRevised(at=3.0, operations=({"op": "add_step", "step": {"id": "n"}},), by="replan", step_id="a")
    plan = replayed(began(), ended(failed(), unfinished=Unfinished.REVISING), revised)
    assert plan.steps == {"a": RestoredStep(StepStatus.FAILED, 1)}
    assert (plan.results, plan.revisions) == ({"a": failed()}, (revised,))


def test_a_step_that_is_removed_is_remembered_as_it_stood() -> None:
    gone = PlanRevised(at=3.0, operations=({"op": "remove_step", "id": "a"},))
    plan = replayed(began(attempt=2), gone)
    assert (plan.steps, plan.removed["a"].attempt, plan.removed["a"].status.is_final) == ({}, 2, False)


def test_a_step_that_waits_for_an_answer_keeps_why_over_another_process() -> None:
    again = StepMoved(at=4.0, step_id="a", previous=PENDING, status=StepStatus.NEEDS_DECISION, attempt=1)
    plan = replayed(began(), ended(failed(detail="no luck"), unfinished=Unfinished.ASKING), again)
    assert plan.steps == {"a": RestoredStep(PENDING, 1, Unfinished.ASKING, reason="verify", detail="no luck")}
    assert plan.results == {"a": failed(detail="no luck")}


def test_a_yes_to_running_it_again_is_used_up_by_running_it() -> None:
    yes = DecisionMade(at=2.0, decision_id="interrupted:a:1", selections=("again",))
    assert replayed(began(), yes).decisions == {"interrupted:a:1": ("again",)}
    assert replayed(began(), yes, began()).decisions == {}
