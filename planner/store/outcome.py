"""End of a run of a plan: a census of its steps, never a flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.plan.model import Plan, PlanStatus, StepStatus
from planner.state.state import State
from subagents.step_result import StepResult
from vibe.core.messages import Usage
from vibe.core.outcome import Outcome

_BAD_END = {StepStatus.FAILED: "failed", StepStatus.CANCELLED: "was cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step at the end of a run. ``attempts`` counts those begun, ``result`` is the last one's.

    ``tolerated`` marks a failure, or cancellation, that its step's ``on_failure: continue`` lets pass.
    """

    step_id: str
    title: str
    status: StepStatus
    reason: str | None = None
    detail: str = ""
    attempts: int = 0
    result: StepResult | None = None
    tolerated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a run. ``usage`` and ``cost_usd`` (None: unknown) sum over every attempt of the plan's life.

    ``duration_s`` is this run's; ``steps`` are in the plan's order.
    """

    plan_id: str
    status: PlanStatus
    outcome: Outcome
    reason: str | None
    steps: tuple[StepReport, ...]
    counts: Mapping[str, int]
    warnings: tuple[str, ...]
    usage: Usage
    cost_usd: float | None
    duration_s: float


def step_reports(plan: Plan, state: State) -> tuple[StepReport, ...]:
    """Return where each step of the plan stands."""
    reports: list[StepReport] = []
    for step in plan.steps:
        was = state.steps[step.id]
        reports.append(
            StepReport(
                step_id=step.id,
                title=step.title,
                status=was.status,
                reason=was.reason,
                detail=was.detail,
                attempts=was.begun,
                result=was.result,
                tolerated=was.tolerated and was.status in _BAD_END,
            )
        )
    return tuple(reports)


def warnings_of(steps: Sequence[StepReport], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return notes on a run for people: failures that were tolerated, and what a torn journal lost."""
    failures = [
        f"step {step.step_id!r} {_BAD_END[step.status]} ({step.detail or step.reason or 'no reason given'}); "
        'continued because on_failure is "continue"'
        for step in steps
        if step.tolerated
    ]
    return (*dropped, *failures)
