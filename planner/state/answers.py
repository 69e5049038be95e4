"""Answers to decisions, and the decisions that steps need."""

from __future__ import annotations

from ipc import events as e
from ipc.commands import Decide
from planner.plan.diagnostics import DecisionInvalidError, PlanEndedError, listed
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.changes import OPEN_STATUSES, TooLateError
from planner.state.commands import Decided, Refusal
from planner.state.decisions import StepChoice, check_selections, plan_decision
from planner.state.facts import decision_taken, is_over, plan_paused, plan_stopping, stamped, step_moved
from planner.state.failure_policy import INTERRUPTED_REASON
from planner.state.outcome import DECISION_REASON
from planner.state.schedule import schedule_of
from planner.state.state import WAIVED_REASON, Left, State, StepState


def plan_asks(state: State, at: float) -> list[e.Fact]:
    """Steps that need the plan's own decisions, and those decisions, each put once."""
    schedule, facts, put = schedule_of(state), list[e.Fact](), set(state.open)
    known = {decision.id: decision for decision in schedule.plan.decisions}
    for step_id in schedule.to_ask:
        if state.steps[step_id].status is not StepStatus.NEEDS_DECISION:
            facts.append(step_moved(state, step_id, StepStatus.NEEDS_DECISION, at))
        for decision_id in schedule.readiness.undecided(step_id):
            if decision_id not in put:
                put.add(decision_id)
                facts.append(stamped(state, plan_decision(known[decision_id]), at))
    return facts


def take_decision(state: State, command: Decide, at: float) -> Decided | Refusal:
    """Take a decision, one of the plan's or one about an attempt, if it is open and offers what is chosen."""
    if is_over(state):
        return Refusal(TooLateError())
    if state.status not in OPEN_STATUSES:
        return Refusal(PlanEndedError(state.status.value, "nothing left to decide"))
    chosen = tuple(command.selections)
    try:
        decision = _open_decision(state, command.decision_id)
        check_selections(decision, chosen)
    except DecisionInvalidError as error:
        return Refusal(error)
    taken = decision_taken(state, decision, chosen, command.by, at)
    if not state.is_run:
        return Decided((taken, plan_paused(state, "decided", at)))
    if not decision.kind:
        return Decided((taken,))
    step = state.steps[decision.step_id or ""]
    return Decided((taken, *choice_followed(state, step, chosen[0], at)))


def _open_decision(state: State, decision_id: str) -> e.PlanDecisionEvent:
    own = {decision.id: plan_decision(decision) for decision in schedule_of(state).plan.decisions}
    decision = state.open.get(decision_id) or own.get(decision_id)
    if decision_id in state.decisions:
        taken = state.decisions[decision_id]
        raise DecisionInvalidError(decision_id, f"already decided: {listed(taken.selections)}, by {taken.by}")
    if decision is None:
        waiting = [name for name in dict.fromkeys((*state.open, *own)) if name not in state.decisions]
        raise DecisionInvalidError(decision_id, f"it is not open; open decisions: {listed(waiting)}")
    return decision


def choice_followed(state: State, step: StepState, chosen: str, at: float) -> tuple[e.Fact, ...]:
    """Return what a choice about an attempt makes of its step, beside what the decision itself does."""
    if chosen == StepChoice.SKIP:
        why = (WAIVED_REASON, step.detail or step.reason or "")
        return (step_moved(state, step.outline.id, StepStatus.SKIPPED, at, why),)
    if chosen == StepChoice.STOP:
        reason = step.reason or (None if step.left is Left.ASKING else INTERRUPTED_REASON)
        return (step_moved(state, step.outline.id, StepStatus.FAILED, at, (reason, step.detail)),)
    return ()


def decision_timed_out(state: State, command: c.DecisionTimedOut, at: float) -> Decided:
    """Take the default of a decision whose time is over, or pause the plan that waits for it."""
    decision = state.open.get(command.decision_id)
    if decision is None or is_over(state):
        return Decided()
    if decision.default:
        return Decided((decision_taken(state, decision, decision.default, "timeout", at),))
    over = stamped(state, decision, at, by="timeout")
    if command.decision_id in needed_decisions(state) and state.stopping is None:
        return Decided((over, plan_stopping(state, PlanStatus.PAUSED, DECISION_REASON, at)))
    return Decided((over,))


def needed_decisions(state: State) -> set[str]:
    """The open decisions that a step still needs: those that did may have been skipped or revised away."""
    steps = schedule_of(state).steps
    waiting = [steps[s] for s, step in state.steps.items() if step.status is StepStatus.NEEDS_DECISION]
    own = {name for step in waiting for name in (step.decision, *(step.when or ())) if name is not None}
    return {name for name, decision in state.open.items() if decision.kind or name in own}
