"""Words for a report's figures, the same in every format."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from planner.plan.status import status_text
from planner.report.model import DeniedReport, LimitReport, PlanReport, ReportedUsage, StepReportLine
from vibe.system.plain_text import counted, date_text, plain, plain_line

OUTPUT_CHARACTERS = 20_000
"""The most characters of a step's output or summary in a report; the plan's folder has all of it."""
LONG_MINUTES = 60


def duration(seconds: float | None) -> str:
    """Return a duration as ``0.4 s``, ``12 s``, ``3 min 05 s`` or ``2 h 07 min``; blank for None."""
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < LONG_MINUTES:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def time_text(at: float | None) -> str:
    """Return a time in unix seconds as date and time in UTC, or blank if it is unknown."""
    return "" if not at else date_text(at, "%Y-%m-%d %H:%M:%S UTC", utc=True)


def price_text(cost_usd: float | None) -> str:
    """Return a price in USD, or words that say it is unknown."""
    return "price unknown" if cost_usd is None else f"${cost_usd:,.4f}"


def spending_text(spent: ReportedUsage) -> str:
    """Return tokens, calls and price, or blank without model calls."""
    if not spent.calls:
        return ""
    cached = f", {spent.cached_tokens:,} of them cached" if spent.cached_tokens else ""
    return f"{spent.total_tokens:,} tokens in {counted(spent.calls, 'call')}{cached}, {price_text(spent.cost_usd)}"


def amount_text(limit: LimitReport, value: float | None) -> str:
    """Return an amount in the unit of a limit."""
    if limit.unit == "USD":
        return price_text(value)
    if value is None:
        return "unknown"
    return duration(value) if limit.unit == "seconds" else f"{value:,.0f} tokens"


def standing(report: PlanReport) -> str:
    """Return the plan's status as a sentence without a full stop."""
    if report.pid is not None:
        return f"running in process {report.pid}; status as of its last record"
    if report.status == "interrupted":
        return f"interrupted: its run broke off; continue with `vibe plan resume {report.plan_id}`"
    if report.status == "paused":
        return f"{status_text(report.status, report.reason)}; continue with `vibe plan resume {report.plan_id}`"
    if report.status == "idle":
        return "not started"
    return status_text(report.status, report.reason)


def counts_text(report: PlanReport) -> str:
    """Return the number of steps of each status, in words."""
    reused = sum(step.reused_from is not None for step in report.steps)
    notes = {"completed": f" ({reused} reused)"} if reused else {}
    parts = (f"{count} {status.replace('_', ' ')}{notes.get(status, '')}" for status, count in report.counts.items())
    return ", ".join(parts)


def facts(report: PlanReport) -> Iterator[tuple[str, str]]:
    """Return the names and values at the head of a report; none is blank."""
    rows = [
        ("Plan", report.plan_id),
        ("Steps", f"{len(report.steps)}: {counts_text(report)}"),
        ("Active time", duration(report.active_seconds or None)),
        ("Spent", spending_text(report.spent) or "no model calls"),
        ("Started", time_text(report.created)),
        ("Last record", time_text(report.updated)),
        ("Workspace", report.workspace),
        ("Plan file", report.origin),
        ("Model", report.model or ""),
        ("Parallel", f"up to {report.max_parallel}"),
        ("Results reused from", report.reused_from or ""),
        ("Base commit", report.base_commit or ""),
    ]
    return ((name, value) for name, value in rows if value)


def other_spending(report: PlanReport) -> Iterator[tuple[str, str]]:
    """Yield spending on things other than the present steps: what it was for, and how much."""
    for each in report.other_spending:
        times = f"{each.attempts} time{'s' if each.attempts > 1 else ''}"
        what = "begun" if each.what == "removed" else "failed, replanned"
        removed = ", then removed by a revision" if each.what == "removed" else ""
        yield f"{each.step_id}: {what} {times}{removed}", spending_text(each.spent) or "no model calls"


def models(report: PlanReport) -> Iterator[tuple[str, str]]:
    """Yield each model of steps that name several, with its attempts and spending."""
    for each in report.models:
        tries = f"{each.completed} of {each.attempts} attempt{'s'[: each.attempts != 1]} completed"
        yield each.model, ", ".join(filter(None, (tries, spending_text(each.spent))))


def call_text(denied: DeniedReport) -> str:
    """Return a denied call in words, with the tool's name only once."""
    return denied.summary if denied.summary.startswith(denied.tool) else f"{denied.tool} {denied.summary}"


def removed_steps(report: PlanReport) -> Iterator[tuple[str, str]]:
    """Yield the steps that revisions removed from the plan, with their last status."""
    for each in report.removed_steps:
        begun = f" after {counted(each.attempts, 'attempt')}" if each.attempts else ""
        by = f", removed by {each.removed_by}" if each.removed_by else ""
        yield f"{each.id}: {each.title}", f"{each.status.replace('_', ' ')}{begun}{by}, {time_text(each.removed_at)}"


def why_tolerated(step: StepReportLine) -> str:
    """Return why the plan went on after a step that failed."""
    return f"enough items of {step.pattern} may do" if step.pattern else 'on_failure is "continue"'


def step_facts(step: StepReportLine) -> Iterator[tuple[str, str]]:
    """Return the names and values in a step's own section; none is blank."""
    attempts = len(step.attempts)
    budget = ""
    if step.budget_tokens is not None and step.budget_used is not None:
        budget = f"{step.budget_used:,} of {step.budget_tokens:,} tokens in its last attempt"
    rows = [
        ("Mode", step.mode),
        ("Agent", step.agent or ""),
        ("Model", step.model or ""),
        ("After", ", ".join(step.depends_on)),
        ("Machine", ", ".join(dict.fromkeys(each.worker for each in step.attempts if each.worker))),
        ("Times lost", str(sum(each.lost for each in step.attempts) or "")),
        ("Command", step.command or ""),
        ("Why", step.why),
        ("Reused from", f"plan {step.reused_from}" if step.reused_from else ""),
        ("Ran for", duration(step.duration_s)),
        ("Attempts", str(attempts) if attempts > 1 else ""),
        ("Spent", spending_text(step.spent)),
        ("Budget", budget),
    ]
    return ((name, value) for name, value in rows if value)


def output_text(value: object) -> str:
    """Return a step's output as indented JSON, cut to OUTPUT_CHARACTERS."""
    return cut("" if value is None else json.dumps(value, indent=2, ensure_ascii=False))


def cut(text: str) -> str:
    """Return text cut to OUTPUT_CHARACTERS, with a note on how much is missing."""
    if len(text) <= OUTPUT_CHARACTERS:
        return text
    return f"{text[:OUTPUT_CHARACTERS]}\n… {len(text) - OUTPUT_CHARACTERS:,} more characters in the plan's folder"


_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")

_BLOCK = re.compile(r"^(\d*)([#+\-=.)]+)(?=\s|$)")
"""Matches a start of a line that would make a heading or a list entry."""


def one_line(text: str, cells: int = 0) -> str:
    """Return plain text on one line, cut to this many cells of a fixed-width font, or uncut for 0.

    Wide characters take two cells.
    """
    line = plain_line(text[: cells * 8] if cells else text)
    return line if not cells or cell_len(line) <= cells else set_cell_size(line, cells - 1).rstrip() + "…"


def escaped(text: str) -> str:
    """Return plain text escaped for HTML or XML, attributes included."""
    return html.escape(plain(text), quote=True)


def escaped_line(text: str, cells: int = 0) -> str:
    """Return one plain line escaped for HTML or XML."""
    return html.escape(one_line(text, cells), quote=True)


def markdown_line(text: str, cells: int = 0) -> str:
    """Return one plain line escaped for Markdown: no link, no HTML, no end of a table's cell."""
    return _BLOCK.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", one_line(text, cells)))
