"""Short events and instructions for scheduler tests, and their translation to and from ``decide`` and ``evolve``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ipc import events as e
from ipc.commands import Act, Cancel, Decide, Pause, Revise
from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, PlanStatus, StepStatus
from planner.plan.operations import Operation, plain_operations
from planner.state import commands as c
from planner.state.schedule import outline_of
from planner.state.state import Left, State, changed_by, removed_by
from subagents.executor import StepResult
from vibe.core.messages import Outcome


class StepEnded(Struct, frozen=True):
    """An attempt is over, and its result is on disk."""

    step_id: str
    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    provider_refused: bool = False
    cut: bool = False

    def commands(self) -> tuple[c.Command, c.Command]:
        result = StepResult(
            outcome=self.outcome, reason=self.reason, detail=self.detail, provider_refused=self.provider_refused
        )
        raw = msgspec.Raw(msgspec.json.encode(result))
        return c.AttemptEnded(step_id=self.step_id, result=result, raw=raw, cut=self.cut), c.AttemptSaved(self.step_id)


class DecisionTaken(Struct, frozen=True):
    """Somebody has chosen."""

    decision_id: str
    selections: tuple[str, ...]
    by: str


class PauseRequested(Struct, frozen=True):
    """Somebody wants the plan paused."""

    reason: str


class CancelRequested(Struct, frozen=True):
    """Somebody wants the plan given up."""

    reason: str


class PlanReplaced(Struct, frozen=True):
    """The plan was revised, and this version counts from now on."""

    plan: Plan
    dag: Dag
    changed: frozenset[str] = frozenset()
    answers: str | None = None
    operations: tuple[Operation, ...] | None = None
    """The operations that lead from the old plan to it. If None, all differences."""

    @property
    def touched(self) -> frozenset[str]:
        """The steps that the operations change or remove."""
        revised = e.PlanRevisedEvent(operations=plain_operations(self.operations or ()))
        return changed_by(revised) | removed_by(revised)

    def command(self, old: Plan) -> c.Revised:
        """Return the revision with the steps that are added, removed and changed, as operations."""
        before, after = {s.id: s for s in old.steps}, {s.id: s for s in self.plan.steps}
        operations: list[dict[str, Any]] = [
            {"op": "add_step", "step": step.model_dump(mode="json", exclude_unset=True)}
            for step_id, step in after.items()
            if step_id not in before
        ]
        operations += [{"op": "remove_step", "id": step_id} for step_id in before if step_id not in after]
        operations += [
            {"op": "update_step", "id": step_id, "changes": {"title": after[step_id].title}}
            for step_id in sorted(self.changed & after.keys() & before.keys())
        ]
        if self.operations is not None:
            operations = list(plain_operations(self.operations))
        loaded = LoadedPlan(plan=self.plan, dag=self.dag, source_bytes=b"", where="test")
        return c.Revised(asked=Revise(operations=tuple(operations), by="replan"), loaded=loaded, step_id=self.answers)


RetryDue = c.RetryDue
RevisionRefused = c.RevisionRefused
StartStep = c.StartAttempt
CancelStep = c.CancelAttempt


SchedulerEvent: TypeAlias = (
    Act | StepEnded | RetryDue | DecisionTaken | PauseRequested | CancelRequested | PlanReplaced | RevisionRefused
)


class MoveStep(Struct, frozen=True):
    """A step changed status."""

    step_id: str
    previous: StepStatus
    status: StepStatus
    reason: str | None
    detail: str
    attempt: int


class WaitForRetry(Struct, frozen=True):
    """RetryDue must be sent after ``delay_seconds``."""

    step_id: str
    attempt: int
    delay_seconds: float


class OpenDecision(Struct, frozen=True):
    """A decision was opened."""

    decision_id: str


class AskReviser(Struct, frozen=True):
    """A revision of the plan is wanted."""

    step_id: str
    attempt: int


class EndPlan(Struct, frozen=True):
    """The plan has ended."""

    status: PlanStatus
    reason: str | None


Instruction: TypeAlias = StartStep | MoveStep | WaitForRetry | OpenDecision | AskReviser | CancelStep | EndPlan


def commands_of(event: SchedulerEvent, plan: Plan) -> Sequence[c.Command]:
    match event:
        case StepEnded():
            return event.commands()
        case DecisionTaken(decision_id, selections, by):
            return (Decide(decision_id=decision_id, selections=selections, by=by),)
        case PauseRequested(reason):
            return (Pause(by=reason),)
        case CancelRequested(reason):
            return (Cancel(by=reason),)
        case PlanReplaced():
            return (event.command(plan),)
        case _:
            return (event,)


def said_by(facts: Sequence[e.Fact], effects: Sequence[c.Effect], state: State) -> list[Instruction]:
    """Return the instructions in facts, in effects, and for the end if there is one."""
    told = list(_told(facts))
    ends = [each for each in told if isinstance(each, EndPlan)]
    return [*(each for each in told if not isinstance(each, EndPlan)), *_wanted(effects, state), *ends]


def _told(facts: Sequence[e.Fact]) -> Iterator[Instruction]:
    for fact in facts:
        match fact:
            case e.PlanStepUpdateEvent():
                previous, status = StepStatus(fact.previous), StepStatus(fact.status)
                yield MoveStep(fact.step_id, previous, status, fact.reason, fact.detail, fact.attempt)
            case e.PlanDecisionEvent(selections=()):
                yield OpenDecision(fact.decision_id)
            case e.PlanPausedEvent(reason=reason):
                yield EndPlan(PlanStatus.PAUSED, reason)
            case e.PlanCompletedEvent(status=status, reason=reason):
                yield EndPlan(PlanStatus(status), reason)
            case _:
                pass


def _wanted(effects: Sequence[c.Effect], state: State) -> Iterator[Instruction]:
    for effect in effects:
        match effect:
            case c.StartAttempt() | c.CancelAttempt():
                yield effect
            case c.WaitForRetry(step_id, attempt, seconds):
                yield WaitForRetry(step_id, attempt, seconds)
            case c.AskReviser(step_id):
                yield AskReviser(step_id, state.steps[step_id].attempt)
            case _:
                pass


class Was(Struct, frozen=True):
    """A step's state when the plan was last open. Unless final: PENDING, at the attempt that comes next or was left."""

    status: StepStatus
    attempt: int = 1
    left: Left | None = None
    waived: bool = False
    reason: str | None = None
    detail: str = ""


_OUTCOMES = {StepStatus.COMPLETED: Outcome.COMPLETED, StepStatus.FAILED: Outcome.FAILED}


def earlier_run(plan: Plan, was: Mapping[str, Was], chosen: Mapping[str, tuple[str, ...]]) -> list[e.Fact]:
    """Return what an earlier run recorded that left the steps in these states, followed by these decisions."""
    facts: list[e.Fact] = [e.PlanStartedEvent(goal=plan.goal, steps=tuple(outline_of(step) for step in plan.steps))]
    for step in plan.steps:
        facts += _earlier_step(step.id, step.on_failure == "continue", was.get(step.id, Was(StepStatus.PENDING)))
    for decision_id, selections in chosen.items():
        kind, _, rest = decision_id.partition(":")
        step_id, _, attempt = rest.partition(":")
        about: dict[str, Any] = {"kind": kind, "step_id": step_id, "attempt": int(attempt)} if rest else {}
        facts.append(e.PlanDecisionEvent(decision_id=decision_id, question="?", selections=selections, **about))
    given_up = next((step for step in was.values() if step.status is StepStatus.CANCELLED), None)
    if given_up is not None:  # and the process died
        return [*facts, e.PlanStoppingEvent(status=PlanStatus.CANCELLED, reason=given_up.reason or "user")]
    return [*facts, e.PlanPausedEvent(reason="before")]


def _earlier_step(step_id: str, tolerated: bool, was: Was) -> Iterator[e.Fact]:  # noqa: FBT001
    def moved(status: StepStatus, previous: StepStatus = StepStatus.PENDING) -> e.PlanStepUpdateEvent:
        reason = "waived" if was.waived else was.reason
        failed = tolerated and status is StepStatus.FAILED
        return e.PlanStepUpdateEvent(
            step_id=step_id,
            title=step_id,
            status=status,
            previous=previous,
            reason=reason,
            detail=was.detail,
            attempt=was.attempt,
            tolerated=failed,
        )

    if was.status not in _OUTCOMES and was.left is None:
        if was.status.is_final or was.attempt > 1:
            yield moved(was.status)
        return
    yield moved(StepStatus.IN_PROGRESS)
    if was.left is Left.CUT:
        return
    outcome = _OUTCOMES.get(was.status, Outcome.INTERRUPTED if was.left is Left.STOPPED else Outcome.FAILED)
    result = msgspec.Raw(msgspec.json.encode(StepResult(outcome=outcome, reason=was.reason, detail=was.detail)))
    yield e.PlanAttemptEvent(step_id=step_id, attempt=was.attempt, result=result, left=was.left, tolerated=tolerated)
    yield moved(was.status, StepStatus.IN_PROGRESS)
