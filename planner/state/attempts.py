"""Consequences of the end of an attempt."""

from __future__ import annotations

from collections.abc import Sequence

from ipc import events as e
from planner.plan.diagnostics import IllegalTransitionError
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.commands import Decided, Effect
from planner.state.facts import (
    is_over,
    plan_stopping,
    question_about,
    step_asked,
    step_event,
    step_moved,
    step_stopped,
    tolerates,
)
from planner.state.failure_policy import INTERRUPTED_REASON, halts, left_after, reason_of, retry_delay
from planner.state.schedule import schedule_of
from planner.state.state import END_STATUS, Left, State, StepState
from subagents.step_result import StepResult
from vibe.core.outcome import Outcome


def attempt_ended(state: State, command: c.AttemptEnded, at: float) -> Decided:
    """Record what an attempt came to; nothing follows before that is on disk."""
    step_id, result = command.step_id, command.result
    if step_id not in state.running:
        status = state.steps[step_id].status if step_id in state.steps else "unknown"
        raise IllegalTransitionError(f"step {step_id!r}", status, result.outcome)
    standing, step = state.steps[step_id], schedule_of(state).steps[step_id]
    attempt = standing.attempt
    left = left_after(step, attempt, result, cut=command.cut)
    if standing.stopping is not None and result.outcome is not Outcome.COMPLETED:
        left = Left.CUT if command.cut else Left.STOPPED  # a user cancelled or skipped it: nothing follows
    ended = e.PlanAttemptEvent(
        ts=at,
        plan_id=state.plan_id,
        step_id=step_id,
        attempt=attempt,
        result=command.raw,
        left=None if left is None else left.value,
        tolerated=tolerates(step),
    )
    return Decided((ended,))


def attempt_saved(state: State, command: c.AttemptSaved, at: float) -> Decided:
    """Move the step on whose attempt has ended: its result is on disk."""
    step = state.steps[command.step_id]
    result = step.result
    if result is None or not step.is_over:
        raise IllegalTransitionError(f"step {command.step_id!r}", step.status, "what its attempt came to")
    if step.left is None and step.stopping is None:
        return Decided((_finished(state, step, result, at),))
    if state.stopping is not None and state.stopping.status == PlanStatus.CANCELLED:
        if step.left in (Left.STOPPED, Left.CUT):
            why = (state.stopping.reason, result.detail)
            return Decided((step_moved(state, command.step_id, StepStatus.CANCELLED, at, why),))
        return Decided((_finished(state, step, result, at),))
    facts, effects = _follow_attempt(state, step, result, at)
    if halts(result) and state.stopping is None:
        facts = (*facts, plan_stopping(state, PlanStatus.PAUSED, result.reason or "provider", at))
    return Decided(facts, effects)


def _follow_attempt(
    state: State, step: StepState, result: StepResult, at: float
) -> tuple[Sequence[e.Fact], Sequence[Effect]]:
    if step.stopping is not None and result.outcome is not Outcome.COMPLETED:
        return (step_stopped(state, step, StepStatus(step.stopping.status), step.stopping.by, at),), ()
    if step.left is None:
        return (_finished(state, step, result, at),), ()
    step_id, failed = step.outline.id, (reason_of(result), result.detail)
    match step.left:
        case Left.RETRYING:
            why = (result.reason or "failed", result.detail)
            again = step.attempt + 1
            moved = step_event(state, step, StepStatus.IN_PROGRESS, StepStatus.PENDING, at, why, again)
            return (moved,), (c.WaitForRetry(step_id, again, retry_delay(step.attempt)),)
        case Left.ASKING:
            return step_asked(state, step, question_about(state, step), at, failed), ()
        case Left.REVISING:
            return (step_moved(state, step_id, StepStatus.PENDING, at, failed),), (c.AskReviser(step_id),)
        case Left.CUT if schedule_of(state).steps[step_id].side_effects:
            why = (result.reason or INTERRUPTED_REASON, result.detail)
            return step_asked(state, step, question_about(state, step), at, why), ()
        case _:
            reason = result.reason or ("provider" if result.provider_refused else INTERRUPTED_REASON)
            return (step_moved(state, step_id, StepStatus.PENDING, at, (reason, result.detail)),), ()


def _finished(state: State, step: StepState, result: StepResult, at: float) -> e.PlanStepUpdateEvent:
    status = END_STATUS[result.outcome]
    reason = reason_of(result) if status is StepStatus.FAILED else result.reason
    return step_moved(state, step.outline.id, status, at, (reason, result.detail))


def retry_due(state: State, command: c.RetryDue, at: float) -> Decided:
    """Let a step wait no longer for its next attempt."""
    step = state.steps.get(command.step_id)
    if step is None or step.left is not Left.RETRYING or is_over(state):
        return Decided()
    due = e.PlanRetryEvent(ts=at, plan_id=state.plan_id, step_id=command.step_id, attempt=step.attempt)
    return Decided((due,))
