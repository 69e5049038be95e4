"""The facts that commands come to, as they are recorded."""

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
LONGEST_RETRY_SECONDS = 60.0

SMALLEST_PRICE = 1e-9

INTERRUPTED_REASON = "interrupted"
_END_REASON = {Outcome.FAILED: "failed", Outcome.BLOCKED: "blocked", Outcome.LIMIT: "budget"}


def left_after(step: Step, attempt: int, result: StepResult, *, cut: bool) -> Left | None:
    """Return how an attempt is left that came to ``result``; None: the step ends with it.

    A step with side effects is never begun again by itself, whatever its ``retries`` say.
    """
    if result.outcome is Outcome.COMPLETED:
        return None
    if result.provider_refused or result.outcome is Outcome.INTERRUPTED:
        return Left.CUT if cut else Left.STOPPED
    if climbs(step, attempt, result):
        return Left.RETRYING
    rungs = max(0, len(step.models) - 1)
    if result.outcome is Outcome.FAILED and rungs < attempt <= step.retries + rungs and not step.side_effects:
        return Left.RETRYING
    if step.on_failure == "ask":
        return Left.ASKING
    return Left.REVISING if step.on_failure == "replan" else None


def climbs(step: Step, attempt: int, result: StepResult) -> bool:
    """Return whether the next model of a list makes the next attempt after one that came to ``result``."""
    if attempt >= len(step.models) or result.provider_refused or result.reason == LOST_REASON:
        return False
    return result.outcome in {Outcome.FAILED, Outcome.BLOCKED} or is_exhausted(result)


def has_room(step: Step, left: tuple[float, float]) -> bool:
    """Return whether so many tokens and USD are what one more attempt at a step may take."""
    tokens, price = left
    return tokens >= (step.max_tokens or 1) and price >= (step.max_price or SMALLEST_PRICE)


def halts(result: StepResult) -> bool:
    """Return whether no other step would fare better now, so that the plan pauses."""
    is_unserved = result.outcome is Outcome.INTERRUPTED and result.reason == ENVIRONMENT_REASON
    return (result.provider_refused and result.outcome is not Outcome.COMPLETED) or is_unserved


def reason_of(result: StepResult) -> str | None:
    """The stable word for an attempt's end; None for a good one."""
    return result.reason or _END_REASON.get(result.outcome)


def retry_delay(failed_attempt: int) -> float:
    """Seconds until the attempt after this one; none if that is another model's, whose turn has come."""
    if failed_attempt < 1:
        return 0.0
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failed_attempt - 1, 10))


def is_over(state: State) -> bool:
    """Return whether the run is over."""
    return state.is_run and state.status is not PlanStatus.ACTIVE


def step_moved(
    state: State, step_id: str, status: StepStatus, at: float, why: tuple[str | None, str] = (None, "")
) -> e.PlanStepUpdateEvent:
    """A step changes status."""
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
    """A step changes status, from the one given and at the attempt given."""
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
        tolerated=status is StepStatus.FAILED and tolerates(schedule_of(state).steps[step_id]),
    )


def step_stopped(state: State, step: StepState, status: StepStatus, by: str, at: float) -> e.PlanStepUpdateEvent:
    """A step is cancelled or skipped on request; its dependants see a failure, or run without it."""
    step_id, told = step.outline.id, step.detail or step.reason or ""
    if status is StepStatus.SKIPPED:
        return step_moved(state, step_id, status, at, (WAIVED_REASON, told or f"by {by}"))
    moved = step_moved(state, step_id, status, at, (by, told))
    return structs.replace(moved, tolerated=tolerates(schedule_of(state).steps[step_id]))


def tolerates(step: Step) -> bool:
    """Return whether the plan goes on as if a step had completed that failed; for an item's its list answers."""
    return step.on_failure == "continue" or isinstance(step, Child)


def question_about(state: State, step: StepState) -> e.PlanDecisionEvent:
    """The decision about the last attempt at a step."""
    kind = FAILED_KIND if step.left is Left.ASKING else INTERRUPTED_KIND
    ended = step.detail or step.reason or (reason_of(step.result) if step.result else None) or ""
    ordered = schedule_of(state).steps[step.outline.id]
    return step_decision(ordered, step.attempt, kind, ended, is_item=isinstance(ordered, Child))


def step_asked(
    state: State,
    step: StepState,
    decision: e.PlanDecisionEvent,
    at: float,
    why: tuple[str | None, str] | None = None,
) -> tuple[e.Fact, ...]:
    """A step waits for an answer about its last attempt."""
    if why is None:
        reason = step.reason if step.left is Left.ASKING else INTERRUPTED_REASON
        why = reason, step.detail if step.left is Left.ASKING else ""
    moved = step_moved(state, step.outline.id, StepStatus.NEEDS_DECISION, at, why)
    return moved, stamped(state, decision, at)


def plan_stopping(
    state: State, status: PlanStatus, reason: str, at: float, outcome: str | None = None
) -> e.PlanStoppingEvent:
    """Nothing more is started."""
    return e.PlanStoppingEvent(ts=at, plan_id=state.plan_id, status=status.value, reason=reason, outcome=outcome)


def stamped(state: State, fact: FactT, at: float, **fields: Any) -> FactT:
    """A fact of this plan at this time."""
    return structs.replace(fact, ts=at, plan_id=state.plan_id, **fields)


def steps_given_up(state: State, reason: str, at: float) -> list[e.PlanStepUpdateEvent]:
    """Every open step that does not run is given up."""
    waiting = [step_id for step_id in state.open_steps() if step_id not in state.running]
    return [step_moved(state, step_id, StepStatus.CANCELLED, at, (reason, "")) for step_id in waiting]
