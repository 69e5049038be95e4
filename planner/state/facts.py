"""Builds the facts that commands lead to, and holds the rules for what follows a failed attempt."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import structs

from ipc import events as e
from planner.plan.diagnostics import IllegalTransitionError
from planner.plan.model import Child, Step
from planner.plan.status import STEP_TRANSITIONS, PlanStatus, StepStatus
from planner.state.decisions import FAILED_KIND, INTERRUPTED_KIND, step_decision
from planner.state.schedule import schedule_of
from planner.state.state import IN_PROGRESS, WAIVED_REASON, WORDS, Left, State, StepState, is_exhausted
from subagents.step_result import ENVIRONMENT_REASON, LOST_REASON, StepResult
from vibe.core.messages import Outcome

FactT = TypeVar("FactT", bound=e.BaseEvent)

FIRST_RETRY_SECONDS = 1.0
"""The wait before the first retry; it doubles with each further one."""
LONGEST_RETRY_SECONDS = 60.0

INTERRUPTED_REASON = "interrupted"
_END_REASON = {Outcome.FAILED: "failed", Outcome.BLOCKED: "blocked", Outcome.LIMIT: "budget"}


def left_after(step: Step, attempt: int, result: StepResult, *, cut: bool) -> Left | None:
    """Return how an attempt with this result is left, or None if the step ends with it.

    ``cut`` says that it was cancelled in the middle of a turn. Whatever its ``retries`` say, a step with side effects
    is never retried by itself.
    """
    if result.outcome is Outcome.COMPLETED:
        return None
    if result.provider_refused or result.outcome is Outcome.INTERRUPTED:
        return Left.CUT if cut else Left.STOPPED
    if moves_to_next_model(step, attempt, result):
        return Left.RETRYING
    others = max(0, len(step.models) - 1)  # models that had an attempt each, before the last one and its retries
    if result.outcome is Outcome.FAILED and others < attempt <= step.retries + others and not step.side_effects:
        return Left.RETRYING
    # Skipped by a person, a step that the plan's budget ended would let the plan seem done within it.
    if step.on_failure == "ask" and not result.is_limited_by_plan:
        return Left.ASKING
    return Left.REVISING if step.on_failure == "replan" else None


def moves_to_next_model(step: Step, attempt: int, result: StepResult) -> bool:
    """Return whether, after an attempt with this result, the next model of the step's list makes another one."""
    if attempt >= len(step.models) or result.provider_refused or result.any_model or result.reason == LOST_REASON:
        return False
    return result.outcome in {Outcome.FAILED, Outcome.BLOCKED} or is_exhausted(result)


def pauses_plan(result: StepResult) -> bool:
    """Return whether the plan pauses, because any other step would now fail in the same way."""
    is_unserved = result.outcome is Outcome.INTERRUPTED and result.reason == ENVIRONMENT_REASON
    return (result.provider_refused and result.outcome is not Outcome.COMPLETED) or is_unserved


def reason_of(result: StepResult) -> str | None:
    """Return the stable word for why an attempt ended, or None if it completed."""
    return result.reason or _END_REASON.get(result.outcome)


def retry_delay(failed_attempt: int) -> float:
    """Return the seconds to wait after this failed attempt; 0 if it is below 1, as the next model takes over."""
    if failed_attempt < 1:
        return 0.0
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failed_attempt - 1, 10))


def run_is_over(state: State) -> bool:
    """Return whether the end of the plan's latest run is recorded, and nothing has changed the plan since."""
    return state.is_run and state.status is not PlanStatus.ACTIVE


def step_moved(
    state: State, step_id: str, status: StepStatus, at: float, why: tuple[str | None, str] = (None, "")
) -> e.PlanStepUpdateEvent:
    """Return the fact that a step changes status.

    Raises:
        IllegalTransitionError: the step can't get from its status to that one.
    """
    step = state.steps[step_id]
    if status not in STEP_TRANSITIONS[step.status]:
        raise IllegalTransitionError(f"step {step_id!r}", step.status, status)
    return step_event(state, step, step.status, status, at, why)


def step_event(  # noqa: PLR0917, PLR0913  what an event of a step tells
    state: State,
    step: StepState,
    previous: StepStatus,
    status: StepStatus,
    at: float,
    why: tuple[str | None, str],
    attempt: int | None = None,
) -> e.PlanStepUpdateEvent:
    """Return the fact that a step changes status, from ``previous`` and with ``attempt`` as its number."""
    step_id = step.outline.id
    began = state.running.get(step_id) if previous is IN_PROGRESS else None
    return e.PlanStepUpdateEvent(
        ts=at,
        plan_id=state.plan_id,
        step_id=step_id,
        title=step.outline.title,
        status=WORDS[status],
        previous=WORDS[previous],
        reason=why[0],
        detail=why[1],
        attempt=step.attempt if attempt is None else attempt,
        duration_s=None if began is None else at - began[0],
        tolerated=status is StepStatus.FAILED and tolerates(schedule_of(state).steps[step_id], step.last_result),
    )


def step_stopped(state: State, step: StepState, status: StepStatus, by: str, at: float) -> e.PlanStepUpdateEvent:
    """Return the fact that a step is cancelled or skipped on request; dependants see a failure or run without it."""
    step_id, detail = step.outline.id, step.detail or step.reason or ""
    if status is StepStatus.SKIPPED:
        return step_moved(state, step_id, status, at, (WAIVED_REASON, detail or f"by {by}"))
    moved = step_moved(state, step_id, status, at, (by, detail))
    return structs.replace(moved, tolerated=tolerates(schedule_of(state).steps[step_id], step.last_result))


def tolerates(step: Step, result: StepResult) -> bool:
    """Return whether the plan tolerates a failure of this step. A failed item counts only towards its list's result.

    Nothing tolerates that the plan's budget is used up: the step is done once there is more.
    """
    return (step.on_failure == "continue" or isinstance(step, Child)) and not result.is_limited_by_plan


def question_about(state: State, step: StepState) -> e.PlanDecisionEvent:
    """Return the decision to open about the last attempt at a step."""
    kind = FAILED_KIND if step.left is Left.ASKING else INTERRUPTED_KIND
    ended = step.detail or step.reason or (reason_of(step.result) if step.result else None) or ""
    ordered = schedule_of(state).steps[step.outline.id]
    return step_decision(ordered, step.attempt, kind, ended, is_item=isinstance(ordered, Child))


def step_asked(
    state: State, step: StepState, decision: e.PlanDecisionEvent, at: float, why: tuple[str | None, str] | None = None
) -> tuple[e.Fact, ...]:
    """Return the facts that a step waits for an answer about its last attempt, and the decision that asks for it."""
    if why is None:
        reason = step.reason if step.left is Left.ASKING else INTERRUPTED_REASON
        why = reason, step.detail if step.left is Left.ASKING else ""
    moved = step_moved(state, step.outline.id, StepStatus.NEEDS_DECISION, at, why)
    return moved, stamped(state, decision, at)


def plan_stopping(
    state: State, status: PlanStatus, reason: str, at: float, outcome: str | None = None
) -> e.PlanStoppingEvent:
    """Return the fact that the plan starts no more steps and, once none runs, gets this status."""
    return e.PlanStoppingEvent(ts=at, plan_id=state.plan_id, status=status.value, reason=reason, outcome=outcome)


def stamped(state: State, fact: FactT, at: float, **fields: Any) -> FactT:
    """Return the fact with this plan's id, this time and these fields."""
    return structs.replace(fact, ts=at, plan_id=state.plan_id, **fields)


def steps_given_up(state: State, reason: str, at: float) -> list[e.PlanStepUpdateEvent]:
    """Return facts that cancel every open step that is not running."""
    waiting = [step_id for step_id in state.open_steps() if step_id not in state.running]
    return [step_moved(state, step_id, StepStatus.CANCELLED, at, (reason, "")) for step_id in waiting]
