"""Commands of people: pause, cancel, change, do again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from ipc import events as e
from ipc.commands import Cancel, Pause, Revise
from planner.plan.diagnostics import PlanEndedError, UnknownStepError, listed
from planner.plan.loader import LoadedPlan
from planner.plan.operations import plain_operations, read_operations
from planner.plan.revision import revise
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.commands import Decided, Refusal
from planner.state.facts import is_over, plan_paused, plan_stopping, step_event, step_moved, steps_given_up
from planner.state.schedule import schedule_of
from planner.state.state import ONLY_REASON, Left, State, changed_by, is_exhausted, removed_by
from vibe.system.errors import UsageError, VibeError

FIXED_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.CANCELLED, StepStatus.IN_PROGRESS})
"""Steps that no revision may change."""
_SET_BUDGET = "set_budget"
OPEN_STATUSES = frozenset({PlanStatus.IDLE, PlanStatus.ACTIVE, PlanStatus.PAUSED})
_REVISABLE = OPEN_STATUSES | {PlanStatus.FAILED}


class TooLateError(UsageError):
    """The run is over: a command that only a run can carry out came too late."""

    def __init__(self) -> None:
        super().__init__(TOO_LATE)


class StepsWentOnError(VibeError):
    """Steps that a revision is about have begun, or ended, since it was looked at."""

    def __init__(self, step_ids: Iterable[str]) -> None:
        super().__init__(f"steps have changed since: {listed(step_ids)}")


TOO_LATE = "the run is over: nothing was changed"


def fixed_steps(state: State) -> frozenset[str]:
    """The steps a revision must leave as they are."""
    return frozenset(step_id for step_id, step in state.steps.items() if step.status in FIXED_STATUSES)


def pause_plan(state: State, command: Pause, at: float) -> Decided:
    """Start nothing more."""
    if is_over(state):
        return Decided()
    grace = command.grace_seconds
    effects = () if grace is None else (c.InterruptAll("paused", grace),)
    if state.stopping is not None:
        return Decided((), effects)
    return Decided((plan_stopping(state, PlanStatus.PAUSED, command.by, at),), effects)


def cancel_plan(state: State, command: Cancel, at: float) -> Decided | Refusal:
    """Cancel what runs and give up what is open."""
    if is_over(state):
        return Decided()
    if not state.is_run:
        if state.status not in OPEN_STATUSES:
            return Refusal(PlanEndedError(state.status.value, "nothing left to cancel"))
        given_up = steps_given_up(state, command.by, at)
        counts = state.counts.copy()
        for fact in given_up:
            counts[StepStatus(fact.previous)] -= 1
            counts[StepStatus.CANCELLED] += 1
        ended = e.PlanCompletedEvent(
            ts=at,
            plan_id=state.plan_id,
            status=PlanStatus.CANCELLED.value,
            counts={status.value: count for status, count in counts.items() if count},
            duration_s=0.0,
            reason=command.by,
        )
        return Decided((plan_stopping(state, PlanStatus.CANCELLED, command.by, at), *given_up, ended))
    if state.stopping is not None and state.stopping.status == PlanStatus.CANCELLED:
        return Decided()
    stopping = plan_stopping(state, PlanStatus.CANCELLED, command.by, at)
    return Decided((stopping,), [c.CancelAttempt(step_id) for step_id in state.running])


def budget_spent(state: State, command: c.BudgetSpent, at: float) -> Decided:
    """Interrupt what runs: the plan fails for want of time."""
    if is_over(state) or (state.stopping is not None and state.stopping.status == PlanStatus.CANCELLED):
        return Decided()
    stopping = plan_stopping(state, PlanStatus.FAILED, command.reason, at)
    return Decided((stopping,), (c.InterruptAll(command.reason),))


def revise_plan(state: State, command: Revise, at: float) -> Decided | Refusal:
    """Change the plan as these operations say, if it can be."""
    if not state.is_run and state.status not in _REVISABLE:
        what = "nothing left to change; run the edited plan file"
        return Refusal(PlanEndedError(state.status.value, what))
    try:
        operations = read_operations(list(command.operations))
        loaded = revise(schedule_of(state).plan, operations, fixed=fixed_steps(state))
    except UsageError as error:
        return Refusal(error)
    revised = c.Revised(operations=plain_operations(operations), loaded=loaded, reason=command.reason, by=command.by)
    return plan_revised(state, revised, at)


def plan_revised(state: State, command: c.Revised, at: float) -> Decided | Refusal:
    """Go on with a plan that was found sound."""
    if is_over(state):
        return Refusal(TooLateError())
    schedule = schedule_of(state)
    fact = e.PlanRevisedEvent(
        ts=at,
        plan_id=state.plan_id,
        operations=command.operations,
        reason=command.reason,
        by=command.by,
        step_id=command.step_id,
        number=len(state.revisions) + 1,
    )
    touched = changed_by(fact) | removed_by(fact)
    if gone_on := touched & fixed_steps(state):
        return Refusal(StepsWentOnError(sorted(gone_on)))
    facts: list[e.Fact] = [fact]
    if state.is_run:
        facts += _said_again(state, fact, at)
        return Decided(facts, (), partial(schedule.again, loaded=command.loaded))
    facts += _given_more(state, command, at)
    return Decided((*facts, plan_paused(state, "revised", at)))


def _said_again(state: State, fact: e.PlanRevisedEvent, at: float) -> Iterator[e.Fact]:
    """Yield the events by which a revision changes failed steps."""
    changed = changed_by(fact)
    for step_id, step in state.steps.items():
        if step_id in removed_by(fact):
            continue
        if step_id in changed and (step.status is StepStatus.FAILED or step.asked is not None):
            attempt = step.attempt + 1
            yield step_event(state, step, step.status, StepStatus.PENDING, at, (None, ""), attempt)
        elif step_id == fact.step_id and step.left is Left.REVISING and step_id not in changed:
            yield step_moved(state, step_id, StepStatus.FAILED, at, (step.reason, step.detail))


def _given_more(state: State, command: c.Revised, at: float) -> Iterator[e.Fact]:
    """With another budget, what failed for want of one is done again, with whatever depends on it."""
    if not any(operation.get("op") == _SET_BUDGET for operation in command.operations):
        return
    known = command.loaded.dag.dependencies
    out = {s for s, step in state.steps.items() if s in known and step.result and is_exhausted(step.result)}
    if out:
        again = with_dependants(command.loaded, state, out)
        yield e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=tuple(s for s in again if s in state.steps))


def revision_refused(state: State, command: c.RevisionRefused, at: float) -> Decided:
    """Let a step fail for which no better plan found."""
    step = state.steps.get(command.step_id)
    if is_over(state) or step is None or step.left is not Left.REVISING or step.is_over:
        return Decided()
    detail = "; ".join(text for text in (step.detail, command.detail) if text)
    return Decided((step_moved(state, command.step_id, StepStatus.FAILED, at, (step.reason, detail)),))


def reviser_refused(state: State, command: c.ReviserRefused, at: float) -> Decided:
    """Pause the plan: the provider refuses all calls."""
    if is_over(state) or state.stopping is not None:
        return Decided()
    return Decided((plan_stopping(state, PlanStatus.PAUSED, "provider", at, command.outcome.value),))


def do_again(state: State, command: c.Retry, at: float) -> Decided | Refusal:
    """Have steps done again, with whatever depends on them; the plan can be resumed."""
    if state.is_run:
        return Refusal(UsageError("pause the plan before retrying its steps"))
    if state.status is PlanStatus.CANCELLED:
        what = "a cancelled plan can't be changed; run the plan file again"
        return Refusal(PlanEndedError(state.status.value, what))
    loaded = schedule_of(state).loaded
    for step_id in command.step_ids:
        if step_id not in loaded.dag.dependencies:
            return Refusal(UnknownStepError(step_id, loaded.dag.dependencies))
    again = with_dependants(loaded, state, command.step_ids)
    reset = e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=again)
    return Decided((reset, plan_paused(state, "reset", at)))


def with_dependants(loaded: LoadedPlan, state: State, step_ids: Collection[str]) -> tuple[str, ...]:
    """These steps and all that depend on them, however remotely; in topological order.

    Steps excluded by ``--only`` are left out unless they are named.
    """
    chosen = set(step_ids)
    for step_id in loaded.dag.order:
        step = state.steps.get(step_id)
        left_out = step is not None and step.reason == ONLY_REASON
        if not left_out and not chosen.isdisjoint(loaded.dag.dependencies[step_id]):
            chosen.add(step_id)
    return tuple(step_id for step_id in loaded.dag.order if step_id in chosen)
