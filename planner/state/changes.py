"""Decides people's commands to a plan, running or at rest, and to one step of it: pause, cancel, revise, decide, retry.

A command that can't be carried out raises, and nothing changes. A running step is stopped first: ``plan.act`` is
recorded at once, and the step changes status when its attempt has ended. If a decision about the step is open, a
command to the step answers that decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set as AbstractSet
from functools import partial
from typing import Any, Final

from msgspec import structs

from ipc import events as e
from ipc.commands import Act, Cancel, Decide, Pause, Revise, StepAction
from planner.plan.diagnostics import DecisionInvalidError, PlanEndedError, UnknownStepError, listed
from planner.plan.for_each import list_of
from planner.plan.loader import LoadedPlan
from planner.plan.model import Child
from planner.plan.operations import plain_operations, read_operations
from planner.plan.revision import revise
from planner.plan.status import OPEN_STATUSES, PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.commands import NOTHING, Decided, Effect
from planner.state.decisions import TIMEOUT, StepChoice, check_selections, plan_decision
from planner.state.facts import (
    INTERRUPTED_REASON,
    plan_stopping,
    run_is_over,
    stamped,
    step_event,
    step_moved,
    step_stopped,
    steps_given_up,
)
from planner.state.lists import is_lost, items_to_reopen
from planner.state.outcome import DECISION_REASON
from planner.state.schedule import schedule_of
from planner.state.state import (
    BUDGET_REASON,
    ONLY_REASON,
    WAIVED_REASON,
    Left,
    State,
    StepState,
    changed_by,
    is_exhausted,
    removed_by,
)
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError, VibeError

FIXED_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.SKIPPED, StepStatus.CANCELLED, StepStatus.IN_PROGRESS})
"""Statuses of steps that no revision may change."""
_SET_BUDGET = "set_budget"
REVISABLE = OPEN_STATUSES | {PlanStatus.FAILED}
NOT_REVISED = "nothing left to change; run the edited plan file"
_STAYS_CANCELLED = "a cancelled plan can't be changed; run the plan file again"


class TooLateError(UsageError):
    """A command that only a run can carry out arrived after the run was over."""


class StepsWentOnError(VibeError):
    """Steps that a revision changes or removes have begun, or ended, since the revision was checked."""


TOO_LATE = "the run is over: nothing was changed"


def fixed_steps(state: State) -> frozenset[str]:
    """Return the steps that a revision must leave as they are, including those whose list was read."""
    return frozenset(s for s, step in state.steps.items() if step.status in FIXED_STATUSES or s in state.unfolded)


def pause_plan(state: State, command: Pause, at: float) -> Decided:
    """Start no more steps and, after the grace period if the command names one, interrupt those that run."""
    if run_is_over(state):
        return NOTHING
    grace = command.grace_seconds
    effects = () if grace is None else (c.InterruptAll("paused", grace),)
    facts = () if state.stopping is not None else (plan_stopping(state, PlanStatus.PAUSED, command.by, at),)
    return Decided(facts, effects)


def cancel_plan(state: State, command: Cancel, at: float) -> Decided:
    """Cancel the running steps and give up the open ones."""
    if run_is_over(state):
        return NOTHING
    if not state.is_run:
        if state.status not in OPEN_STATUSES:
            raise PlanEndedError(state.status.value, "nothing left to cancel")
        given_up = steps_given_up(state, command.by, at)
        final = {status.value: count for status, count in state.counts.items() if count and status.is_final}
        final[StepStatus.CANCELLED.value] = state.counts[StepStatus.CANCELLED] + len(given_up)
        ended = e.PlanCompletedEvent(status=PlanStatus.CANCELLED.value, reason=command.by, counts=final, duration_s=0.0)
        stopping = plan_stopping(state, PlanStatus.CANCELLED, command.by, at)
        return Decided((stopping, *given_up, stamped(state, ended, at)))
    if state.is_given_up:
        return NOTHING
    stopping = plan_stopping(state, PlanStatus.CANCELLED, command.by, at)
    return Decided((stopping,), [c.CancelAttempt(step_id) for step_id in state.running])


def budget_spent(state: State, _: c.BudgetSpent, at: float) -> Decided:
    """Interrupt the running steps and let the plan fail, because its time is used up."""
    if run_is_over(state) or state.is_given_up:
        return NOTHING
    stopping = plan_stopping(state, PlanStatus.FAILED, BUDGET_REASON, at)
    return Decided((stopping,), (c.InterruptAll(BUDGET_REASON),))


def revise_plan(state: State, command: Revise, at: float) -> Decided:
    """Check a revision and change the plan accordingly.

    Raises:
        PlanEndedError: the plan is at rest and ended in a way that leaves nothing to change.
        RevisionInvalidError: the operations don't fit the plan.
    """
    if not state.is_run and state.standing not in REVISABLE:
        raise PlanEndedError(state.standing.value, NOT_REVISED)
    operations = read_operations(list(command.operations))
    loaded = revise(schedule_of(state).plan, operations, fixed=fixed_steps(state))
    asked = structs.replace(command, operations=plain_operations(operations))
    return plan_revised(state, c.Revised(asked=asked, loaded=loaded), at)


def plan_revised(state: State, command: c.Revised, at: float) -> Decided:
    """Continue with a revised plan that was checked beforehand.

    Raises:
        TooLateError: the run is over.
        StepsWentOnError: a step that the revision changes or removes may no longer be changed.
    """
    if run_is_over(state):
        raise TooLateError(TOO_LATE)
    schedule, asked = schedule_of(state), command.asked
    fact = e.PlanRevisedEvent(
        ts=at,
        plan_id=state.plan_id,
        operations=asked.operations,
        reason=asked.reason,
        by=asked.by,
        step_id=command.step_id,
        number=len(state.revisions) + 1,
    )
    touched = changed_by(fact) | removed_by(fact)
    if moved_on := touched & fixed_steps(state):
        raise StepsWentOnError(f"steps have changed since: {listed(sorted(moved_on))}")
    facts: list[e.Fact] = [fact]
    if lists := _lists_to_redo(state, command.loaded, changed_by(fact)):
        facts += _reset(state, lists, at) if state.is_run else [stamped(state, e.PlanResetEvent(step_ids=lists), at)]
    if state.is_run:
        facts += _reopened_steps(state, fact, at)
        return Decided(facts, (), partial(schedule.rebuilt, loaded=command.loaded))
    facts += _resets_for_budget(state, command, at)
    return Decided((*facts, stamped(state, e.PlanPausedEvent(reason="revised"), at)))


def _reopened_steps(state: State, fact: e.PlanRevisedEvent, at: float) -> Iterator[e.Fact]:
    """Yield the status changes of failed steps: changed ones are open again, the one it answered fails."""
    changed = changed_by(fact)
    for step_id, step in state.steps.items():
        if step_id in removed_by(fact):
            continue
        if step_id in changed and (step.status is StepStatus.FAILED or step.asked is not None):
            attempt = step.attempt + 1
            yield step_event(state, step, step.status, StepStatus.PENDING, at, (None, ""), attempt)
        elif step_id == fact.step_id and step.left is Left.REVISING and step_id not in changed:
            yield step_moved(state, step_id, StepStatus.FAILED, at, (step.reason, step.detail))


def _lists_to_redo(state: State, loaded: LoadedPlan, changed: AbstractSet[str]) -> tuple[str, ...]:
    """Return what is done again because failed items were changed: their lists, and the steps that ran after these."""
    failed = {s for s in changed & state.steps.keys() if state.steps[s].status is StepStatus.FAILED}
    mended = [step.id for step in loaded.plan.steps if isinstance(step, Child) and step.id in failed]
    stale, busy = _steps_to_redo(loaded, state, mended)
    return tuple(step_id for step_id in stale if step_id not in busy)


def _resets_for_budget(state: State, command: c.Revised, at: float) -> Iterator[e.Fact]:
    """If the revision sets a budget, reset the steps that failed because theirs was used up, and their dependants."""
    if not any(operation.get("op") == _SET_BUDGET for operation in command.asked.operations):
        return
    unserved = {s for s, one in state.results().items() if one.outcome is Outcome.BLOCKED and one.is_limited_by_plan}
    exhausted = {s for s, one in state.results().items() if is_exhausted(one)}
    if reset := with_dependants(command.loaded, state, exhausted | unserved):
        yield e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=tuple(s for s in reset if s in state.steps))


def revision_refused(state: State, command: c.RevisionRefused, at: float) -> Decided:
    """Fail a step for which no better plan was found."""
    step = state.steps.get(command.step_id)
    if run_is_over(state) or step is None or step.left is not Left.REVISING or step.attempt_over:
        return NOTHING
    detail = "; ".join(text for text in (step.detail, command.detail) if text)
    return Decided((step_moved(state, command.step_id, StepStatus.FAILED, at, (step.reason, detail)),))


def reviser_refused(state: State, command: c.ReviserRefused, at: float) -> Decided:
    """Pause the plan, because the provider refuses the reviser's calls."""
    if run_is_over(state) or state.stopping is not None:
        return NOTHING
    return Decided((plan_stopping(state, PlanStatus.PAUSED, "provider", at, command.outcome.value),))


def retry_at_rest(state: State, command: c.Retry, at: float) -> Decided:
    """Reset a step of a plan at rest, and all that depend on it, so that they run again when it is resumed.

    Raises:
        PlanEndedError: the plan was cancelled.
        UnknownStepError: the plan has no such step.
        StepActError: the step has not run yet, or has no agent to hear the message.
    """
    if state.standing is PlanStatus.CANCELLED:
        raise PlanEndedError(state.standing.value, _STAYS_CANCELLED)
    step = _known(state, command.asked.step_id)
    if not step.begun and step.status in {StepStatus.PENDING, StepStatus.BLOCKED}:
        raise StepActError(step.id, StepAction.RETRY, NOT_RUN)
    again = with_dependants(schedule_of(state).loaded, state, [step.id])
    messages = _message_facts(state, command.asked, at)
    reset = e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=again)
    return Decided((*messages, reset, stamped(state, e.PlanPausedEvent(reason="reset"), at)))


def _known(state: State, step_id: str) -> StepState:
    if step_id not in state.steps:
        raise UnknownStepError(step_id, state.steps)
    return state.steps[step_id]


def with_dependants(loaded: LoadedPlan, state: State, step_ids: Collection[str]) -> tuple[str, ...]:
    """Return these steps and all that depend on them, directly or not, in topological order.

    Steps that ``--only`` excluded are left out unless they are named. A step with a list brings along its items that
    did not complete; an item brings along the items that were skipped because too few could complete.

    Raises:
        UsageError: one of the steps hands in a list whose items were already made into steps.
    """
    chosen = {*step_ids, *_lost_items(state, step_ids)}
    steps = {step.id: step for step in loaded.plan.steps}
    for step_id in state.unfolded.keys() & steps.keys():
        chosen |= items_to_reopen(state, steps, step_id, chosen)
    for step_id in loaded.dag.order:
        step = state.steps.get(step_id)
        left_out = step is not None and step.reason == ONLY_REASON
        if not left_out and not chosen.isdisjoint(loaded.dag.dependencies[step_id]):
            chosen.add(step_id)
    for step in loaded.plan.steps:
        if step.id in state.unfolded and (source := list_of(step).source) in chosen:
            fix = "run the plan file again with --reuse: what is the same is taken over"
            raise UsageError(f"step {source!r} can't be done again: the items of step {step.id!r} are its list; {fix}")
    return tuple(step_id for step_id in loaded.dag.order if step_id in chosen)


def _lost_items(state: State, step_ids: Iterable[str]) -> set[str]:
    """Return the items of these lists that ended without completing."""
    return {each.id for step_id in step_ids for each in state.items_of(step_id) if is_lost(each)}


def decision_requests(state: State, at: float) -> list[e.Fact]:
    """Return facts that mark steps as waiting for the plan's own decisions, and that open each such decision once."""
    schedule, facts = schedule_of(state), list[e.Fact]()
    opened = {name for name, asked in state.open.items() if asked.by != TIMEOUT}  # a timed-out one is opened again
    known = {decision.id: decision for decision in schedule.plan.decisions}
    for step_id in schedule.to_ask:
        if state.steps[step_id].status is not StepStatus.NEEDS_DECISION:
            facts.append(step_moved(state, step_id, StepStatus.NEEDS_DECISION, at))
        for decision_id in schedule.readiness.undecided(step_id):
            if decision_id not in opened:
                opened.add(decision_id)
                facts.append(stamped(state, plan_decision(known[decision_id]), at))
    return facts


def take_decision(state: State, command: Decide, at: float) -> Decided:
    """Take a decision: one of the plan's own, even before it is opened, or an open one about an attempt.

    Raises:
        TooLateError, PlanEndedError: nothing can be decided any more.
        DecisionInvalidError: the decision is unknown or was taken already, or does not offer these options.
    """
    if run_is_over(state):
        raise TooLateError(TOO_LATE)
    if state.standing not in OPEN_STATUSES:
        raise PlanEndedError(state.standing.value, "nothing left to decide")
    chosen = tuple(command.selections)
    decision = _open_decision(state, command.decision_id)
    check_selections(decision, chosen)
    taken = stamped(state, decision, at, selections=chosen, by=command.by)
    if not state.is_run:
        return Decided((taken, stamped(state, e.PlanPausedEvent(reason="decided"), at)))
    if not decision.kind:
        return Decided((taken,))
    step = state.steps[decision.step_id or ""]
    return Decided((taken, *follow_choice(state, step, chosen[0], at)))


def _open_decision(state: State, decision_id: str) -> e.PlanDecisionEvent:
    """Return a decision that can be taken.

    Raises:
        DecisionInvalidError: it is unknown or was taken already.
    """
    own = {decision.id: plan_decision(decision) for decision in schedule_of(state).plan.decisions}
    decision = state.open.get(decision_id) or own.get(decision_id)
    if decision_id in state.decisions:
        taken = state.decisions[decision_id]
        raise DecisionInvalidError(decision_id, f"already decided: {listed(taken.selections)}, by {taken.by}")
    if decision is None:
        waiting = [name for name in dict.fromkeys((*state.open, *own)) if name not in state.decisions]
        raise DecisionInvalidError(decision_id, f"it is not open; open decisions: {listed(waiting)}")
    return decision


def follow_choice(state: State, step: StepState, chosen: str, at: float) -> tuple[e.Fact, ...]:
    """Return how a choice about an attempt moves its step, in addition to the effect of the decision's own fact."""
    if chosen == StepChoice.SKIP:
        why = (WAIVED_REASON, step.detail or step.reason or "")
        return (step_moved(state, step.outline.id, StepStatus.SKIPPED, at, why),)
    if chosen == StepChoice.STOP:
        reason = step.reason or (None if step.left is Left.ASKING else INTERRUPTED_REASON)
        return (step_moved(state, step.outline.id, StepStatus.FAILED, at, (reason, step.detail)),)
    return ()


def decision_timed_out(state: State, command: c.DecisionTimedOut, at: float) -> Decided:
    """Take the default of a decision whose time ran out; without one, pause the plan if a step needs the decision."""
    decision = state.open.get(command.decision_id)
    if decision is None or run_is_over(state):
        return NOTHING
    if decision.default:
        return Decided((stamped(state, decision, at, selections=decision.default, by=TIMEOUT),))
    over = stamped(state, decision, at, by=TIMEOUT)
    if command.decision_id in needed_decisions(state) and state.stopping is None:
        return Decided((over, plan_stopping(state, PlanStatus.PAUSED, DECISION_REASON, at)))
    return Decided((over,))


def needed_decisions(state: State) -> set[str]:
    """Return the open decisions that a step still needs; others may have been skipped or revised away."""
    steps = schedule_of(state).steps
    waiting = [steps[s] for s, step in state.steps.items() if step.status is StepStatus.NEEDS_DECISION]
    own = {name for step in waiting for name in (step.decision, *(step.when or ())) if name is not None}
    return {name for name, decision in state.open.items() if decision.kind or name in own}


CHANGED_REASON = "changed"
"""Reason of a pause after a step of a resting plan was cancelled or skipped."""
NOT_RUN = "it has not run yet: resume the plan, or retry the step that it waits for"
NO_AGENT = "it has no agent: it is a command, or a list, whose items have agents of their own"
STOPPED_DETAIL = "the step was stopped by a command"
_STOPPED = {StepAction.CANCEL: StepStatus.CANCELLED, StepAction.SKIP: StepStatus.SKIPPED}
_CHOICES = {
    StepAction.CANCEL: frozenset({StepChoice.STOP}),
    StepAction.RETRY: frozenset({StepChoice.RETRY, StepChoice.AGAIN}),
    StepAction.SKIP: frozenset({StepChoice.SKIP}),
}


class StepActError(UsageError):
    """A step can't be cancelled, skipped or retried in its present status; the message says why, and what helps."""

    def __init__(self, step_id: str, action: StepAction, problem: str) -> None:
        super().__init__(f"can't {action.value} step {step_id!r}: {problem}")


def act_on_step(state: State, command: Act, at: float) -> Decided:
    """Cancel, skip or retry one step.

    Raises:
        TooLateError, PlanEndedError: the run is over, or the plan was cancelled.
        UnknownStepError: the plan has no such step.
        StepActError: the step's status rules it out.
    """
    if run_is_over(state):
        raise TooLateError(TOO_LATE)
    if state.standing is PlanStatus.CANCELLED:
        raise PlanEndedError(state.standing.value, _STAYS_CANCELLED)
    step = _known(state, command.step_id)
    is_retry = command.action is StepAction.RETRY
    if step.asked is not None:
        options = state.open[step.asked].options
        chosen = next(option for option in options if option in _CHOICES[command.action])
        decided = take_decision(state, Decide(decision_id=step.asked, selections=(chosen,), by=command.by), at)
    else:
        decided = (_retry if is_retry else _cancel_or_skip)(state, step, command, at)
    messages = _message_facts(state, command, at) if is_retry else ()
    return structs.replace(decided, facts=(*messages, *decided.facts))


def _message_facts(state: State, command: Act, at: float) -> tuple[e.PlanToldEvent, ...]:
    """Return the message to the agent of a step that is retried, as facts; none if the command has no message.

    Raises:
        StepActError: there is a message, but the step has no agent.
    """
    if not command.message and not command.comments:
        return ()
    if _has_no_agent(state, command.step_id):
        raise StepActError(command.step_id, command.action, NO_AGENT)
    message = e.PlanToldEvent(step_id=command.step_id, text=command.message, comments=command.comments, by=command.by)
    return (stamped(state, message, at),)


def tell_step(state: State, command: c.Tell, at: float) -> Decided:
    """Record a person's message to a step's agent; it is kept until the agent has read it and the step completes."""
    asked = command.asked
    if run_is_over(state):
        raise TooLateError(TOO_LATE)
    step = _known(state, asked.step_id)
    if not command.heard and (problem := _why_no_message(state, step)):
        raise UsageError(f"can't tell step {asked.step_id!r} anything: {problem}")
    if step.status is StepStatus.COMPLETED:
        return NOTHING  # the agent took the message into account before it completed
    return Decided((stamped(state, e.PlanToldEvent(step_id=asked.step_id, text=asked.text, by=asked.by), at),))


def _why_no_message(state: State, step: StepState) -> str:
    """Return why no message can be kept for a step's agent, or blank if one can."""
    if state.standing is PlanStatus.CANCELLED:
        return "the plan is cancelled"
    if _has_no_agent(state, step.id):
        return NO_AGENT
    if problem := _why_not_stopped(step, StepStatus.SKIPPED):
        return f"{problem}; `vibe plan retry` takes a --message"
    if step.status in {StepStatus.SKIPPED, StepStatus.CANCELLED}:
        return f"it is {step.status.value}; `vibe plan retry` takes a --message"
    return ""


def _has_no_agent(state: State, step_id: str) -> bool:
    step = schedule_of(state).steps.get(step_id)
    return step is not None and (step.command is not None or step.for_each is not None)


# --- cancel, skip -------------------------------------------------------------------------------------------------


def _cancel_or_skip(state: State, step: StepState, command: Act, at: float) -> Decided:
    """Cancel or skip a step, together with the open items of its list; attempts that run are cancelled first."""
    status = _STOPPED[command.action]
    if step.status is status:
        return NOTHING
    if problem := _why_not_stopped(step, status):
        raise StepActError(command.step_id, command.action, problem)
    if step.status is StepStatus.IN_PROGRESS:
        return _stop_running(state, step, status, command.by, at)
    facts: list[e.Fact] = []
    effects: list[Effect] = []
    for each in (*(item for item in state.items_of(step.id) if not item.status.is_final), step):
        if each.status is StepStatus.IN_PROGRESS:
            stopped = _stop_running(state, each, status, command.by, at)
            facts += stopped.facts
            effects += stopped.effects
            continue
        facts.append(step_stopped(state, each, status, command.by, at))
        effects += [c.StopReviser(each.id)] * (each.left is Left.REVISING)
    if not state.is_run:
        return Decided((*facts, stamped(state, e.PlanPausedEvent(reason=CHANGED_REASON), at)))
    return _rescheduled(state, facts, effects)


def _why_not_stopped(step: StepState, status: StepStatus) -> str:
    """Return why a step can no longer get this status, or blank if it can."""
    is_done = step.attempt_over and step.last_result.outcome is Outcome.COMPLETED  # recorded, but not on disk yet
    if step.status is StepStatus.COMPLETED or is_done:
        return "it is completed"
    if status is StepStatus.CANCELLED and step.status.is_final:
        return f"it is already {step.status.value}"
    return ""


def _stop_running(state: State, step: StepState, status: StepStatus, by: str, at: float) -> Decided:
    """Record that a running step is to get this status, and cancel its attempt unless that is already under way."""
    if step.stopping is not None and step.stopping.status == status:
        return NOTHING
    step_id = step.outline.id
    fact = stamped(state, e.PlanActEvent(step_id=step_id, attempt=step.attempt, status=status.value, by=by), at)
    if step.stopping is not None or step.attempt_over:
        return Decided((fact,))
    return Decided((fact,), (c.CancelAttempt(step_id, STOPPED_DETAIL),))


# --- do again -----------------------------------------------------------------------------------------------------


def _retry(state: State, step: StepState, command: Act, at: float) -> Decided:
    """Retry a step, and with it the dependants that have already run; one that waits for its retry starts at once."""
    if not state.is_run:
        # ``act_on_step`` adds the message.
        return retry_at_rest(state, c.Retry(structs.replace(command, message="", comments=())), at)
    if step.left is Left.RETRYING and not step.attempt_over and step.stopping is None:
        return Decided((e.PlanRetryEvent(ts=at, plan_id=state.plan_id, step_id=command.step_id, attempt=step.attempt),))
    stale, busy = _steps_to_redo(schedule_of(state).loaded, state, [command.step_id])
    reopens_items = step.id in state.unfolded and any(is_lost(state.steps[s]) for s in stale)
    if not reopens_items and (problem := _why_not_retried(step)):
        raise StepActError(command.step_id, command.action, problem)
    busy += [each.id for each in state.items_of(step.id) if each.stopping is not None]
    if busy:
        problem = f"its dependents {listed(busy)} are at work: wait for them, or stop them first"
        raise StepActError(command.step_id, command.action, problem)
    return _rescheduled(state, _reset(state, (command.step_id, *stale), at))


def _steps_to_redo(loaded: LoadedPlan, state: State, step_ids: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the steps to redo if these are: dependants that ran or were skipped, and those of them still at work."""
    after = [s for s in with_dependants(loaded, state, step_ids) if s not in step_ids and s in state.steps]
    begun = [step_id for step_id in after if _has_run(state.steps[step_id])]
    busy = [step_id for step_id in begun if not state.steps[step_id].status.is_final]
    stale = {*begun, *_lost_items(state, step_ids)}
    return [s for s in after if s in stale or _is_skipped_by_plan(state.steps[s])], busy


def _why_not_retried(step: StepState) -> str:
    """Return why a step of a running plan can't be retried, or blank if it can."""
    match step.status:
        case StepStatus.IN_PROGRESS:
            return "it is running"
        case StepStatus.SKIPPED if _is_skipped_by_plan(step):
            return f"it was skipped by the plan ({step.detail or step.reason or 'its dependencies'})"
        case status if status.is_final:
            return ""
        case _ if step.left is Left.REVISING:
            return "it failed and is being replanned"
        case _:
            return "it has not run yet"


def _is_skipped_by_plan(step: StepState) -> bool:
    return step.status is StepStatus.SKIPPED and not step.waived and step.reason != ONLY_REASON


def _has_run(step: StepState) -> bool:
    return step.begun >= step.attempt or bool(step.left) or step.status in {StepStatus.COMPLETED, StepStatus.FAILED}


def _reset(state: State, step_ids: Iterable[str], at: float) -> list[e.Fact]:
    reset = e.PlanResetEvent(ts=at, plan_id=state.plan_id, step_ids=tuple(step_ids))
    facts: list[e.Fact] = [reset]
    for step_id in reset.step_ids:
        step = state.steps[step_id]
        attempt = step.attempt + (step.begun >= step.attempt)
        facts.append(step_event(state, step, step.status, StepStatus.PENDING, at, (None, ""), attempt))
    return facts


def _rescheduled(state: State, facts: list[e.Fact], effects: Sequence[Effect] = ()) -> Decided:
    """Return these facts with a new schedule: the old queue can't drop steps, or take in those that are open again."""
    schedule = schedule_of(state)
    return Decided(facts, effects, partial(schedule.rebuilt, loaded=schedule.loaded))


CHANGES: Final[dict[type, Callable[[State, Any, float], Decided]]] = {
    c.DecisionTimedOut: decision_timed_out,
    c.BudgetSpent: budget_spent,
    c.Revised: plan_revised,
    c.RevisionRefused: revision_refused,
    c.ReviserRefused: reviser_refused,
    c.Retry: retry_at_rest,
    c.Tell: tell_step,
    Act: act_on_step,
    Pause: pause_plan,
    Cancel: cancel_plan,
    Decide: take_decision,
    Revise: revise_plan,
}
