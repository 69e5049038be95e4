"""A PlanReport as Markdown: headings, tables and a Mermaid drawing. Text from steps never becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planner.plan.loader import LoadedPlan
from planner.plan.model import StepStatus
from planner.plan.status import MARKS, REUSED_MARK, reason_text
from planner.report.formatting import (
    amount_text,
    call_text,
    cut,
    duration,
    facts,
    markdown_line,
    models,
    other_spending,
    output_text,
    removed_steps,
    standing,
    step_facts,
    time_text,
    why_tolerated,
)
from planner.report.graph_text import mermaid
from planner.report.model import PlanReport, StepReportLine
from vibe.system.plain_text import plain

MERMAID_STEPS = 200
"""The most steps in a Mermaid drawing; programs that render Mermaid fail soon beyond it."""


def report_markdown(report: PlanReport, loaded: LoadedPlan) -> str:
    """Return the report as a Markdown document."""
    return "\n".join(_lines(report, loaded)).rstrip("\n") + "\n"


def _lines(report: PlanReport, loaded: LoadedPlan) -> Iterator[str]:
    yield f"# {markdown_line(report.goal)}"
    yield f"\n**{markdown_line(standing(report))}**\n"
    yield from _table(("", ""), facts(report))
    used = ((limit.unit, amount_text(limit, limit.used), amount_text(limit, limit.most)) for limit in report.limits)
    yield from _titled("Budget", _table(("of", "used", "at most"), used))
    yield from _titled("Warnings", (f"- {markdown_line(warning)}" for warning in report.warnings))
    yield "\n## Steps\n"
    yield from _table(("", "step", "status", "time", "tokens", "attempts", "what"), map(_row, report.listed()))
    statuses = {step.id: StepStatus(step.status) for step in report.steps}
    plan = loaded.folded(statuses).plan
    if len(plan.steps) <= MERMAID_STEPS:
        yield from ("\n## Graph\n", "```mermaid", plain(mermaid(plan, statuses)), "```")
    asked = report.decisions
    taken = ((each.question, ", ".join(each.selections) or "undecided", each.by, time_text(each.at)) for each in asked)
    yield from _titled("Decisions", _table(("question", "answer", "by", "when"), taken))
    yield from _titled("Revisions", _revisions(report))
    yield from _titled("No longer part of the plan", _table(("step", "was"), removed_steps(report)))
    yield from _titled("Models", _table(("model", "what it came to"), models(report)))
    yield from _titled("Other spending", _table(("on", "took"), other_spending(report)))
    denied = (
        f"- {markdown_line(each.step_id)}: {markdown_line(call_text(each), 300)}: {markdown_line(each.reason)}"
        for each in report.denied
    )
    yield from _titled("Denied calls", denied)
    yield from _titled("Files changed", (f"- {markdown_line(file)}" for file in report.files_changed))
    for step in report.listed():
        if step.attempts or step.summary or step.why or step.reused_from:
            yield from _step(step)


def _row(step: StepReportLine) -> tuple[str, ...]:
    return (
        REUSED_MARK if step.reused_from else MARKS[step.status],
        step.id,
        step.status.replace("_", " "),
        duration(step.duration_s),
        f"{step.spent.total_tokens:,}" if step.spent.calls else "",
        str(len(step.attempts) or ""),
        f"{step.title}  {step.items}".rstrip(),
    )


def _revisions(report: PlanReport) -> Iterator[str]:
    for revision in report.revisions:
        by = f" by {markdown_line(revision.by)}" if revision.by else ""
        why = f": {markdown_line(revision.reason)}" if revision.reason else ""
        yield f"- {time_text(revision.at)}{by}{why}"
        yield from (f"  - {markdown_line(operation)}" for operation in revision.operations)


def _step(step: StepReportLine) -> Iterator[str]:
    yield f"\n## {MARKS[step.status]} {markdown_line(step.id)}: {markdown_line(step.title)}\n"
    tolerated = f" (the plan continued because {why_tolerated(step)})" if step.tolerated else ""
    yield f"**{step.status.replace('_', ' ')}**{tolerated}\n"
    yield from _table(("", ""), step_facts(step))
    if len(step.attempts) > 1:
        yield ""
        rows = (
            (str(each.number), reason_text(each.outcome) or "cut off", each.why, duration(each.duration_s))
            for each in step.attempts
        )
        yield from _table(("attempt", "outcome", "why", "time"), rows)
    if step.checks:
        yield ""
        yield from (f"- check {each.words}: {markdown_line(each.command)}" for each in step.checks)
    if step.files_changed:
        yield f"\nChanged: {', '.join(map(markdown_line, step.files_changed))}"
    if step.printed:
        yield "\nOutput of what failed:"
        yield from _block(step.printed)
    yield from _block(cut(step.said))
    yield from _block(output_text(step.output))


def _block(text: str) -> Iterator[str]:
    """Yield text as a fenced block, with a fence longer than any run of backquotes in it."""
    text = plain(text).strip("\n")
    if not text.strip():
        return
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", f"{fence}text", text, fence)


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    lines = list(lines)
    if lines:
        yield f"\n## {title}\n"
        yield from lines


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; none if it has no rows."""
    lines = [f"| {' | '.join(map(markdown_line, row))} |" for row in rows]
    if lines:
        yield from (f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines)
