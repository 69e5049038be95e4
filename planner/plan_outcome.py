"""How a run of a plan ended: a census of its steps, never a flag."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from planner.instructions import EndPlan
from planner.model import PlanStatus, StepStatus
from subagents.executor import ENVIRONMENT_REASON, StepResult
from vibe.core.messages import Usage
from vibe.core.outcome import Outcome

BUDGET_REASON = "budget"
DECISION_REASON = "decision"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """Where a step stands at the end of a run. ``attempts`` counts those begun, ``result`` is the last one's.

    ``tolerated`` marks a failure that its step's ``on_failure: continue`` lets pass.
    """

    step_id: str
    title: str
    status: StepStatus
    reason: str | None = None
    detail: str = ""
    attempts: int = 0
    result: StepResult | None = None
    tolerated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """What a run came to. ``usage`` and ``cost_usd`` (None: unknown) sum over every attempt of the plan's life.

    ``duration_s`` is this run's; ``steps`` are in the plan's order.
    """

    plan_id: str
    status: PlanStatus
    outcome: Outcome
    reason: str | None
    steps: tuple[StepReport, ...]
    counts: Mapping[str, int]
    warnings: tuple[str, ...]
    usage: Usage
    cost_usd: float | None
    duration_s: float


def outcome_of(end: EndPlan, steps: Sequence[StepReport], *, refused: Collection[Outcome]) -> Outcome:
    """The outcome of a run that ended so, by what its steps came to.

    A failure that counts beats a limit; a call that nobody could approve beats both. ``refused`` are the outcomes of
    all that a provider refused: FAILED is about the key, and no waiting helps against that.
    """
    match end.status:
        case PlanStatus.COMPLETED:
            return Outcome.COMPLETED
        case PlanStatus.PAUSED if end.reason == DECISION_REASON:
            return Outcome.BLOCKED
        case PlanStatus.PAUSED if end.reason == ENVIRONMENT_REASON:
            return Outcome.FAILED
        case PlanStatus.PAUSED if refused:
            return Outcome.FAILED if Outcome.FAILED in refused else Outcome.LIMIT
        case PlanStatus.PAUSED | PlanStatus.CANCELLED:
            return Outcome.INTERRUPTED
        case _:
            return _failure(end, steps)


def _failure(end: EndPlan, steps: Sequence[StepReport]) -> Outcome:
    ended = {
        step.result.outcome if step.result else Outcome.FAILED
        for step in steps
        if step.status is StepStatus.FAILED and not step.tolerated
    }
    if Outcome.BLOCKED in ended:
        return Outcome.BLOCKED
    if Outcome.FAILED in ended:
        return Outcome.FAILED
    return Outcome.LIMIT if Outcome.LIMIT in ended or end.reason == BUDGET_REASON else Outcome.FAILED


def warnings_of(steps: Sequence[StepReport], dropped: Sequence[str]) -> tuple[str, ...]:
    """What a person should know of a run that it did not end for: tolerated failures, and what a torn journal lost."""
    failures = [
        f"step {step.step_id!r} failed ({step.detail or step.reason or 'no reason given'}); "
        'continued because on_failure is "continue"'
        for step in steps
        if step.tolerated
    ]
    return (*dropped, *failures)
