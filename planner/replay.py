"""From a journal's records back to how a plan stood: the state of every step, results, decisions and what was spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from planner.instructions import RestoredStep
from planner.journal import JournalContent
from planner.model import PlanStatus, StepStatus
from planner.records import (
    AttemptEnded,
    DecisionMade,
    DecisionOpened,
    JournalRecord,
    PlanMoved,
    ProcessAttached,
    StepMoved,
    StepsReset,
)
from subagents.executor import StepResult
from vibe.core.messages import Usage
from vibe.core.outcome import Outcome

_ENDED_AS: Mapping[Outcome, StepStatus] = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
    Outcome.INTERRUPTED: StepStatus.PENDING,
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
    """How a plan stood when its last record was written.

    ``steps`` holds every step the journal names, as the scheduler takes it: final, or else PENDING, with the attempt that
    comes next; a step that was running is PENDING too. ``results`` holds
    the last result of each final step, ``reasons`` why it ended. ``spent`` is what each attempt, by step and number, had
    used when it was last recorded; one that goes on counts from its beginning, so its next record takes the place of
    this one. ``active_seconds`` sums the time processes had the plan;
    ``attached`` counts them. ``dropped`` says what a torn journal lost.
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

    def counts(self) -> dict[str, int]:
        """Steps per status; those the journal does not name are in none."""
        counts: dict[str, int] = {}
        for step in self.steps.values():
            counts[step.status.value] = counts.get(step.status.value, 0) + 1
        return counts


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
        self._steps: dict[str, RestoredStep] = {}
        self._reasons: dict[str, StepReason] = {}
        self._results: dict[str, StepResult] = {}
        self._decisions: dict[str, tuple[str, ...]] = {}
        self._spent: dict[AttemptKey, Spending] = {}
        self._spans: list[tuple[float, float]] = []

    def take(self, record: JournalRecord) -> None:
        if self._spans and not isinstance(record, ProcessAttached):
            self._spans[-1] = (self._spans[-1][0], record.at)
        match record:
            case ProcessAttached(at=at):
                self._spans.append((at, at))
            case PlanMoved(status=status, reason=reason):
                self._status, self._reason = status, reason
            case StepMoved():
                self._move(record)
            case AttemptEnded():
                self._end(record)
            case DecisionMade(decision_id=decision_id, selections=selections):
                self._decisions[decision_id] = selections
            case StepsReset(step_ids=step_ids):
                self._reset(step_ids)
            case DecisionOpened():
                pass  # whether it still needs taking follows from the steps
            case _:
                assert_never(record)

    def _move(self, record: StepMoved) -> None:
        self._reasons[record.step_id] = StepReason(reason=record.reason, detail=record.detail)
        self._steps[record.step_id] = RestoredStep(record.status, record.attempt)

    def _end(self, record: AttemptEnded) -> None:
        result = record.result
        self._results[record.step_id] = result
        self._spent[record.step_id, record.attempt] = Spending(result.usage, result.cost_usd)
        self._reasons[record.step_id] = StepReason(reason=result.reason, detail=result.detail)
        if record.retry:
            self._steps[record.step_id] = RestoredStep(StepStatus.PENDING, record.attempt + 1)
        elif result.provider_refused and result.outcome is not Outcome.COMPLETED:
            self._steps[record.step_id] = RestoredStep(StepStatus.PENDING, record.attempt)
        else:
            self._steps[record.step_id] = RestoredStep(_ENDED_AS[result.outcome], record.attempt)

    def _reset(self, step_ids: Sequence[str]) -> None:
        for step_id in step_ids:
            step = self._steps.get(step_id)
            if step is not None:
                again = step.attempt + 1 if step_id in self._results else step.attempt
                self._steps[step_id] = RestoredStep(StepStatus.PENDING, again)
            self._results.pop(step_id, None)
            self._reasons.pop(step_id, None)

    def restored(self, dropped: tuple[str, ...]) -> RestoredPlan:
        steps = {
            step_id: step if step.status.is_final else RestoredStep(StepStatus.PENDING, step.attempt)
            for step_id, step in self._steps.items()
        }
        final = {step_id for step_id, step in steps.items() if step.status.is_final}
        return RestoredPlan(
            status=self._status,
            reason=self._reason,
            steps=steps,
            results={step_id: result for step_id, result in self._results.items() if step_id in final},
            reasons={step_id: why for step_id, why in self._reasons.items() if step_id in final},
            decisions=self._decisions,
            spent=self._spent,
            active_seconds=sum(end - start for start, end in self._spans),
            attached=len(self._spans),
            dropped=dropped,
        )
