"""What a command may change about a plan that nobody runs, as the records that say so; nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from planner.instructions import DecisionTaken, RestoredStep
from planner.loader import LoadedPlan
from planner.model import Plan, PlanStatus, StepStatus
from planner.operations import Operation, SetBudget, plain_operations
from planner.problems import DecisionInvalidError, PlanEndedError, UnknownStepError, listed
from planner.readiness import check_selections
from planner.records import (
    CommandAttached,
    DecisionMade,
    JournalRecord,
    PlanMoved,
    PlanRevised,
    StepMoved,
    StepsReset,
)
from planner.replay import RestoredPlan, StepReason
from planner.reuse import ONLY_REASON
from planner.revision import revise
from planner.standing import standing_of
from planner.step_limits import is_exhausted

_OPEN = frozenset({PlanStatus.IDLE, PlanStatus.ACTIVE, PlanStatus.PAUSED})
_REVISABLE = _OPEN | {PlanStatus.FAILED}
FIXED_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.CANCELLED, StepStatus.IN_PROGRESS})
"""Steps that no revision may change."""


def resetting(
    loaded: LoadedPlan, restored: RestoredPlan, step_ids: Collection[str], *, at: float
) -> tuple[JournalRecord, ...]:
    """Have steps done again, with whatever depends on them; the plan can be resumed.

    Raises:
        PlanEndedError: the plan was cancelled.
        UnknownStepError: the plan has no such step.
    """
    if restored.status is PlanStatus.CANCELLED:
        raise PlanEndedError(restored.status.value, "a cancelled plan is not changed; run the plan file again")
    known = loaded.dag.dependencies
    for step_id in step_ids:
        if step_id not in known:
            raise UnknownStepError(step_id, known)
    chosen = with_dependants(loaded, restored, step_ids)
    return (
        _attached(at),
        StepsReset(at=at, step_ids=tuple(s for s in chosen if s in restored.steps)),
        PlanMoved(at=at, status=PlanStatus.PAUSED, reason="reset"),
    )


def with_dependants(loaded: LoadedPlan, restored: RestoredPlan, step_ids: Collection[str]) -> tuple[str, ...]:
    """These steps and all that depend on them, however remotely; in topological order.

    What the run was not to do, see ``--only``, is none of them unless it is named.
    """
    chosen = set(step_ids)
    for step_id in loaded.dag.order:
        left_out = restored.reasons.get(step_id, StepReason()).reason == ONLY_REASON
        if not left_out and not chosen.isdisjoint(loaded.dag.dependencies[step_id]):
            chosen.add(step_id)
    return tuple(step_id for step_id in loaded.dag.order if step_id in chosen)


def deciding(
    plan: Plan,
    restored: RestoredPlan,
    answer: DecisionTaken,
    *,
    flags: Mapping[str, tuple[str, ...]],
    at: float,
) -> tuple[JournalRecord, ...]:
    """Take one of the plan's decisions, or one that a step waits for; the plan can be resumed.

    ``flags`` are the decisions given when the plan was run.

    Raises:
        PlanEndedError: the plan has ended.
        DecisionInvalidError: there is no such decision, it was taken, or it does not offer this.
    """
    if restored.status not in _OPEN:
        raise PlanEndedError(restored.status.value, "there is nothing left to decide")
    decision_id, taken = answer.decision_id, {**flags, **restored.decisions}
    if decision_id in taken:
        raise DecisionInvalidError(decision_id, f"it was taken already: {listed(taken[decision_id])}")
    standing = standing_of(plan, restored, decisions=flags)
    known = {decision.id: decision for decision in (*standing.open_decisions, *plan.decisions)}
    if decision_id not in known:
        waiting = [name for name in known if name not in taken]
        raise DecisionInvalidError(decision_id, f"it is not open; open decisions: {listed(waiting)}")
    check_selections(known[decision_id], answer.selections)
    return (
        _attached(at),
        DecisionMade(at=at, decision_id=decision_id, selections=answer.selections, by=answer.by),
        PlanMoved(at=at, status=PlanStatus.PAUSED, reason="decided"),
    )


def cancelling(plan: Plan, restored: RestoredPlan, *, reason: str, at: float) -> tuple[JournalRecord, ...]:
    """Give up every step that is not final, and the plan.

    Raises:
        PlanEndedError: the plan has ended.
    """
    if restored.status not in _OPEN:
        raise PlanEndedError(restored.status.value, "there is nothing left to cancel")
    moves: list[JournalRecord] = []
    for step in plan.steps:
        was = restored.steps.get(step.id, RestoredStep(StepStatus.PENDING))
        if not was.status.is_final:
            moves.append(
                StepMoved(
                    at=at,
                    step_id=step.id,
                    previous=was.status,
                    status=StepStatus.CANCELLED,
                    reason=reason,
                    attempt=was.attempt,
                )
            )
    return (_attached(at), *moves, PlanMoved(at=at, status=PlanStatus.CANCELLED, reason=reason))


def revising(
    plan: Plan, restored: RestoredPlan, operations: Sequence[Operation], *, reason: str, by: str, at: float
) -> tuple[JournalRecord, ...]:
    """Change the plan; steps that are completed, skipped or cancelled stay as they are. The plan can be resumed.

    Raises:
        PlanEndedError: the plan has ended otherwise than by a failure.
        RevisionInvalidError: it can't be carried out.
    """
    if restored.status not in _REVISABLE:
        raise PlanEndedError(restored.status.value, "there is nothing left to change; run the edited plan file")
    revised = revise(plan, operations, fixed=fixed_steps({s: step.status for s, step in restored.steps.items()}))
    return (
        _attached(at),
        PlanRevised(at=at, operations=plain_operations(operations), reason=reason, by=by),
        *_given_more(revised, restored, operations, at),
        PlanMoved(at=at, status=PlanStatus.PAUSED, reason="revised"),
    )


def _given_more(
    revised: LoadedPlan, restored: RestoredPlan, operations: Sequence[Operation], at: float
) -> Iterator[JournalRecord]:
    """With another budget, what failed for want of one is done again, with whatever depends on it."""
    if not any(isinstance(operation, SetBudget) for operation in operations):
        return
    out = {step_id for step_id, result in restored.results.items() if is_exhausted(result)} & set(
        revised.dag.dependencies
    )
    if out:
        again = with_dependants(revised, restored, out)
        yield StepsReset(at=at, step_ids=tuple(step_id for step_id in again if step_id in restored.steps))


def fixed_steps(statuses: Mapping[str, StepStatus]) -> frozenset[str]:
    """The steps a revision must leave as they are."""
    return frozenset(step_id for step_id, status in statuses.items() if status in FIXED_STATUSES)


def _attached(at: float) -> CommandAttached:
    return CommandAttached(at=at, pid=os.getpid())
