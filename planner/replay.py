"""From a journal's records back to how a plan stood: the state of every step, results, decisions and what was spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from msgspec import structs

from planner.decisions import failed_id, interrupted_id
from planner.instructions import WAIVED_REASON, RestoredStep, Unfinished
from planner.journal import JournalContent
from planner.model import PlanStatus, StepStatus
from planner.records import (
    AttemptEnded,
    CommandAttached,
    DecisionMade,
    DecisionOpened,
    JournalRecord,
    PlanMoved,
    PlanRevised,
    ProcessAttached,
    StepMoved,
    StepReused,
    StepsReset,
    WorkspaceLeft,
)
from planner.step_limits import is_exhausted
from subagents.executor import StepResult
from vibe.core.messages import Usage
from vibe.core.outcome import Outcome

REUSED_REASON = "reused"
_HELD = (Unfinished.ASKING, Unfinished.REVISING)
_ENDED_AS: Mapping[Outcome, StepStatus] = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReason:
    """Why a step stands as it does: a stable word and a sentence for people."""

    reason: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and calls, and what they cost in USD (None: unknown)."""

    usage: Usage
    cost_usd: float | None


AttemptKey: TypeAlias = tuple[str, int]
"""A step's id and the number of the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPlan:
    """How a plan stood when its last record was written. ``outcome``: what the run came to that left it so.

    ``steps`` holds every step the journal names, as the scheduler takes it: final, or else PENDING, with the attempt that
    comes next; a step that was running is PENDING too, and in ``running``. ``results`` holds
    the last result of each step that is final or waits for somebody to say what becomes of it, ``reasons`` why it
    ended. ``decisions`` also holds those about attempts that failed or were cut off. ``revisions`` made the plan what it
    is, first to last. ``spent`` is what each attempt, by step and number, had
    used when it was last recorded; one that goes on counts from its beginning, so its next record takes the place of
    this one. ``active_seconds`` sums the time processes had the plan;
    ``attached`` counts them. ``dropped`` says what a torn journal lost. ``reused`` names, by step, the plan whose result
    stands for it; ``left_at`` is the commit at which a process last left the workspace. ``removed`` is how steps stood
    when a revision removed them. ``exhausted`` counts, by step, the attempts that had used up what they may.
    """

    status: PlanStatus
    reason: str | None
    steps: Mapping[str, RestoredStep]
    results: Mapping[str, StepResult]
    reasons: Mapping[str, StepReason]
    decisions: Mapping[str, tuple[str, ...]]
    spent: Mapping[AttemptKey, Spending]
    active_seconds: float
    attached: int
    dropped: tuple[str, ...]
    revisions: tuple[PlanRevised, ...] = ()
    running: frozenset[str] = frozenset()
    reused: Mapping[str, str] = field(default_factory=dict[str, str])
    left_at: str | None = None
    outcome: Outcome | None = None
    removed: Mapping[str, RestoredStep] = field(default_factory=dict[str, RestoredStep])
    exhausted: Mapping[str, int] = field(default_factory=dict[str, int])

    def counts(self) -> dict[str, int]:
        """Steps per status; those the journal does not name are in none."""
        counts: dict[str, int] = {}
        for step in self.steps.values():
            counts[step.status.value] = counts.get(step.status.value, 0) + 1
        return counts

    def attempts(self) -> dict[str, int]:
        """How many attempts were begun at each step, removed ones too; steps that never were begun are left out."""
        begun = {
            step_id: step.attempt if step.unfinished else step.attempt - 1
            for step_id, step in {**self.removed, **self.steps}.items()
        }
        for step_id, attempt in self.spent:
            begun[step_id] = max(attempt, begun.get(step_id, 0))
        return {step_id: count for step_id, count in begun.items() if count > 0}


def total_of(spent: Iterable[Spending]) -> Spending:
    """The sum; its cost is None once a model was called at an unknown price."""
    usage = Usage()
    cost: float | None = 0.0
    for one in spent:
        usage += one.usage
        if one.cost_usd is None:
            cost = None if one.usage.calls else cost
        elif cost is not None:
            cost += one.cost_usd
    return Spending(usage, cost)


def restore(content: JournalContent) -> RestoredPlan:
    """Fold a journal, first record to last."""
    fold = _Fold()
    for record in content.records:
        fold.take(record)
    return fold.restored(content.dropped)


class _Fold:
    def __init__(self) -> None:
        self._status = PlanStatus.IDLE
        self._reason: str | None = None
        self._outcome: Outcome | None = None
        self._steps: dict[str, RestoredStep] = {}
        self._reasons: dict[str, StepReason] = {}
        self._results: dict[str, StepResult] = {}
        self._decisions: dict[str, tuple[str, ...]] = {}
        self._spent: dict[AttemptKey, Spending] = {}
        self._revisions: list[PlanRevised] = []
        self._reused: dict[str, str] = {}
        self._left_at: str | None = None
        self._removed: dict[str, RestoredStep] = {}
        self._exhausted: dict[str, int] = {}
        self._active_seconds = 0.0
        self._attached = 0
        self._last_at = 0.0
        self._runs = False
        """Whether what is recorded is the doing of a process that runs the plan."""

    def take(self, record: JournalRecord) -> None:
        self._count_time(record)
        match record:
            case PlanMoved():
                self._status, self._reason, self._outcome = record.status, record.reason, record.outcome
            case StepMoved():
                self._move(record)
            case AttemptEnded():
                self._end(record)
            case DecisionMade(decision_id=decision_id, selections=selections):
                self._decisions[decision_id] = selections
            case StepsReset(step_ids=step_ids):
                self._reset(step_ids)
            case PlanRevised():
                self._revise(record)
            case StepReused(step_id=step_id, plan_id=plan_id, result=result):
                self._steps[step_id] = RestoredStep(StepStatus.COMPLETED)
                self._results[step_id], self._reused[step_id] = result, plan_id
                self._reasons[step_id] = StepReason(reason=REUSED_REASON, detail=f"done by plan {plan_id}")
            case WorkspaceLeft(commit=commit):
                self._left_at = commit
            case ProcessAttached() | CommandAttached() | DecisionOpened():
                pass  # whether a decision still needs taking follows from the steps
            case _:
                assert_never(record)

    def _count_time(self, record: JournalRecord) -> None:
        if isinstance(record, ProcessAttached):
            self._runs = True
            self._attached += 1
        elif isinstance(record, CommandAttached):
            self._runs = False
        elif self._runs:
            self._active_seconds += max(0.0, record.at - self._last_at)  # a clock that is set back gives no time back
        self._last_at = record.at

    def _move(self, record: StepMoved) -> None:
        step_id, was = record.step_id, self._steps.get(record.step_id)
        self._reasons[step_id] = StepReason(reason=record.reason, detail=record.detail)
        if record.status is StepStatus.IN_PROGRESS:
            # A yes to running it again is used up: cut off once more, it asks once more.
            self._decisions.pop(interrupted_id(step_id, record.attempt), None)
            self._steps[step_id] = RestoredStep(record.status, record.attempt, Unfinished.CUT)
        elif was is not None and was.unfinished and was.attempt == record.attempt and not record.status.is_final:
            self._steps[step_id] = structs.replace(was, status=record.status)
        else:
            waived = record.status is StepStatus.SKIPPED and record.reason == WAIVED_REASON
            reason = record.reason if record.status in (StepStatus.FAILED, StepStatus.CANCELLED) else None
            self._steps[step_id] = RestoredStep(record.status, record.attempt, waived=waived, reason=reason)

    def _end(self, record: AttemptEnded) -> None:
        step_id, attempt, result = record.step_id, record.attempt, record.result
        if is_exhausted(result):
            self._exhausted[step_id] = self._exhausted.get(step_id, 0) + 1
        self._results[step_id] = result
        self._spent[step_id, attempt] = Spending(result.usage, result.cost_usd)
        self._reasons[step_id] = StepReason(reason=result.reason, detail=result.detail)
        refused = result.provider_refused and result.outcome is not Outcome.COMPLETED
        if record.retry:
            self._steps[step_id] = RestoredStep(StepStatus.PENDING, attempt + 1)
        elif record.unfinished in _HELD:
            self._steps[step_id] = RestoredStep(
                StepStatus.PENDING, attempt, record.unfinished, reason=result.reason, detail=result.detail
            )
        elif refused or result.outcome is Outcome.INTERRUPTED:
            self._steps[step_id] = RestoredStep(StepStatus.PENDING, attempt, record.unfinished or Unfinished.STOPPED)
        else:
            status = _ENDED_AS[result.outcome]
            reason = result.reason if status is StepStatus.FAILED else None
            self._steps[step_id] = RestoredStep(status, attempt, reason=reason)

    def _reset(self, step_ids: Sequence[str]) -> None:
        for step_id in step_ids:
            self._reused.pop(step_id, None)
            step = self._steps.get(step_id)
            if step is not None:
                begun = step_id in self._results or step.unfinished is not None
                self._steps[step_id] = RestoredStep(StepStatus.PENDING, step.attempt + begun)
                self._decisions.pop(failed_id(step_id, step.attempt), None)
                self._decisions.pop(interrupted_id(step_id, step.attempt), None)
            self._results.pop(step_id, None)
            self._reasons.pop(step_id, None)

    def _revise(self, record: PlanRevised) -> None:
        self._revisions.append(record)
        for step_id in record.removed():
            if step_id in self._steps:
                self._removed[step_id] = self._steps[step_id]
            for known in (self._steps, self._reasons, self._results):
                known.pop(step_id, None)
        for step_id in record.changed() & self._steps.keys():
            self._begin_anew(step_id)
        answered = self._steps.get(record.step_id or "")
        if answered is not None and record.step_id is not None and answered.unfinished is Unfinished.REVISING:
            self._steps[record.step_id] = RestoredStep(StepStatus.FAILED, answered.attempt)

    def _begin_anew(self, step_id: str) -> None:
        """A step was changed: what an attempt had begun is no longer what is wanted."""
        step = self._steps[step_id]
        if step.status is StepStatus.FAILED or step.unfinished is not None:
            self._steps[step_id] = RestoredStep(StepStatus.PENDING, step.attempt + 1)
            self._results.pop(step_id, None)
            self._reasons.pop(step_id, None)

    def restored(self, dropped: tuple[str, ...]) -> RestoredPlan:
        steps = {
            step_id: step if step.status.is_final else structs.replace(step, status=StepStatus.PENDING)
            for step_id, step in self._steps.items()
        }
        told = {step_id for step_id, step in steps.items() if step.status.is_final or step.unfinished in _HELD}
        return RestoredPlan(
            status=self._status,
            reason=self._reason,
            outcome=self._outcome,
            steps=steps,
            results={step_id: result for step_id, result in self._results.items() if step_id in told},
            reasons={step_id: why for step_id, why in self._reasons.items() if step_id in told},
            decisions=self._decisions,
            spent=self._spent,
            active_seconds=self._active_seconds,
            attached=self._attached,
            dropped=dropped,
            revisions=tuple(self._revisions),
            reused=self._reused,
            left_at=self._left_at,
            removed=self._removed,
            exhausted=self._exhausted,
            running=frozenset(s for s, step in self._steps.items() if step.status is StepStatus.IN_PROGRESS),
        )
