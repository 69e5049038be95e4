"""The outcome of a run of a plan: a census of its steps, never a flag."""

from __future__ import annotations

from planner.plan.status import PlanStatus, StepStatus
from planner.state.state import State
from subagents.executor import ENVIRONMENT_REASON
from vibe.core.outcome import Outcome

BUDGET_REASON = "budget"
DECISION_REASON = "decision"


def outcome_of(state: State, status: PlanStatus, reason: str | None) -> Outcome:
    """The outcome of a run that ends so, by what its steps came to.

    A failure that counts beats a limit; a call that nobody could approve beats both. If a provider refused, FAILED is
    about the key, and no waiting helps against that.
    """
    match status:
        case PlanStatus.COMPLETED:
            return Outcome.COMPLETED
        case PlanStatus.PAUSED if reason == DECISION_REASON:
            return Outcome.BLOCKED
        case PlanStatus.PAUSED if reason == ENVIRONMENT_REASON:
            return Outcome.FAILED
        case PlanStatus.PAUSED if state.refused:
            return Outcome.FAILED if Outcome.FAILED in state.refused else Outcome.LIMIT
        case PlanStatus.PAUSED | PlanStatus.CANCELLED:
            return Outcome.INTERRUPTED
        case _:
            return _failure(state, reason)


def _failure(state: State, reason: str | None) -> Outcome:
    ended = {
        step.result.outcome if step.result else Outcome.FAILED
        for step in state.steps.values()
        if step.status is StepStatus.FAILED and not step.tolerated
    }
    if Outcome.BLOCKED in ended:
        return Outcome.BLOCKED
    if Outcome.FAILED in ended:
        return Outcome.FAILED
    return Outcome.LIMIT if Outcome.LIMIT in ended or reason == BUDGET_REASON else Outcome.FAILED
