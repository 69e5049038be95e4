"""PlanReport: what a plan came to, as data; every figure is one that was recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ipc.events import UsageSum
from planner.state.lists import in_pages
from planner.state.state import Span
from vibe.core.messages import Denial

REPORT_VERSION = 1


class ReportedUsage(UsageSum, frozen=True, kw_only=True):
    """Tokens and model calls; ``cost_usd`` None: unknown."""

    cost_usd: float | None = 0.0


class AttemptReport(Struct, frozen=True, kw_only=True):
    """One attempt at a step that was recorded. ``ended_at`` in unix seconds, None: by no record of its own."""

    number: int
    outcome: str | None
    reason: str | None = None
    detail: str = ""
    duration_s: float | None = None
    ended_at: float | None = None
    turns: int = 0
    worker: str = ""
    """Host and port of the machine that did it, if not the plan's own."""
    lost: int = 0
    """The number of times it was lost with a worker, and made again on another."""
    spent: ReportedUsage


class CheckReport(Struct, frozen=True, kw_only=True):
    """A ``verify`` line. ``result``: ``passed``, ``failed``, or ``unknown`` where the records do not tell."""

    command: str
    result: str


class DeniedReport(Denial, frozen=True, kw_only=True):
    """A call of a step that was not let through."""

    step_id: str


class StepReportLine(Struct, frozen=True, kw_only=True):
    """One step. ``duration_s`` sums the time it ran, over all attempts; None: it never did.

    ``tolerated``: it failed or was cancelled, and the plan went on. ``reused_from``: the plan that did it.
    ``spent`` counts all attempts, also those cut off; ``budget_tokens`` is what the last one may use, and
    ``budget_used`` what it did. ``spans`` are the times it ran, in seconds of the plan's own time (see
    ``PlanReport.active_seconds``); one that runs has ``open`` as its end. ``printed`` is the telling part of what a
    command or check that failed printed. ``pattern`` is the step of whose list it does one item; ``items`` says of such
    a step how those for its items stand. ``model`` names all its models.
    """

    id: str
    title: str
    mode: str
    status: str
    reason: str | None = None
    detail: str = ""
    tolerated: bool = False
    reused_from: str | None = None
    depends_on: tuple[str, ...] = ()
    command: str | None = None
    model: str | None = None
    agent: str | None = None
    attempts: tuple[AttemptReport, ...] = ()
    spans: tuple[Span, ...] = ()
    duration_s: float | None = None
    spent: ReportedUsage
    budget_tokens: int | None = None
    budget_used: int | None = None
    summary: str = ""
    printed: str = ""
    pattern: str = ""
    items: str = ""
    output: Any = None
    files_changed: tuple[str, ...] = ()
    checks: tuple[CheckReport, ...] = ()


class ModelReport(Struct, frozen=True, kw_only=True):
    """One model of steps that name several: its attempts at them, those that completed, and what all of them took."""

    model: str
    attempts: int
    completed: int
    spent: ReportedUsage


class DecisionReport(Struct, frozen=True, kw_only=True):
    """A choice: what was asked and, once it was taken, what was chosen, by whom and when (unix seconds)."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()
    by: str = ""
    at: float | None = None
    opened_at: float | None = None


class RevisionReport(Struct, frozen=True, kw_only=True):
    """A change of the plan while it ran: its operations, a line each."""

    at: float
    by: str
    reason: str
    operations: tuple[str, ...]


class RemovedStepReport(Struct, frozen=True, kw_only=True):
    """A step that a revision took out of the plan, as it was then; what its attempts spent is in ``other_spending``."""

    id: str
    title: str
    status: str
    attempts: int
    removed_by: str
    removed_at: float


class OtherSpending(Struct, frozen=True, kw_only=True):
    """Spending on things other than the plan's present steps, with the number of attempts that called a model.

    ``what``: ``removed``, for a step that a revision removed, or ``mending``, for revisions after the step had failed.
    """

    what: str
    step_id: str
    attempts: int
    spent: ReportedUsage


class LimitReport(Struct, frozen=True, kw_only=True):
    """One limit of the whole plan and what was used of it (None: unknown).

    ``unit``: ``tokens``, ``USD`` or ``seconds``.
    """

    unit: str
    most: float
    used: float | None


class PlanReport(Struct, frozen=True, kw_only=True, tag="plan_report", tag_field="type"):
    """A plan that was run, at its end or on the way.

    ``status`` is the plan's, or ``interrupted`` if its process ended without ending it; ``outcome`` is the result
    record's, None while a process runs it (``pid``). ``created`` and ``updated`` are in unix seconds;
    ``active_seconds`` is the time processes had the plan, and ``breaks`` the points of it where another took over.
    ``spent`` is the sum of what ``steps`` and ``other_spending`` list; ``models`` tells apart the models of steps that
    name several.
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
        """Return the steps for a list of them: of those for items, the ones that failed."""
        return [step for step in self.steps if not step.pattern or step.status == "failed"]

    def items_of(self, pattern: str) -> list[list[StepReportLine]]:
        """Return the steps for the items of a list in pages: those that failed, those at work, then the rest."""
        return in_pages([step for step in self.steps if step.pattern == pattern], lambda step: step.status)
