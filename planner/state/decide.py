"""``decide`` turns a command and a plan's state into facts to record and effects to run. Pure: no clock, no I/O."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Raw, json, structs

from ipc import events as e
from planner.plan.diagnostics import IllegalTransitionError
from planner.plan.for_each import ITEMS_REASON, ItemsInvalidError, children_of, items_as_bytes, list_of
from planner.plan.loader import LoadedPlan
from planner.plan.status import PlanStatus, StepStatus
from planner.state import commands as c
from planner.state.changes import CHANGES, decision_requests, follow_choice, needed_decisions
from planner.state.commands import NOTHING, Command, Decided, Effect
from planner.state.decisions import TIMEOUT, plan_decision
from planner.state.evolve import evolve
from planner.state.facts import (
    INTERRUPTED_REASON,
    left_after,
    pauses_plan,
    plan_stopping,
    question_about,
    reason_of,
    retry_delay,
    run_is_over,
    stamped,
    step_asked,
    step_event,
    step_moved,
    step_stopped,
    steps_given_up,
    tolerates,
)
from planner.state.lists import result_of_list
from planner.state.outcome import DECISION_REASON, outcome_of
from planner.state.schedule import Schedule, outline_of, schedule_of
from planner.state.state import ACTIVE, BUDGET_REASON, END_STATUS, IN_PROGRESS, Left, State, StepState
from subagents.step_result import ENVIRONMENT_REASON, StepResult
from vibe.core.messages import Outcome, total_of

BLOCKED_AT_ONCE = 256
"""The most steps that one MarkBlocked command marks as blocked: a few milliseconds of work."""


def decide(state: State, command: Command, at: float) -> Decided:
    """Return the facts and effects of ``command`` at the time ``at`` (unix seconds), leaving the state unchanged.

    The state must have a schedule, unless the command is Start, which makes one.

    Raises:
        UsageError, StepsWentOnError: the command can't be carried out in this state.
    """
    return _DECIDE[type(command)](state, command, at)


def carry_out(state: State, command: Command, at: float, record: Callable[[e.Fact], None]) -> Sequence[Effect]:
    """Decide a command, then keep deciding what follows from it by itself until nothing more does.

    Each fact is passed to ``record`` and folded into the state before the next decision. Returns the effects, to be
    carried out in order. Nothing follows AttemptEnded by itself: that waits for AttemptSaved.

    Raises:
        UsageError, StepsWentOnError: as for ``decide``; nothing has changed.
    """
    decided = decide(state, command, at)
    effects = [*decided.effects]
    goes_on = not isinstance(command, c.AttemptEnded) and (state.is_run or isinstance(command, c.Start))
    leftovers_handled = False
    while True:
        for fact in decided.facts:
            record(fact)
            evolve(state, fact)
        if decided.schedule is not None:
            state.schedule = decided.schedule(state)
            if isinstance(command, c.Start) and not leftovers_handled:
                leftovers_handled, decided = True, _handle_leftovers(state, at)
                effects += decided.effects
                continue
        if not goes_on or state.status is not ACTIVE:
            return effects
        decided = proceed(state, at)
        effects += decided.effects
        if not decided.facts:
            return effects


def proceed(state: State, at: float) -> Decided:
    """Return what follows next from the state itself, such as starting a step; without facts, nothing does for now."""
    schedule, stopping = schedule_of(state), state.stopping
    may_start = stopping is None and not (schedule.fail_fast and state.failed_now is not None)
    if stopping is not None and state.is_given_up:
        given_up = steps_given_up(state, stopping.reason, at)
        return Decided(given_up) if given_up else _end_run(state, at)
    if schedule.to_skip:
        why = schedule.readiness.why_skipped
        return Decided([step_moved(state, s, StepStatus.SKIPPED, at, (None, why(s))) for s in schedule.to_skip])
    if schedule.to_drop:
        return _drop_items(state, at)
    if schedule.to_ask and (facts := decision_requests(state, at)):
        return Decided(facts, _deadlines(facts))
    if may_start and schedule.ready and len(state.running) < schedule.width and (step_id := schedule.queue.best()):
        started = step_moved(state, step_id, IN_PROGRESS, at)
        return Decided((started,), (c.StartAttempt(step_id, started.attempt),))
    if schedule.to_mark_pending:
        return Decided([step_moved(state, step_id, StepStatus.PENDING, at) for step_id in schedule.to_mark_pending])
    if may_start and schedule.lists_due:
        return Decided((), [(c.KeepItems if s in state.unfolded else c.ReadItems)(s) for s in schedule.lists_due])
    return NOTHING if state.running else _end_run(state, at)


def _start(state: State, command: c.Start, at: float) -> Decided:
    """Begin or resume the plan, and take the decisions that were given by flags."""
    plan = command.loaded.plan.resolved()
    outlines = tuple(outline_of(step, state.steps.get(step.id)) for step in plan.steps)
    common: dict[str, Any] = {
        "ts": at,
        "plan_id": state.plan_id,
        "goal": plan.goal,
        "steps": outlines,
        "max_tokens": plan.budget.max_tokens if plan.budget else None,
        "pid": command.pid,
        "version": command.version,
        "workspace": command.workspace,
        "expected": state.expected or command.expected,
    }
    began: e.Fact
    if state.attached:
        done = sum(outline.status == StepStatus.COMPLETED for outline in outlines)
        tokens = total_of(state.spent().values()).usage.total_tokens
        began = e.PlanResumedEvent(done=done, tokens=tokens, **common)
    else:
        common["reused_from"] = command.reused_from
        began = e.PlanStartedEvent(max_parallel_steps=command.width, note=command.note, **common)
    decisions = {decision.id: plan_decision(decision) for decision in plan.decisions}
    flagged = [
        stamped(state, decisions[name], at, selections=chosen, by="flag")
        for name, chosen in command.decisions.items()
        if name in decisions and name not in state.decisions
    ]
    stopping = state.stopping if state.is_given_up else None
    cancelling = () if stopping is None else (plan_stopping(state, PlanStatus.CANCELLED, stopping.reason, at),)
    schedule = partial(
        Schedule, loaded=command.loaded, width=command.width, fail_fast=command.fail_fast, attended=command.attended
    )
    return Decided((began, *flagged, *cancelling), (), schedule)


def _handle_leftovers(state: State, at: float) -> Decided:
    """Deal with the attempts that the last process left open.

    Each is stopped, sent to the reviser, asked about or, if the answer was given in the meantime, handled by it.
    """
    facts: list[e.Fact] = []
    effects: list[Effect] = []
    if state.stopping is not None:  # the last process died while it was cancelling the plan; ``proceed`` finishes that
        return NOTHING
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
                facts += follow_choice(state, step, answer.selections[0], at)
    return Decided(facts, effects)


def preview_next_run(state: State, loaded: LoadedPlan, flags: dict[str, tuple[str, ...]] | None = None) -> State:
    """Evolve the state of a plan that is not running to show what its steps wait for, as the next process would.

    Returns the same state and records nothing. ``flags`` are the decisions given when the plan was run.
    """
    at = state.updated
    evolve(state, e.PlanEditedEvent(ts=at))
    for decision in loaded.plan.decisions:
        chosen = (flags or {}).get(decision.id)
        if chosen and decision.id not in state.decisions:
            evolve(state, stamped(state, plan_decision(decision), at, selections=chosen, by="flag"))
    schedule = state.schedule = Schedule(state, loaded, width=1)
    facts = [fact for fact in _handle_leftovers(state, at).facts if _is_asking(fact)]
    freed = [step_moved(state, step_id, StepStatus.PENDING, at) for step_id in schedule.to_mark_pending]
    asked = () if state.is_given_up else decision_requests(state, at)
    for fact in (*facts, *freed, *asked):
        evolve(state, fact)
    while schedule.to_mark_blocked:
        for fact in mark_blocked(state, c.MarkBlocked(), at).facts:
            evolve(state, fact)
    return state


def break_off(state: State, at: float) -> list[e.Fact]:
    """Pause a plan whose run can't record its end, as on a full disk, and return the facts for those who watch it."""
    moved = [step_moved(state, step_id, StepStatus.PENDING, at, (ENVIRONMENT_REASON, "")) for step_id in state.running]
    paused = stamped(state, e.PlanPausedEvent(reason=ENVIRONMENT_REASON, outcome=Outcome.FAILED), at)
    for fact in (*moved, paused):
        evolve(state, fact)
    return [*moved, paused]


def _is_asking(fact: e.Fact) -> bool:
    """Return whether a fact asks for an answer; facts that follow from an answer don't."""
    asks = isinstance(fact, e.PlanStepUpdateEvent) and fact.status == StepStatus.NEEDS_DECISION
    return asks or (isinstance(fact, e.PlanDecisionEvent) and not fact.selections)


def attempt_ended(state: State, command: c.AttemptEnded, at: float) -> Decided:
    """Record the result of an attempt. The step moves on with AttemptSaved, once the result is on disk.

    Raises:
        IllegalTransitionError: the step is not running.
    """
    step_id, result = command.step_id, command.result
    if step_id not in state.running:
        status = state.steps[step_id].status if step_id in state.steps else "unknown"
        raise IllegalTransitionError(f"step {step_id!r}", status, result.outcome)
    state_of_step, step = state.steps[step_id], schedule_of(state).steps[step_id]
    attempt = state_of_step.attempt
    left = left_after(step, attempt, result, cut=command.cut)
    if state_of_step.stopping is not None and result.outcome is not Outcome.COMPLETED:
        left = Left.CUT if command.cut else Left.STOPPED  # a user cancelled or skipped it, so there is no retry
    ended = e.PlanAttemptEvent(
        ts=at,
        plan_id=state.plan_id,
        step_id=step_id,
        attempt=attempt,
        result=command.raw,
        left=None if left is None else left.value,
        tolerated=tolerates(step, result),
        model=models[min(attempt, len(models)) - 1] if (models := step.models) else "",
    )
    return Decided((ended,))


def attempt_saved(state: State, command: c.AttemptSaved, at: float) -> Decided:
    """Move a step on after an attempt whose result is now on disk.

    Raises:
        IllegalTransitionError: no attempt at the step has just ended.
    """
    if command.step_id in state.unfolded:
        return list_saved(state, command.step_id, at)
    step = state.steps[command.step_id]
    result = step.result
    if result is None or not step.attempt_over:
        raise IllegalTransitionError(f"step {command.step_id!r}", step.status, "what its attempt came to")
    if result.outcome is Outcome.COMPLETED:
        return Decided((_finish_step(state, step, result, at),))
    if state.stopping is not None and state.is_given_up:
        if step.left in (Left.STOPPED, Left.CUT):
            why = (state.stopping.reason, result.detail)
            return Decided((step_moved(state, command.step_id, StepStatus.CANCELLED, at, why),))
        return Decided((_finish_step(state, step, result, at),))
    facts, effects = _follow_attempt(state, step, result, at)
    if pauses_plan(result) and state.stopping is None:
        facts = (*facts, plan_stopping(state, PlanStatus.PAUSED, result.reason or "provider", at))
    return Decided(facts, effects)


def _follow_attempt(
    state: State, step: StepState, result: StepResult, at: float
) -> tuple[Sequence[e.Fact], Sequence[Effect]]:
    """Return what an attempt that did not complete leads to: a stop, retry, question, revision or pause."""
    if step.stopping is not None:
        return (step_stopped(state, step, StepStatus(step.stopping.status), step.stopping.by, at),), ()
    if step.left is None:
        return (_finish_step(state, step, result, at),), ()
    step_id, why_failed = step.outline.id, (reason_of(result), result.detail)
    match step.left:
        case Left.RETRYING:
            why = (result.reason or "failed", result.detail)
            again = step.attempt + 1
            moved = step_event(state, step, StepStatus.IN_PROGRESS, StepStatus.PENDING, at, why, again)
            further_models = max(0, len(schedule_of(state).steps[step_id].models) - 1)
            return (moved,), (c.WaitForRetry(step_id, again, retry_delay(step.attempt - further_models)),)
        case Left.ASKING:
            return step_asked(state, step, question_about(state, step), at, why_failed), ()
        case Left.REVISING:
            return (step_moved(state, step_id, StepStatus.PENDING, at, why_failed),), (c.AskReviser(step_id),)
        case Left.CUT if schedule_of(state).steps[step_id].side_effects:
            why = (result.reason or INTERRUPTED_REASON, result.detail)
            return step_asked(state, step, question_about(state, step), at, why), ()
        case _:
            reason = result.reason or ("provider" if result.provider_refused else INTERRUPTED_REASON)
            return (step_moved(state, step_id, StepStatus.PENDING, at, (reason, result.detail)),), ()


def _finish_step(state: State, step: StepState, result: StepResult, at: float) -> e.PlanStepUpdateEvent:
    """Return the fact that a step ends with this result."""
    why = reason_of(result), result.detail
    return step_moved(state, step.outline.id, END_STATUS[result.outcome], at, why)


def retry_due(state: State, command: c.RetryDue, at: float) -> Decided:
    """End a step's wait for its next attempt."""
    step = state.steps.get(command.step_id)
    if step is None or step.left is not Left.RETRYING or run_is_over(state):
        return NOTHING
    due = e.PlanRetryEvent(ts=at, plan_id=state.plan_id, step_id=command.step_id, attempt=step.attempt)
    return Decided((due,))


def unfold(state: State, command: c.Unfold, at: float) -> Decided:
    """Make a step for each item of a list, or fail the step with the list if its items are invalid."""
    schedule, step_id = schedule_of(state), command.step_id
    if run_is_over(state) or step_id not in schedule.lists_due or step_id in state.unfolded:
        return NOTHING
    try:
        children = children_of(schedule.steps[step_id], command.items, schedule.plan.values(), schedule.steps)
    except ItemsInvalidError as error:
        source = list_of(schedule.steps[step_id]).source
        fix = f"; to have another list made: retry {source}" if source else ""
        return Decided((step_moved(state, step_id, StepStatus.FAILED, at, (ITEMS_REASON, f"{error}{fix}")),))
    outlines = tuple(e.ItemOutline(id=child.id, key=child.key, title=child.title) for child in children)
    digest = items_as_bytes(command.items)[1]
    facts: list[e.Fact] = [stamped(state, e.PlanUnfoldedEvent(step_id=step_id, children=outlines, items=digest), at)]
    for child in children:
        if (result_of_item := command.taken.get(child.key)) is not None:
            result = Raw(json.encode(result_of_item))
            reused = e.PlanReusedEvent(step_id=child.id, from_plan=command.reused_from, result=result)
            facts.append(stamped(state, reused, at))
    return Decided(facts, (), partial(schedule.rebuilt, loaded=schedule.loaded.unfolded(children)))


def list_saved(state: State, step_id: str, at: float) -> Decided:
    """End a step with a list whose items have all ended, now that their results are on disk."""
    schedule = schedule_of(state)
    if run_is_over(state) or step_id not in schedule.lists_due:
        return NOTHING
    result = result_of_list(state, schedule.steps, step_id)
    moved = step_moved(state, step_id, END_STATUS[result.outcome], at, (result.reason, result.detail))
    work = e.WorkDone(summary=result.summary, files_changed=result.files_changed)
    is_tolerated = moved.tolerated and result.reason != BUDGET_REASON
    return Decided((structs.replace(moved, work=work, tolerated=is_tolerated),))


def _drop_items(state: State, at: float) -> Decided:
    """Skip the items that have not begun, in lists where too few items can still complete."""
    schedule = schedule_of(state)
    why = ITEMS_REASON, "too few of the items can still complete"
    facts = [step_moved(state, step_id, StepStatus.SKIPPED, at, why) for step_id in schedule.to_drop]
    return Decided(facts, (), partial(schedule.rebuilt, loaded=schedule.loaded))


def mark_blocked(state: State, _: c.MarkBlocked, at: float) -> Decided:
    """Mark up to BLOCKED_AT_ONCE of the steps that wait for dependencies as blocked."""
    if run_is_over(state):
        return NOTHING
    first = itertools.islice(schedule_of(state).to_mark_blocked, BLOCKED_AT_ONCE)
    return Decided([step_moved(state, step_id, StepStatus.BLOCKED, at) for step_id in first])


def _deadlines(facts: Iterable[e.Fact]) -> list[Effect]:
    """Return an effect for each opened decision with a timeout, to wait for its answer."""
    return [
        c.WaitForAnswer(fact.decision_id, fact.timeout_seconds)
        for fact in facts
        if isinstance(fact, e.PlanDecisionEvent) and fact.timeout_seconds
    ]


def _end_run(state: State, at: float) -> Decided:
    """Return the fact that ends the run, once the remaining steps are marked as blocked.

    There is none while a step runs, or while a retry, a revision, a list or an answer is still to come.
    """
    if state.running:
        return NOTHING
    end = _end_status(state)
    if end is None:
        return NOTHING
    if schedule_of(state).to_mark_blocked:
        return mark_blocked(state, c.MarkBlocked(), at)
    status, reason = end
    outcome = outcome_of(state, status, reason).value
    if status is PlanStatus.PAUSED:
        return Decided((stamped(state, e.PlanPausedEvent(reason=reason or "", outcome=outcome), at),))
    details: dict[str, Any] = {"counts": state.counted(), "duration_s": at - state.began, "outcome": outcome}
    return Decided((stamped(state, e.PlanCompletedEvent(status=status.value, reason=reason, **details), at),))


def _end_status(state: State) -> tuple[PlanStatus, str | None] | None:
    """Return the status and reason with which the run ends now, or None if it must go on waiting."""
    schedule, stopping = schedule_of(state), state.stopping
    is_asking = state.counts[StepStatus.NEEDS_DECISION] > 0
    is_awaited = any(step.left in (Left.RETRYING, Left.REVISING) for step in state.steps.values())
    more_follows = is_awaited or bool(schedule.lists_due)
    if stopping is not None and state.is_given_up and state.counts[StepStatus.CANCELLED]:
        return PlanStatus.CANCELLED, stopping.reason
    if schedule.fail_fast and state.failed_now is not None:
        return PlanStatus.FAILED, state.failed_now
    if stopping is not None and not state.is_given_up and (schedule.ready or more_follows or is_asking):
        return PlanStatus(stopping.status), stopping.reason
    if more_follows or (is_asking and (schedule.attended or _is_timed(state))):
        return None
    if is_asking:
        return PlanStatus.PAUSED, DECISION_REASON
    return _final_status(state)


def _is_timed(state: State) -> bool:
    """Return whether a decision that steps wait for will be taken by its timeout."""
    waiting = [state.open[name] for name in needed_decisions(state)]
    return any(decision.timeout_seconds and decision.by != TIMEOUT for decision in waiting)


def _final_status(state: State) -> tuple[PlanStatus, str | None]:
    """Return the status and reason of a run in which nothing more will happen, judged by all of its steps."""
    open_steps = state.open_steps()
    if any(not schedule_of(state).readiness.is_waiting(step_id) for step_id in open_steps):
        return PlanStatus.FAILED, "stalled"
    if open_steps or any(step.spoils for step in state.steps.values()):
        first = next(iter(state.failures.values()), None)
        return PlanStatus.FAILED, state.failed_now or first or "failed"
    return PlanStatus.COMPLETED, None


_DECIDE: Final[dict[type, Callable[[State, Any, float], Decided]]] = {
    c.Start: _start,
    c.AttemptEnded: attempt_ended,
    c.AttemptSaved: attempt_saved,
    c.RetryDue: retry_due,
    c.Unfold: unfold,
    c.MarkBlocked: mark_blocked,
    **CHANGES,
}
