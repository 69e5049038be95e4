"""``evolve`` folds a fact into a plan's state: the only place where it changes, live or read back from a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

import msgspec

from ipc import events as e
from planner.plan.status import PlanStatus, StepStatus
from planner.state.decisions import FAILED_KIND, INTERRUPTED_KIND, StepChoice, about_id
from planner.state.state import (
    COMPLETED,
    CUT,
    FINAL,
    IN_PROGRESS,
    LEFT_FAILED,
    REUSED_REASON,
    WAIVED_REASON,
    AttemptState,
    Left,
    RemovedStep,
    Span,
    State,
    StepState,
    Unfolding,
    at_rest,
    changed_by,
    count_steps,
    is_about,
    is_exhausted,
    list_result,
    removed_by,
)
from subagents.step_result import StepResult
from vibe.core.messages import Outcome
from vibe.system.errors import VibeError

_STATUS = {status.value: status for status in StepStatus}
_result_decoder = msgspec.json.Decoder(StepResult)
_EnumT = TypeVar("_EnumT", bound=StrEnum)


class FactInvalidError(VibeError):
    """A fact holds a value that this version does not know; only the fact's time was applied to the state."""

    def __init__(self, fact: e.Fact, problem: str) -> None:
        super().__init__(f"a fact {fact.__struct_config__.tag!r} can't be applied: {problem}")


_BEGUN = frozenset(Left) - {Left.RETRYING}
"""The ways of leaving an attempt that use up its number. While a retry waits, the step has the next number already."""


def evolve(state: State, fact: e.Fact) -> State:
    """Apply one fact to the state, in place, and return the same state.

    Raises:
        FactInvalidError: the fact holds a status or a result that this version does not know.
    """
    kind, at = type(fact), fact.ts
    if at > state.updated and state.is_run and kind not in _BESIDES:  # a clock set back takes nothing off
        state.active_seconds += at - state.updated
    state.updated = at
    _EVOLVE[kind](state, fact)
    return state


def _member(fact: e.Fact, kind: type[_EnumT], value: str) -> _EnumT:
    """Return the enum member with this value, or raise a FactInvalidError."""
    try:
        return kind(value)
    except ValueError as error:
        raise FactInvalidError(fact, str(error)) from error


def _result(fact: e.PlanAttemptEvent | e.PlanReusedEvent) -> StepResult:
    try:
        return _result_decoder.decode(fact.result)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FactInvalidError(fact, f"its result: {error}") from error


def fold(facts: Iterable[e.Fact], plan_id: str = "") -> State:
    """Return the state after these facts, first to last."""
    state = State(plan_id=plan_id)
    for fact in facts:
        evolve(state, fact)
    return state


def _take_up(state: State, fact: e.PlanStartedEvent | e.PlanResumedEvent) -> None:
    """Begin a run: a process starts or resumes the plan, with these steps."""
    unknown = next((outline.status for outline in fact.steps if outline.status not in _STATUS), None)
    if unknown is not None:
        raise FactInvalidError(fact, f"{unknown!r} is not a step status")
    if state.attached:
        state.breaks.append(state.active_seconds)
    state.attached += 1
    state.is_run, state.began = True, fact.ts
    state.expected = fact.expected or state.expected
    state.status, state.reason, state.outcome = PlanStatus.ACTIVE, None, None
    state.failed_now = state.stopping = None
    state.refused.clear()
    _release_steps(state)
    known, state.steps = state.steps, {}
    for outline in fact.steps:
        step = known.get(outline.id)
        if step is None:
            status = _STATUS[outline.status]
            step = StepState(outline=outline, status=status, attempt=outline.attempt, reason=outline.reason)
        else:
            step.outline = outline
        state.steps[outline.id] = step
    state.counts = count_steps(state.steps.values())


def _edited(state: State, _: e.PlanEditedEvent) -> None:
    """Note that a command changes the plan while no process runs it."""
    state.is_run = False
    _release_steps(state)


def _release_steps(state: State) -> None:
    """Cut off the attempts that a dead process left running, and reset what waited, so that it is judged anew."""
    for step_id, (_, began) in state.running.items():
        step = state.steps[step_id]
        if not step.attempt_over:
            step.spans += (Span(began, state.active_seconds, step.attempt, CUT),)
            step.left = Left.CUT
    state.running.clear()
    state.open.clear()
    if not state.is_given_up:
        state.stopping = None
    for step in state.steps.values():
        step.asked = None
        if step.status in FINAL or (step.status is StepStatus.BLOCKED and not state.is_run):
            continue
        step.status, step.attempt = at_rest(step)
        step.attempt_over = False
        if step.status in FINAL:
            step.stopping = None
            step.told = () if step.status is COMPLETED else step.told
            _note_failure(state, step)
        if step.left is Left.RETRYING:
            step.left = None
        if step.status not in FINAL and step.left not in LEFT_FAILED:
            step.reason, step.detail, step.result = None, "", None
    state.counts = count_steps(state.steps.values())


def _note_failure(state: State, step: StepState) -> None:
    """Note why a step failed, if that keeps the plan from completing."""
    if step.spoils:
        reason = "cancelled" if step.status is StepStatus.CANCELLED else step.reason or "failed"
        state.failures[step.outline.id] = reason
        state.failed_now = state.failed_now or (reason if state.is_run else None)


def _step_of(state: State, step_id: str, title: str = "") -> StepState:
    """Return a step, made on the spot if no earlier fact named it."""
    step = state.steps.get(step_id)
    if step is None:
        step = state.steps[step_id] = StepState(outline=e.StepOutline(id=step_id, title=title or step_id, mode=""))
        state.counts[step.status] += 1
    return step


def _set_status(state: State, step: StepState, status: StepStatus) -> None:
    """Set a step's status, keeping the counts and the failures in line with it."""
    state.counts[step.status] -= 1
    state.counts[status] += 1
    if state.failures and state.failures.pop(step.outline.id, None) is not None and not state.failures:
        state.failed_now = None
    step.status = status


def _move(state: State, fact: e.PlanStepUpdateEvent) -> None:
    """Change a step's status."""
    step_id, status = fact.step_id, _STATUS.get(fact.status)
    if status is None:
        raise FactInvalidError(fact, f"{fact.status!r} is not a step status")
    step = state.steps.get(step_id) or _step_of(state, step_id, fact.title)
    previous = step.status
    _set_status(state, step, status)
    if previous is IN_PROGRESS and step_id in state.running:
        if not step.attempt_over:
            _close_span(state, step, fact.status)
        del state.running[step_id]
    step.attempt, step.reason, step.detail = fact.attempt, fact.reason, fact.detail
    step.attempt_over = False
    step.any_model = step.any_model if fact.work is None else fact.work.any_model
    if status is IN_PROGRESS:
        step.left, step.begun = None, fact.attempt
        state.running[step_id] = (fact.ts, state.active_seconds)
        if state.decisions:
            # The permission to continue an interrupted attempt holds once: if it is cut off again, it is asked again.
            state.decisions.pop(about_id(INTERRUPTED_KIND, step_id, fact.attempt), None)
    elif status in FINAL:
        _settle(state, step, fact)
    if state.schedule is not None:
        state.schedule.moved(state, step_id, previous)


def _settle(state: State, step: StepState, fact: e.PlanStepUpdateEvent) -> None:
    """Close a step that is final: its open decision goes, and its failure or its list's result is noted."""
    if step.asked is not None:
        state.open.pop(step.asked, None)
    step.left = step.asked = step.stopping = None
    step.tolerated = fact.tolerated and not step.last_result.is_limited_by_plan  # earlier versions tolerated that
    step.waived = fact.reason == WAIVED_REASON and step.status is StepStatus.SKIPPED
    if fact.work is not None and step.outline.id in state.unfolded:
        step.result = list_result(fact.status, fact.reason, fact.detail, fact.work)
    if step.status is not COMPLETED:
        _note_failure(state, step)
    else:
        step.told = ()


def _attempt_ended(state: State, fact: e.PlanAttemptEvent) -> None:
    """Record the end of an attempt; its step moves on with a later fact."""
    result, left = _result(fact), _member(fact, Left, fact.left) if fact.left else None
    step = _step_of(state, fact.step_id)
    if step.status is not IN_PROGRESS:  # somebody cut the journal by hand
        _set_status(state, step, StepStatus.IN_PROGRESS)
        state.running[fact.step_id] = (fact.ts, state.active_seconds)
    if not step.attempt_over:
        _close_span(state, step, result.outcome)
    known, seconds = step.attempts, result.duration_s
    if known and known[-1].number == fact.attempt:  # a further part of an interrupted attempt
        known, seconds = known[:-1], seconds + known[-1].seconds
    step.attempts = (*known, AttemptState(fact.attempt, result, seconds, fact.ts))
    step.attempt, step.begun = fact.attempt, max(step.begun, fact.attempt)
    step.result, step.reason, step.detail = result, result.reason, result.detail
    step.any_model = result.any_model
    step.left = left
    step.attempt_over, step.tolerated = True, fact.tolerated and not result.is_limited_by_plan
    if result.outcome is not Outcome.COMPLETED:
        step.exhausted += is_exhausted(result) and not result.any_model
        if result.provider_refused:
            state.refused.add(result.outcome)


def _close_span(state: State, step: StepState, ended: str) -> None:
    """Note the time for which the attempt that now ends has run."""
    began = state.running.get(step.outline.id)
    if began is not None:
        step.spans += (Span(began[1], state.active_seconds, step.attempt, ended),)


def _step_stopping(state: State, fact: e.PlanActEvent) -> None:
    _member(fact, StepStatus, fact.status)
    step = state.steps.get(fact.step_id)
    if step is not None:
        step.stopping = fact


def _retry_due(state: State, fact: e.PlanRetryEvent) -> None:
    """End the wait of a step for its next attempt."""
    step = state.steps.get(fact.step_id)
    if step is not None and step.left is Left.RETRYING:
        step.left = None
    if state.schedule is not None:
        state.schedule.judge(state, (fact.step_id,))


def _message(state: State, fact: e.PlanToldEvent) -> None:
    step = state.steps.get(fact.step_id)
    if step is not None and all((one.ts, one.text) != (fact.ts, fact.text) for one in step.told):
        step.told += (fact,)


def _reused(state: State, fact: e.PlanReusedEvent) -> None:
    """Complete a step with an earlier plan's result."""
    result, step = _result(fact), _step_of(state, fact.step_id)
    _set_status(state, step, StepStatus.COMPLETED)
    step.reused_from, step.result = fact.from_plan, result
    step.reason, step.detail = REUSED_REASON, f"done by plan {fact.from_plan}"


def _reset(state: State, fact: e.PlanResetEvent) -> None:
    """Reopen steps that are done again."""
    for step_id in fact.step_ids:
        step = state.steps.get(step_id)
        if step is not None:
            _begin_again(state, step, is_begun=step.begun >= step.attempt)


def _begin_again(state: State, step: StepState, *, is_begun: bool) -> None:
    """Reopen a step: forget the result of its last attempt, and move to the next number if that one was begun."""
    for kind in (FAILED_KIND, INTERRUPTED_KIND):
        state.decisions.pop(about_id(kind, step.outline.id, step.attempt), None)
    if step.status in FINAL or step.asked is not None:
        _set_status(state, step, StepStatus.PENDING)
    step.attempt += is_begun
    step.left, step.asked, step.result, step.waived, step.stopping = None, None, None, False, None
    step.reason, step.detail, step.reused_from = None, "", None


def _unfolded(state: State, fact: e.PlanUnfoldedEvent) -> None:
    """Insert a step for each item of a list, after the step with the list."""
    state.unfolded[fact.step_id] = Unfolding(fact, len(state.revisions))
    state.schedule = None  # it was made for the plan without these steps
    pattern = _step_of(state, fact.step_id).outline
    order = msgspec.structs.replace(pattern.order or e.WorkOrder(), pattern=fact.step_id)
    initial: dict[str, Any] = {"status": StepStatus.PENDING.value, "reason": None, "attempt": 1, "order": order}
    made = {
        child.id: StepState(outline=msgspec.structs.replace(pattern, id=child.id, title=child.title, **initial))
        for child in fact.children
    }
    steps: dict[str, StepState] = {}
    for step_id, step in state.steps.items():
        steps[step_id] = step
        if step_id == fact.step_id:
            steps |= made
    state.counts[StepStatus.PENDING] += len(steps) - len(state.steps)
    state.steps = steps


def _decision(state: State, fact: e.PlanDecisionEvent) -> None:
    """Open a decision, or take it: a choice about the last attempt also changes its step."""
    step = state.steps.get(fact.step_id or "") if fact.kind else None
    if not fact.selections:
        state.open[fact.decision_id] = fact
        if step is not None:
            step.asked = fact.decision_id
            state.decisions.pop(fact.decision_id, None)  # an attempt can be asked about twice
        return
    state.open.pop(fact.decision_id, None)
    state.decisions[fact.decision_id] = fact
    if step is not None and step.attempt == fact.attempt:
        step.asked = None
        if StepChoice.RETRY in fact.selections:
            step.attempt, step.left = step.attempt + 1, None
        elif StepChoice.AGAIN in fact.selections:
            step.left = Left.STOPPED
    if state.schedule is not None:
        state.schedule.decided(state, fact)


def _revised(state: State, fact: e.PlanRevisedEvent) -> None:
    """Add, change and remove steps; changed steps that had failed or stopped begin again."""
    state.revisions.append(fact)
    state.schedule = None  # it was made for the plan before the revision
    before = state.steps.keys() - removed_by(fact)
    for step_id in sorted(removed_by(fact) & state.steps.keys()):
        step = state.steps.pop(step_id)
        state.counts[step.status] -= 1
        state.failures.pop(step_id, None)
        state.running.pop(step_id, None)
        state.removed.append(RemovedStep(step, fact.by, fact.ts))
    _revise_outlines(state, fact.operations)
    changed = changed_by(fact) & before
    gone_or_changed = changed | removed_by(fact)
    state.open = {name: decision for name, decision in state.open.items() if not is_about(decision, gone_or_changed)}
    for step_id in sorted(changed):
        step = state.steps[step_id]
        if step.status is StepStatus.FAILED or step.left in _BEGUN:
            _begin_again(state, step, is_begun=True)
    answered = state.steps.get(fact.step_id or "")
    if answered is not None and answered.left is Left.REVISING:  # unchanged by the revision, it has failed
        answered.left = None
        _set_status(state, answered, StepStatus.FAILED)
        _note_failure(state, answered)
    if not any(step.spoils for step in state.steps.values()):
        state.failed_now = None


def _revise_outlines(state: State, operations: Sequence[Mapping[str, Any]]) -> None:
    """Apply a revision's operations to the outlines of steps."""
    for operation in operations:
        match operation:
            case {"op": "add_step", "step": {"id": str(step_id), **fields}}:
                state.steps[step_id] = StepState(outline=_outline(step_id, cast("Mapping[str, Any]", fields)))
                state.counts[StepStatus.PENDING] += 1
            case {"op": "update_step", "id": str(step_id), "changes": {**changes}} if step_id in state.steps:
                kept = {name: str(changes[name]) for name in ("title", "mode", "workspace") if name in changes}
                _change_outline(state.steps[step_id], **kept)
            case {"op": "add_edge", "step": str(step_id), "depends_on": edge} if step_id in state.steps:
                step = state.steps[step_id]
                _change_outline(step, depends_on=(*step.outline.depends_on, _dependency_id(edge)))
            case {"op": "remove_edge", "step": str(step_id), "depends_on": str(dependency)} if step_id in state.steps:
                step = state.steps[step_id]
                _change_outline(step, depends_on=tuple(each for each in step.outline.depends_on if each != dependency))
            case _:
                pass


def _change_outline(step: StepState, **changes: Any) -> None:
    step.outline = msgspec.structs.replace(step.outline, **changes)


def _outline(step_id: str, fields: Mapping[str, Any]) -> e.StepOutline:
    edges = cast("Sequence[object]", fields.get("depends_on") or ())
    return e.StepOutline(
        id=step_id,
        title=str(fields.get("title", step_id)),
        mode=str(fields.get("mode", "")),
        depends_on=tuple(_dependency_id(edge) for edge in edges),
        workspace=str(fields.get("workspace", "shared")),
    )


def _dependency_id(edge: object) -> str:
    return str(cast("Mapping[str, Any]", edge).get("step", "")) if isinstance(edge, Mapping) else str(edge)


def _stopping(state: State, fact: e.PlanStoppingEvent) -> None:
    _member(fact, PlanStatus, fact.status)
    refused = {_member(fact, Outcome, fact.outcome)} if fact.outcome else set[Outcome]()
    state.stopping = fact
    state.refused |= refused


def _ended(state: State, fact: e.PlanPausedEvent | e.PlanCompletedEvent) -> None:
    status = _member(fact, PlanStatus, fact.status) if isinstance(fact, e.PlanCompletedEvent) else PlanStatus.PAUSED
    state.outcome = _member(fact, Outcome, fact.outcome) if fact.outcome else None
    state.status, state.reason, state.stopping = status, fact.reason, None


def _left_workspace(state: State, fact: e.PlanLeftEvent) -> None:
    state.left_at = fact.commit


_BESIDES: Final = frozenset({e.PlanStartedEvent, e.PlanResumedEvent, e.PlanEditedEvent, e.PlanLeftEvent})
"""Facts at which a process or a command takes the plan up or leaves it; the time before them is not active."""
_EVOLVE: Final[dict[type, Callable[[State, Any], None]]] = {
    e.PlanStartedEvent: _take_up,
    e.PlanResumedEvent: _take_up,
    e.PlanEditedEvent: _edited,
    e.PlanStepUpdateEvent: _move,
    e.PlanAttemptEvent: _attempt_ended,
    e.PlanActEvent: _step_stopping,
    e.PlanRetryEvent: _retry_due,
    e.PlanToldEvent: _message,
    e.PlanReusedEvent: _reused,
    e.PlanResetEvent: _reset,
    e.PlanDecisionEvent: _decision,
    e.PlanRevisedEvent: _revised,
    e.PlanStoppingEvent: _stopping,
    e.PlanPausedEvent: _ended,
    e.PlanCompletedEvent: _ended,
    e.PlanLeftEvent: _left_workspace,
    e.PlanUnfoldedEvent: _unfolded,
}
