"""Short constructors for the facts of a plan, as a journal holds them."""

from __future__ import annotations

from typing import Any

import msgspec

from ipc import events as e
from ipc.commands import Act, StepAction
from planner.plan.model import Plan, PlanStatus, StepStatus
from planner.state.schedule import outline_of
from subagents.executor import StepResult
from tests.fakes.executor import completed
from vibe.core.messages import Outcome


def took_up(at: float = 1.0, plan: Plan | None = None, *step_ids: str, again: bool = False) -> e.Fact:
    """Return the fact that a process started, or with ``again`` resumed, a plan of these steps."""
    outlines = (
        *(outline_of(step) for step in (plan.steps if plan else ())),
        *(e.StepOutline(id=step_id, title=step_id, mode="research") for step_id in step_ids),
    )
    if again:
        return e.PlanResumedEvent(ts=at, goal="a goal", steps=outlines, done=0)
    return e.PlanStartedEvent(ts=at, goal="a goal", steps=outlines)


def moved(
    step_id: str,
    status: StepStatus,
    *,
    previous: StepStatus = StepStatus.IN_PROGRESS,
    attempt: int = 1,
    at: float = 2.0,
    **fields: Any,
) -> e.PlanStepUpdateEvent:
    """Return the fact that a step changed status."""
    return e.PlanStepUpdateEvent(
        ts=at,
        step_id=step_id,
        title=step_id,
        status=status.value,
        previous=previous.value,
        attempt=attempt,
        **fields,
    )


def began(step_id: str, attempt: int = 1, at: float = 2.0) -> e.PlanStepUpdateEvent:
    """Return the fact that an attempt began."""
    return moved(step_id, StepStatus.IN_PROGRESS, previous=StepStatus.PENDING, attempt=attempt, at=at)


def ended(
    step_id: str, result: StepResult | None = None, attempt: int = 1, at: float = 3.0, **fields: Any
) -> e.PlanAttemptEvent:
    """Return the fact that an attempt ended."""
    raw = msgspec.Raw(msgspec.json.encode(result or completed()))
    return e.PlanAttemptEvent(ts=at, step_id=step_id, attempt=attempt, result=raw, **fields)


def reused(step_id: str, from_plan: str, result: StepResult, at: float = 1.0) -> e.PlanReusedEvent:
    """Return the fact that a step's result was reused from another plan."""
    raw = msgspec.Raw(msgspec.json.encode(result))
    return e.PlanReusedEvent(ts=at, step_id=step_id, from_plan=from_plan, result=raw)


def decision(decision_id: str, *chosen: str, by: str = "", at: float = 2.0) -> e.PlanDecisionEvent:
    """Return the fact that a decision was opened, or with ``chosen`` taken."""
    kind, _, rest = decision_id.partition(":")
    step_id, _, attempt = rest.partition(":")
    about: dict[str, Any] = {"kind": kind, "step_id": step_id, "attempt": int(attempt)} if rest else {}
    return e.PlanDecisionEvent(ts=at, decision_id=decision_id, question="Which?", selections=chosen, by=by, **about)


def revised(*operations: dict[str, Any], at: float = 3.0, **fields: Any) -> e.PlanRevisedEvent:
    """Return the fact that the plan was revised."""
    return e.PlanRevisedEvent(ts=at, operations=operations, **fields)


def paused(reason: str = "user", at: float = 4.0, outcome: Outcome | None = None) -> e.PlanPausedEvent:
    """Return the fact that the plan was paused."""
    return e.PlanPausedEvent(ts=at, reason=reason, outcome=None if outcome is None else outcome.value)


def finished(
    status: PlanStatus = PlanStatus.COMPLETED, at: float = 4.0, reason: str | None = None, outcome: str | None = None
) -> e.PlanCompletedEvent:
    """Return the fact that the plan ended."""
    return e.PlanCompletedEvent(ts=at, status=status.value, counts={}, duration_s=0.0, reason=reason, outcome=outcome)


def retrying(step_id: str) -> Act:
    """Return the command to do a step again."""
    return Act(step_id=step_id, action=StepAction.RETRY)
