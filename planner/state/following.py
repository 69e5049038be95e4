"""Consequences of a state without any command: steps that start, wait or are skipped, and the plan's end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ipc import events as e
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.answers import needed_decisions, plan_asks
from planner.state.commands import NOTHING, Decided, Effect
from planner.state.facts import is_over, plan_paused, step_moved, steps_given_up
from planner.state.outcome import DECISION_REASON, outcome_of
from planner.state.schedule import schedule_of
from planner.state.state import IN_PROGRESS, Left, State

SORTED_AT_ONCE = 256
"""How many blocked steps are told of at once: some milliseconds' worth."""


def proceed(state: State, at: float) -> Decided:
    """The next thing that follows from how the plan stands; no facts: nothing does, for now."""
    schedule, stopping = schedule_of(state), state.stopping
    if stopping is not None and stopping.status == PlanStatus.CANCELLED:
        given_up = steps_given_up(state, stopping.reason, at)
        return Decided(given_up) if given_up else _ended(state, at)
    if schedule.to_skip:
        return Decided([_skipped(state, step_id, at) for step_id in schedule.to_skip])
    if schedule.to_ask and (facts := plan_asks(state, at)):
        return Decided(facts, _deadlines(facts))
    if schedule.ready and stopping is None and len(state.running) < schedule.width:
        step_id = None if schedule.fail_fast and state.failed_now is not None else schedule.queue.best()
        if step_id is not None:
            started = step_moved(state, step_id, IN_PROGRESS, at)
            return Decided((started,), (c.StartAttempt(step_id, started.attempt),))
    if schedule.fresh:
        return Decided([step_moved(state, step_id, StepStatus.PENDING, at) for step_id in schedule.fresh])
    return NOTHING if state.running else _ended(state, at)


def _skipped(state: State, step_id: str, at: float) -> e.PlanStepUpdateEvent:
    return step_moved(state, step_id, StepStatus.SKIPPED, at, (None, schedule_of(state).readiness.why_skipped(step_id)))


def _deadlines(facts: Iterable[e.Fact]) -> list[Effect]:
    return [
        c.WaitForAnswer(fact.decision_id, fact.timeout_seconds)
        for fact in facts
        if isinstance(fact, e.PlanDecisionEvent) and fact.timeout_seconds
    ]


def sort_steps(state: State, command: c.SortSteps, at: float) -> Decided:
    """Tell of some of the steps that must wait for others that they do."""
    del command
    if is_over(state):
        return NOTHING
    first = itertools.islice(schedule_of(state).unsorted, SORTED_AT_ONCE)
    return Decided([step_moved(state, step_id, StepStatus.BLOCKED, at) for step_id in first])


def _ended(state: State, at: float) -> Decided:
    """Return how the plan ends if nothing runs.

    No facts while something does, or a retry or an answer is still to come.
    """
    if state.running:
        return NOTHING
    end = _end(state)
    if end is None:
        return NOTHING
    if schedule_of(state).unsorted:
        return sort_steps(state, c.SortSteps(), at)
    status, reason = end
    outcome = outcome_of(state, status, reason).value
    if status is PlanStatus.PAUSED:
        return Decided((plan_paused(state, reason or "", at, outcome),))
    ended = e.PlanCompletedEvent(
        ts=at,
        plan_id=state.plan_id,
        status=status.value,
        counts=state.counted(),
        duration_s=at - state.began,
        reason=reason,
        outcome=outcome,
    )
    return Decided((ended,))


def _end(state: State) -> tuple[PlanStatus, str | None] | None:
    schedule, stopping = schedule_of(state), state.stopping
    asks = state.counts[StepStatus.NEEDS_DECISION] > 0
    comes = any(step.left in (Left.RETRYING, Left.REVISING) for step in state.steps.values())
    if stopping is not None and stopping.status == PlanStatus.CANCELLED and state.counts[StepStatus.CANCELLED]:
        return PlanStatus.CANCELLED, stopping.reason
    if schedule.fail_fast and state.failed_now is not None:
        return PlanStatus.FAILED, state.failed_now
    if stopping is not None and stopping.status != PlanStatus.CANCELLED and (schedule.ready or comes or asks):
        return PlanStatus(stopping.status), stopping.reason
    if comes or (asks and (schedule.attended or _is_timed(state))):
        return None
    if asks:
        return PlanStatus.PAUSED, DECISION_REASON
    return _census(state)


def _is_timed(state: State) -> bool:
    """Return whether a clock will take one of the decisions that steps wait for."""
    waiting = [state.open[name] for name in needed_decisions(state)]
    return any(decision.timeout_seconds and decision.by != "timeout" for decision in waiting)


def _census(state: State) -> tuple[PlanStatus, str | None]:
    open_steps = state.open_steps()
    if any(not schedule_of(state).is_stuck(step_id) for step_id in open_steps):
        return PlanStatus.FAILED, "stalled"
    if open_steps or any(step.spoils for step in state.steps.values()):
        first = next(iter(state.failures.values()), None)
        return PlanStatus.FAILED, state.failed_now or first or "failed"
    return PlanStatus.COMPLETED, None
