"""PlanReport: the results of a plan as data, in which every figure was recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ipc.events import UsageSum
from planner.plan.status import reason_text
from planner.state.lists import in_pages
from planner.state.state import Span
from vibe.core.messages import Denial

REPORT_VERSION = 1


class ReportedUsage(UsageSum, frozen=True, kw_only=True):
    """Tokens and model calls, with their cost in USD, or None if unknown."""

    cost_usd: float | None = 0.0


class AttemptReport(Struct, frozen=True, kw_only=True):
    """One recorded attempt at a step. ``ended_at`` is in unix seconds, or None if no record tells its end."""

    number: int
    outcome: str | None
    reason: str | None = None
    detail: str = ""
    duration_s: float | None = None
    ended_at: float | None = None
    turns: int = 0
    worker: str = ""
    """Host and port of the machine that ran it, if not the plan's own."""
    lost: int = 0
    """The number of times it was lost with a worker and repeated on another."""
    spent: ReportedUsage

    @property
    def why(self) -> str:
        """The reason why it ended, in words; blank if it completed."""
        return self.detail or reason_text(self.reason)


class CheckReport(Struct, frozen=True, kw_only=True):
    """A ``verify`` line. Its ``result`` is ``passed``, ``failed``, or ``unknown`` if the records don't tell."""

    command: str
    result: str

    @property
    def words(self) -> str:
        """The result as people read it."""
        return "without a result" if self.result == "unknown" else self.result


class DeniedReport(Denial, frozen=True, kw_only=True):
    """A step's tool call that was denied."""

    step_id: str


class StepReportLine(Struct, frozen=True, kw_only=True):
    """One step of a report."""

    id: str
    title: str
    mode: str
    status: str
    reason: str | None = None
    detail: str = ""
    tolerated: bool = False
    """It failed or was cancelled, and the plan went on."""
    reused_from: str | None = None
    """The plan whose result it took over."""
    depends_on: tuple[str, ...] = ()
    command: str | None = None
    model: str | None = None
    """All its models, in words."""
    agent: str | None = None
    attempts: tuple[AttemptReport, ...] = ()
    spans: tuple[Span, ...] = ()
    """The times it ran, in seconds of ``PlanReport.active_seconds``; one still running has the end ``open``."""
    duration_s: float | None = None
    """The time it ran, over all attempts; None if it never did."""
    spent: ReportedUsage
    """The spending of all attempts, including those cut off."""
    budget_tokens: int | None = None
    """The tokens that its last attempt could use."""
    budget_used: int | None = None
    """The tokens that its last attempt used."""
    summary: str = ""
    printed: str = ""
    """The informative part of the output of a command or check that failed."""
    pattern: str = ""
    """For the step of an item, the step with the list."""
    items: str = ""
    """For a step with a list, the progress of its items in words."""
    output: Any = None
    files_changed: tuple[str, ...] = ()
    checks: tuple[CheckReport, ...] = ()

    @property
    def said(self) -> str:
        """The summary, unless it is the output of a command that failed, which ``printed`` holds."""
        return "" if self.printed and self.command is not None else self.summary

    @property
    def why(self) -> str:
        """The reason for its status, in words; blank if that needs none."""
        return self.detail or reason_text(self.reason)


class ModelReport(Struct, frozen=True, kw_only=True):
    """One model of steps that name several, with its attempts at them, the number completed, and their spending."""

    model: str
    attempts: int
    completed: int
    spent: ReportedUsage


class DecisionReport(Struct, frozen=True, kw_only=True):
    """A decision: the question and, once it was taken, the choice, who took it and when, in unix seconds."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()
    by: str = ""
    at: float | None = None
    opened_at: float | None = None


class RevisionReport(Struct, frozen=True, kw_only=True):
    """A revision of the plan, with a line for each operation."""

    at: float
    by: str
    reason: str
    operations: tuple[str, ...]


class RemovedStepReport(Struct, frozen=True, kw_only=True):
    """A step that a revision removed, in its last state; ``other_spending`` holds what its attempts spent."""

    id: str
    title: str
    status: str
    attempts: int
    removed_by: str
    removed_at: float


class OtherSpending(Struct, frozen=True, kw_only=True):
    """Spending on things other than the plan's present steps, with the number of attempts that called a model.

    ``what`` is ``removed`` for a step that a revision removed, or ``mending`` for revisions after the step had failed.
    """

    what: str
    step_id: str
    attempts: int
    spent: ReportedUsage


class LimitReport(Struct, frozen=True, kw_only=True):
    """One limit of the whole plan, and how much of it was used, or None if unknown.

    ``unit`` is ``tokens``, ``USD`` or ``seconds``.
    """

    unit: str
    most: float
    used: float | None


class PlanReport(Struct, frozen=True, kw_only=True, tag="plan_report", tag_field="type"):
    """The report of a plan that has ended or is under way.

    ``status`` is the plan's, or ``interrupted`` if its process ended without ending it; ``outcome`` is the result
    record's, None while a process runs it (``pid``). ``created`` and ``updated`` are in unix seconds;
    ``active_seconds`` is the time for which processes had the plan, and ``breaks`` holds the points of it at which
    another process took over. ``spent`` is the sum over ``steps`` and ``other_spending``; ``models`` breaks down the
    steps that name several models.
    """

    schema_version: int = REPORT_VERSION
    plan_id: str
    goal: str
    status: str
    outcome: str | None
    reason: str | None
    pid: int | None
    created: float
    updated: float
    workspace: str
    origin: str
    model: str | None
    max_parallel: int
    reused_from: str | None
    base_commit: str | None
    active_seconds: float
    breaks: tuple[float, ...]
    counts: dict[str, int]
    spent: ReportedUsage
    limits: tuple[LimitReport, ...]
    steps: tuple[StepReportLine, ...]
    decisions: tuple[DecisionReport, ...]
    revisions: tuple[RevisionReport, ...]
    removed_steps: tuple[RemovedStepReport, ...]
    other_spending: tuple[OtherSpending, ...]
    denied: tuple[DeniedReport, ...]
    warnings: tuple[str, ...]
    files_changed: tuple[str, ...]
    models: tuple[ModelReport, ...] = ()

    def listed(self) -> list[StepReportLine]:
        """Return the steps to list: all but the steps for items, of which only failed ones are listed."""
        return [step for step in self.steps if not step.pattern or step.status == "failed"]

    def items_of(self, pattern: str) -> list[list[StepReportLine]]:
        """Return the steps for a list's items in pages: failed ones, then those at work, then the rest."""
        return in_pages([step for step in self.steps if step.pattern == pattern], lambda step: step.status)
