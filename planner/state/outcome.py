"""The outcome of a run of a plan, always derived from the states of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from planner.plan.model import Plan
from planner.plan.status import PlanStatus, StepStatus
from planner.state.lists import with_list
from planner.state.state import BUDGET_REASON, State, StepState
from subagents.step_result import ENVIRONMENT_REASON
from vibe.core.messages import Outcome, Usage, total_of

DECISION_REASON = "decision"
BAD_END = {StepStatus.FAILED: "failed", StepStatus.CANCELLED: "was cancelled"}


class RunResult(Struct, frozen=True, kw_only=True):
    """The result of a run, with its steps in the plan's order.

    ``usage`` and ``cost_usd`` (None if unknown) add up all attempts in the plan's life; ``duration_s`` is this run's.
    """

    plan_id: str
    status: PlanStatus
    outcome: Outcome
    reason: str | None
    steps: tuple[StepState, ...]
    warnings: tuple[str, ...]
    usage: Usage
    cost_usd: float | None
    duration_s: float


def result_of(state: State, plan: Plan, dropped: Sequence[str], duration_s: float) -> RunResult:
    """Return the result of a run that leaves the plan in this state; see ``warnings_of`` for ``dropped``."""
    known = {step.id: step for step in plan.steps}
    steps = tuple(with_list(state, known, step_id) for step_id in known)
    spending = total_of(state.spent().values())
    return RunResult(
        plan_id=state.plan_id,
        status=state.status,
        outcome=state.outcome or outcome_of(state, state.status, state.reason),
        reason=state.reason,
        steps=steps,
        warnings=warnings_of(steps, dropped),
        usage=spending.usage,
        cost_usd=spending.cost_usd,
        duration_s=duration_s,
    )


def warnings_of(steps: Iterable[StepState], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return notes on a run for people: what a torn journal lost (``dropped``), and failures that were tolerated."""
    failures = [
        f"step {step.id!r} {BAD_END[step.status]} ({step.detail or step.reason or 'no reason given'}); "
        'continued because on_failure is "continue"'
        for step in steps
        if step.tolerated and step.status in BAD_END and not step.pattern
    ]
    return (*dropped, *failures)


def outcome_of(state: State, status: PlanStatus, reason: str | None) -> Outcome:
    """Return the outcome of a run that ends with this status and reason.

    In a failed plan, a call left unapproved outweighs a failure, and a failure outweighs a limit. In a pause after a
    provider's refusal, FAILED outweighs LIMIT: it is about the key, and waiting does not help.
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
    causes = [step for step in causes_of(state.steps.values()) if step.status is StepStatus.FAILED]
    ended = {step.result.outcome if step.result else Outcome.FAILED for step in causes}
    without_cause = Outcome.LIMIT if reason == BUDGET_REASON else Outcome.FAILED
    worst_first = (Outcome.BLOCKED, Outcome.FAILED, Outcome.LIMIT)
    return next((outcome for outcome in worst_first if outcome in ended), without_cause)


def causes_of(steps: Iterable[StepState]) -> list[StepState]:
    """Return the steps that keep the plan from completing; for a step with a list, the items of it that failed."""
    known = list(steps)
    spoiling = [step for step in known if step.spoils]
    lists = {step.id for step in spoiling if step.reason != BUDGET_REASON}
    failed = [step for step in known if step.status is StepStatus.FAILED]
    items = [step for step in failed if step.pattern in lists or (step.pattern and step.spoils)]
    explained = {step_id for item in items for step_id in (item.id, item.pattern)}
    return [*(step for step in spoiling if step.id not in explained), *items]
