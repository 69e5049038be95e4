"""Acts of users on one step, of a running plan or a resting one: cancel it, skip it, have it done again.

A step that runs is stopped first: ``plan.act`` is recorded at once, and the step moves when its attempt has
ended. One that a person is asked about is answered, as its decision would be.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ipc import events as e
from ipc.commands import Act, Decide, StepAction
from planner.plan.diagnostics import PlanEndedError, UnknownStepError, listed
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.answers import take_decision
from planner.state.changes import TooLateError, do_again, with_dependants
from planner.state.commands import Decided, Effect, Refusal
from planner.state.decisions import StepChoice
from planner.state.facts import is_over, plan_paused, step_event, step_stopped
from planner.state.schedule import schedule_of
from planner.state.state import ONLY_REASON, Left, State, StepState
from vibe.core.outcome import Outcome
from vibe.system.errors import UsageError

CHANGED_REASON = "changed"
"""Reason of a pause after a step of a resting plan was cancelled or skipped."""
STOPPED_DETAIL = "the step was stopped by a command"
_STOPPED = {StepAction.CANCEL: StepStatus.CANCELLED, StepAction.SKIP: StepStatus.SKIPPED}
_CHOICES = {
    StepAction.CANCEL: frozenset({StepChoice.STOP}),
    StepAction.RETRY: frozenset({StepChoice.RETRY, StepChoice.AGAIN}),
    StepAction.SKIP: frozenset({StepChoice.SKIP}),
}


class StepActError(UsageError):
    """A step can't be cancelled, skipped or done again as it stands; the sentence says why and what can be done."""

    def __init__(self, step_id: str, action: StepAction, problem: str) -> None:
        super().__init__(f"can't {action.value} step {step_id!r}: {problem}")
        self.step_id = step_id
        self.action = action


def act_on_step(state: State, command: Act, at: float) -> Decided | Refusal:
    """Cancel a step, skip it or have it done again, if that makes sense as it stands."""
    if is_over(state):
        return Refusal(TooLateError())
    if state.status is PlanStatus.CANCELLED or _is_given_up(state):
        return Refusal(PlanEndedError("cancelled", "a cancelled plan can't be changed; run the plan file again"))
    step = state.steps.get(command.step_id)
    if step is None:
        return Refusal(UnknownStepError(command.step_id, state.steps))
    if step.asked is not None:
        options = state.open[step.asked].options
        chosen = next(option for option in options if option in _CHOICES[command.action])
        return take_decision(state, Decide(decision_id=step.asked, selections=(chosen,), by=command.by), at)
    if command.action is StepAction.RETRY:
        return _again(state, step, command, at)
    return _stopped(state, step, command, at)


def _is_given_up(state: State) -> bool:
    return state.stopping is not None and state.stopping.status == PlanStatus.CANCELLED


# --- cancel, skip -------------------------------------------------------------------------------------------------


def _stopped(state: State, step: StepState, command: Act, at: float) -> Decided | Refusal:
    status = _STOPPED[command.action]
    if step.status is status:
        return Decided()
    if problem := _ended(step, status):
        return Refusal(StepActError(command.step_id, command.action, problem))
    if step.status is StepStatus.IN_PROGRESS:
        return _stop(state, step, status, command.by, at)
    facts: list[e.Fact] = [step_stopped(state, step, status, command.by, at)]
    if not state.is_run:
        return Decided((*facts, plan_paused(state, CHANGED_REASON, at)))
    effects = (c.StopReviser(command.step_id),) if step.left is Left.REVISING else ()
    return _scheduled_again(state, facts, effects)


def _ended(step: StepState, status: StepStatus) -> str:
    """Return why a step can't become that any more; blank: it can."""
    is_done = step.status is StepStatus.IN_PROGRESS and step.is_over and _is_good(step)
    if step.status is StepStatus.COMPLETED or is_done:
        return "it is completed"
    if status is StepStatus.CANCELLED and step.status.is_final:
        return f"it is already {step.status.value}"
    return ""


def _is_good(step: StepState) -> bool:
    return step.result is not None and step.result.outcome is Outcome.COMPLETED


def _stop(state: State, step: StepState, status: StepStatus, by: str, at: float) -> Decided:
    if step.stopping is not None and step.stopping.status == status:
        return Decided()
    step_id = step.outline.id
    fact = e.PlanActEvent(
        ts=at, plan_id=state.plan_id, step_id=step_id, attempt=step.attempt, status=status.value, by=by
    )
    if step.stopping is not None or step.is_over:
        return Decided((fact,))
    return Decided((fact,), (c.CancelAttempt(step_id, STOPPED_DETAIL),))


# --- do again -----------------------------------------------------------------------------------------------------


def _again(state: State, step: StepState, command: Act, at: float) -> Decided | Refusal:
    if not state.is_run:
        return do_again(state, c.Retry((command.step_id,)), at)
    if step.left is Left.RETRYING and not step.is_over and step.stopping is None:
        return Decided((e.PlanRetryEvent(ts=at, plan_id=state.plan_id, step_id=command.step_id, attempt=step.attempt),))
    if problem := _why_not_again(step):
        return Refusal(StepActError(command.step_id, command.action, problem))
    after = [s for s in with_dependants(schedule_of(state).loaded, state, [command.step_id]) if s != command.step_id]
    if begun := [step_id for step_id in after if _has_run(state.steps[step_id])]:
        problem = f"its dependents {listed(begun)} have run; pause the plan, then use `vibe plan retry`"
        return Refusal(StepActError(command.step_id, command.action, problem))
    return _reset(state, (command.step_id, *(s for s in after if _is_skipped_by_plan(state.steps[s]))), at)


def _why_not_again(step: StepState) -> str:
    """Return why a step of a running plan is not done again; blank: it can be."""
    match step.status:
        case StepStatus.IN_PROGRESS:
            return "it is running"
        case StepStatus.COMPLETED:
            return "it is completed; pause the plan, then `vibe plan retry` redoes it and its dependents"
        case StepStatus.SKIPPED if _is_skipped_by_plan(step):
            return f"it was skipped by the plan ({step.detail or step.reason or 'its dependencies'})"
        case StepStatus.FAILED | StepStatus.CANCELLED | StepStatus.SKIPPED:
            return ""
        case _ if step.left is Left.REVISING:
            return "it failed and is being replanned"
        case _:
            return "it has not run yet"


def _is_skipped_by_plan(step: StepState) -> bool:
    return step.status is StepStatus.SKIPPED and not step.waived and step.reason != ONLY_REASON


def _has_run(step: StepState) -> bool:
    return step.begun >= step.attempt or step.left is not None or step.reused_from is not None


def _reset(state: State, step_ids: Iterable[str], at: float) -> Decided:
    reset = e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=tuple(step_ids))
    facts: list[e.Fact] = [reset]
    for step_id in reset.step_ids:
        step = state.steps[step_id]
        attempt = step.attempt + (step.begun >= step.attempt)
        facts.append(step_event(state, step, step.status, StepStatus.PENDING, at, (None, ""), attempt))
    return _scheduled_again(state, facts)


def _scheduled_again(state: State, facts: list[e.Fact], effects: tuple[Effect, ...] = ()) -> Decided:
    """The schedule made again: its queue does not let go of steps, nor does it know of any that are open once more."""
    schedule = schedule_of(state)
    return Decided(facts, effects, partial(schedule.again, loaded=schedule.loaded))
