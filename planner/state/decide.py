"""``decide``: what a command comes to as a plan stands, as facts to record and effects to carry out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ipc import events as e
from ipc.commands import Act, Cancel, Decide, Pause, Revise
from planner.plan.loader import LoadedPlan
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.answers import choice_followed, decision_timed_out, plan_asks, take_decision
from planner.state.attempts import attempt_ended, attempt_saved, retry_due
from planner.state.changes import (
    budget_spent,
    cancel_plan,
    do_again,
    pause_plan,
    plan_revised,
    revise_plan,
    reviser_refused,
    revision_refused,
)
from planner.state.commands import Command, Decided, Effect, Refusal
from planner.state.decisions import plan_decision
from planner.state.evolve import evolve
from planner.state.facts import decision_taken, plan_stopping, question_about, step_asked, step_moved, step_stopped
from planner.state.following import proceed, sort_steps
from planner.state.schedule import Schedule, outline_of, schedule_of
from planner.state.state import ACTIVE, Left, State
from planner.state.step_acts import act_on_step
from vibe.core.messages import total_of


def decide(state: State, command: Command, at: float) -> Decided | Refusal:
    """Return what ``command`` comes to at the time ``at`` (unix seconds); the state is left as it is.

    It has a schedule, except for Start, which makes one.
    """
    return _DECIDE[type(command)](state, command, at)


def carry_out(
    state: State, command: Command, at: float, record: Callable[[e.Fact], None]
) -> Sequence[Effect] | Refusal:
    """Decide, hand each fact to ``record``, evolve the state by it, and go on with all that follows by itself.

    Returns the effects, to be carried out in their order; after AttemptEnded nothing follows before AttemptSaved.
    """
    decided = decide(state, command, at)
    if isinstance(decided, Refusal):
        return decided
    effects = [*decided.effects]
    follows = not isinstance(command, c.AttemptEnded) and (state.is_run or isinstance(command, c.Start))
    is_taken_up = False
    while True:
        for fact in decided.facts:
            record(fact)
            evolve(state, fact)
        if decided.schedule is not None:
            state.schedule = decided.schedule(state)
            if isinstance(command, c.Start) and not is_taken_up:
                is_taken_up, decided = True, _left_over(state, at)
                effects += decided.effects
                continue
        if not follows or state.status is not ACTIVE:
            return effects
        decided = proceed(state, at)
        if not decided.facts:
            return effects
        effects += decided.effects


def _start(state: State, command: c.Start, at: float) -> Decided:
    plan = command.loaded.plan.resolved()
    outlines = tuple(outline_of(step, state.steps.get(step.id)) for step in plan.steps)
    max_tokens = plan.budget.max_tokens if plan.budget else None
    began: e.Fact
    if state.attached:
        began = e.PlanResumedEvent(
            ts=at,
            plan_id=state.plan_id,
            goal=plan.goal,
            steps=outlines,
            done=sum(StepStatus(outline.status).is_final for outline in outlines),
            tokens=total_of(state.spent().values()).usage.total_tokens,
            max_tokens=max_tokens,
            pid=command.pid,
            version=command.version,
        )
    else:
        began = e.PlanStartedEvent(
            ts=at,
            plan_id=state.plan_id,
            goal=plan.goal,
            steps=outlines,
            max_parallel_steps=command.width,
            note=command.note,
            reused_from=command.reused_from,
            max_tokens=max_tokens,
            pid=command.pid,
            version=command.version,
        )
    known = {decision.id: plan_decision(decision) for decision in plan.decisions}
    flags = [
        decision_taken(state, known[name], chosen, "flag", at)
        for name, chosen in command.decisions.items()
        if name in known and name not in state.decisions
    ]
    again: list[e.Fact] = []
    if state.stopping is not None and state.stopping.status == PlanStatus.CANCELLED:
        again.append(plan_stopping(state, PlanStatus.CANCELLED, state.stopping.reason, at))
    schedule = partial(
        Schedule, loaded=command.loaded, width=command.width, fail_fast=command.fail_fast, attended=command.attended
    )
    return Decided((began, *flags, *again), (), schedule)


def _left_over(state: State, at: float) -> Decided:
    """Ask, or have asked, about attempts that the last process left; an answer may have been given since."""
    facts: list[e.Fact] = []
    effects: list[Effect] = []
    if state.stopping is not None:  # given up by a process that did not live to give up the rest
        return Decided()
    schedule = schedule_of(state)
    for step_id, step in state.steps.items():
        if step.stopping is not None:
            facts.append(step_stopped(state, step, StepStatus(step.stopping.status), step.stopping.by, at))
        elif step.left is Left.REVISING:
            effects.append(c.AskReviser(step_id))
        elif step.left is not None and schedule.is_held(step_id, step) and step.asked is None:
            asked = question_about(state, step)
            answer = state.decisions.get(asked.decision_id)
            if answer is None:
                facts += step_asked(state, step, asked, at)
            else:
                facts += choice_followed(state, step, answer.selections[0], at)
    return Decided(facts, effects)


def look(state: State, loaded: LoadedPlan, flags: dict[str, tuple[str, ...]] | None = None) -> State:
    """Have the state of a plan that is not running say what its steps wait for, as the next process would.

    Records nothing. ``flags`` are the decisions given when the plan was run.
    """
    at = state.updated
    evolve(state, e.PlanEditedEvent(ts=at))
    for decision in loaded.plan.decisions:
        chosen = (flags or {}).get(decision.id)
        if chosen and decision.id not in state.decisions:
            evolve(state, decision_taken(state, plan_decision(decision), chosen, "flag", at))
    schedule = state.schedule = Schedule(state, loaded, width=1)
    facts = [fact for fact in _left_over(state, at).facts if _is_asking(fact)]
    freed = [step_moved(state, step_id, StepStatus.PENDING, at) for step_id in schedule.fresh]
    for fact in (*facts, *freed, *plan_asks(state, at)):
        evolve(state, fact)
    while schedule.unsorted:
        for fact in sort_steps(state, c.SortSteps(), at).facts:
            evolve(state, fact)
    return state


def _is_asking(fact: e.Fact) -> bool:
    """Return whether a fact is about a step that waits for an answer, not about what an answer comes to."""
    asks = isinstance(fact, e.PlanStepUpdateEvent) and fact.status == StepStatus.NEEDS_DECISION
    return asks or (isinstance(fact, e.PlanDecisionEvent) and not fact.selections)


_DECIDE: Final[dict[type, Callable[[State, Any, float], Decided | Refusal]]] = {
    c.Start: _start,
    c.AttemptEnded: attempt_ended,
    c.AttemptSaved: attempt_saved,
    c.RetryDue: retry_due,
    c.DecisionTimedOut: decision_timed_out,
    c.BudgetSpent: budget_spent,
    c.Revised: plan_revised,
    c.RevisionRefused: revision_refused,
    c.ReviserRefused: reviser_refused,
    c.Retry: do_again,
    Act: act_on_step,
    c.SortSteps: sort_steps,
    Pause: pause_plan,
    Cancel: cancel_plan,
    Decide: take_decision,
    Revise: revise_plan,
}
