"""A PlanReport as one HTML file, without scripts or external resources, for wide, narrow, light and dark screens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.plan.diagnostics import TooLargeToDrawError
from planner.plan.loader import LoadedPlan
from planner.plan.model import StepStatus
from planner.plan.status import MARKS, REUSED_MARK, reason_text
from planner.report.formatting import (
    amount_text,
    call_text,
    counts_text,
    cut,
    duration,
    escaped,
    escaped_line,
    facts,
    models,
    other_spending,
    output_text,
    price_text,
    removed_steps,
    standing,
    step_facts,
    time_text,
    why_tolerated,
)
from planner.report.graph_svg import Shown, inline_svg, style_sheet
from planner.report.model import DecisionReport, PlanReport, Span, StepReportLine

MAX_ROWS = 1_000
"""The most steps in the timeline, first those that ran first; more make the page heavy and tell nothing."""
NARROWEST = 0.3
"""The least width of a bar, in percent of the timeline, so that every span is visible."""

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>"""


def report_html(report: PlanReport, loaded: LoadedPlan) -> str:
    """Return the report as a page; all text in it is escaped."""
    title = f"{escaped_line(report.goal, 80)} – {escaped_line(report.plan_id)}"  # noqa: RUF001  a dash is meant
    parts = [
        *_header(report),
        *_limits(report),
        *_list("Warnings", "warnings", (escaped(warning) for warning in report.warnings)),
        *_graph(report, loaded),
        *_timeline(report),
        *_list("Decisions", "", map(_decision, report.decisions)),
        *_revisions(report),
        *_pairs("No longer part of the plan", removed_steps(report)),
        *_pairs("Models", models(report)),
        *_pairs("Other spending", other_spending(report)),
        *_denied(report),
        *_list("Files changed", "files", (f"<code>{escaped_line(file)}</code>" for file in report.files_changed)),
        *_steps(report),
    ]
    return page(title, f"{style_sheet('page')}\n{style_sheet('graph')}", parts)


def page(title: str, style: str, parts: Iterable[str]) -> str:
    """Return a page made of parts, which are HTML like the title; it loads nothing from elsewhere."""
    return "\n".join([_HEAD.format(title=title, style=style), *parts, "</main>", "</body>", "</html>"]) + "\n"


# --- the plan -------------------------------------------------------------------------------------------------


def _header(report: PlanReport) -> Iterator[str]:
    yield f'<header><p class="badge is-{escaped(report.status)}">{escaped_line(report.status)}</p>'
    yield f"<h1>{escaped(report.goal)}</h1>"
    yield f'<p class="ending">{escaped(standing(report))}</p>'
    yield _definitions(facts(report))
    yield "</header>"


def _limits(report: PlanReport) -> Iterator[str]:
    if report.limits:
        yield '<section><h2>Budget</h2><div class="bars">'
        for limit in report.limits:
            share = 0.0 if limit.used is None else limit.used / limit.most
            used, most = escaped(amount_text(limit, limit.used)), escaped(amount_text(limit, limit.most))
            yield f'<div class="limit"><span>{used} of {most}</span>{_bar(share)}</div>'
        yield "</div></section>"


def _bar(share: float) -> str:
    level = "full" if share >= 0.9 else "high" if share >= 0.7 else "low"
    return f'<span class="bar"><i class="{level}" style="width:{min(100.0, max(0.0, share * 100)):.1f}%"></i></span>'


def _graph(report: PlanReport, loaded: LoadedPlan) -> Iterator[str]:
    statuses = {step.id: StepStatus(step.status) for step in report.steps}
    shown = loaded.folded(statuses)
    reused = frozenset(step.id for step in report.steps if step.reused_from)
    yield "<section><h2>Graph</h2>"
    try:
        drawing = inline_svg(shown.plan, shown.dag, Shown(statuses=statuses, reused=reused))
        yield f'<div class="scroll" tabindex="0">{drawing}</div><p class="note">{escaped(counts_text(report))}</p>'
    except TooLargeToDrawError as error:
        yield f'<p class="note">{escaped(str(error))}</p>'
    yield "</section>"


def _timeline(report: PlanReport) -> Iterator[str]:
    ran = sorted((step for step in report.steps if step.spans), key=lambda step: step.spans[0].start)
    if not ran or not report.active_seconds:
        return
    yield f'<section><h2>Timeline</h2><div class="timeline" role="list">{_scale(report)}'
    for step in ran[:MAX_ROWS]:
        bars = "".join(_span(step, span, report.active_seconds) for span in step.spans)
        breaks = "".join(f'<b style="left:{at / report.active_seconds * 100:.2f}%"></b>' for at in report.breaks)
        name = escaped_line(step.id)
        label = f'<a href="#step-{name}">{name}</a><em>{escaped(duration(step.duration_s))}</em>'
        yield f'<div class="row" role="listitem"><span class="name">{label}</span>'
        yield f'<span class="track">{breaks}{bars}</span></div>'
    yield "</div>"
    if len(ran) > MAX_ROWS:
        yield f'<p class="note">The first {MAX_ROWS:,} of {len(ran):,} steps that ran.</p>'
    if report.breaks:
        yield '<p class="note">Vertical lines: plan resumed; the time between is left out.</p>'
    yield "</section>"


def _scale(report: PlanReport) -> str:
    return (
        '<div class="row scale"><span class="name"></span><span class="track">'
        f"<span>0 s</span><span>{escaped(duration(report.active_seconds / 2))}</span>"
        f"<span>{escaped(duration(report.active_seconds))}</span></span></div>"
    )


def _span(step: StepReportLine, span: Span, total: float) -> str:
    left = min(span.start / total * 100, 100 - NARROWEST)
    width = min(max((span.end - span.start) / total * 100, NARROWEST), 100 - left)
    attempt = f", attempt {span.attempt}" if span.attempt > 1 else ""
    words = f"{step.id}: {reason_text(span.ended)} after {duration(span.end - span.start)}{attempt}"
    style = f"left:{left:.2f}%;width:{width:.2f}%"
    return f'<i class="is-{escaped(span.ended)}" style="{style}" title="{escaped_line(words)}"></i>'


def _decision(each: DecisionReport) -> str:
    answer = ", ".join(each.selections)
    taken = f"<strong>{escaped_line(answer)}</strong>" if answer else '<span class="note">undecided</span>'
    by = f" by {escaped_line(each.by)}" if each.by else ""
    at = f", {escaped(time_text(each.at))}" if each.at else ""
    offered = f' <span class="note">({escaped_line(" / ".join(each.options))})</span>' if each.options else ""
    return f"{escaped(each.question)}{offered} → {taken}{by}{at}"


def _revisions(report: PlanReport) -> Iterator[str]:
    if not report.revisions:
        return
    yield "<section><h2>Revisions</h2>"
    for revision in report.revisions:
        by = f" by {escaped_line(revision.by)}" if revision.by else ""
        why = f": {escaped_line(revision.reason)}" if revision.reason else ""
        lines = "".join(f"<li>{escaped_line(operation)}</li>" for operation in revision.operations)
        yield f'<p>{escaped(time_text(revision.at))}{by}{why}</p><ul class="diff">{lines}</ul>'
    yield "</section>"


def _denied(report: PlanReport) -> Iterator[str]:
    lines = (
        f"<code>{escaped_line(each.step_id)}</code>: <code>{escaped(call_text(each))}</code> "
        f'<span class="note">{escaped(each.reason)}</span>'
        for each in report.denied
    )
    return _list("Denied calls", "", lines)


# --- the steps ------------------------------------------------------------------------------------------------


def _steps(report: PlanReport) -> Iterator[str]:
    yield '<section class="steps"><h2>Steps</h2>'
    for step in report.steps:
        if not step.pattern:
            yield from _step(step)
            yield from _items(report, step) if step.items else ()
    yield "</section>"


def _items(report: PlanReport, pattern: StepReportLine) -> Iterator[str]:
    """Yield the steps for a list's items in pages: failed ones, then those at work, then the rest."""
    pages = report.items_of(pattern.id)
    for number, page in enumerate(pages, 1):
        of = f", page {number} of {len(pages)}" if len(pages) > 1 else ""
        yield f'<details class="items"><summary>{escaped_line(pattern.id)}  {pattern.items}{of}</summary>'
        for step in page:
            yield from _step(step)
        yield "</details>"


def _step(step: StepReportLine) -> Iterator[str]:
    is_open = " open" if step.status in {"failed", "in_progress", "needs_decision"} else ""
    mark = REUSED_MARK if step.reused_from else MARKS[step.status]
    cost = f" · {price_text(step.spent.cost_usd)}" if step.spent.calls and step.spent.cost_usd else ""
    tokens = f" · {step.spent.total_tokens:,} tokens{cost}" if step.spent.calls else ""
    name = escaped_line(step.id)
    yield (
        f'<details id="step-{name}" class="is-{step.status}"{is_open}><summary><span class="mark">{mark}</span>'
        f'<span class="id">{name}</span><span class="title">{escaped_line(f"{step.title}  {step.items}")}</span>'
        f'<span class="figures">{escaped(step.status.replace("_", " "))}{_dot(duration(step.duration_s))}'
        f"{escaped(tokens)}</span></summary>"
    )
    if step.tolerated:
        yield f'<p class="note">The plan continued because {escaped_line(why_tolerated(step))}.</p>'
    yield _definitions(step_facts(step))
    if step.budget_tokens and step.budget_used:
        yield _bar(step.budget_used / step.budget_tokens)
    yield from _attempts(step)
    if step.checks:
        lines = "".join(
            f'<li class="check-{each.result}">{each.words}: <code>{escaped(each.command)}</code></li>'
            for each in step.checks
        )
        yield f"<h3>Checks</h3><ul>{lines}</ul>"
    if step.files_changed:
        files = "".join(f"<li><code>{escaped_line(file)}</code></li>" for file in step.files_changed)
        yield f"<h3>Files changed</h3><ul>{files}</ul>"
    yield from _text("Output of what failed", step.printed)
    yield from _text("Printed" if step.command else "Summary", cut(step.said))
    yield from _text("Output", output_text(step.output))
    yield "</details>"


def _attempts(step: StepReportLine) -> Iterator[str]:
    if len(step.attempts) < 2:
        return
    yield "<h3>Attempts</h3><ol>"
    for each in step.attempts:
        outcome = f"{reason_text(each.outcome) or 'cut off'}{_dot(duration(each.duration_s))}"
        tokens = f" · {each.spent.total_tokens:,} tokens" if each.spent.calls else ""
        yield f"<li>{escaped(outcome + tokens)}{f': {escaped(each.why)}' if each.why else ''}</li>"
    yield "</ol>"


def _text(title: str, text: str) -> Iterator[str]:
    if text.strip():
        yield f"<h3>{title}</h3><pre>{escaped(text.strip(chr(10)))}</pre>"


def _list(title: str, kind: str, lines: Iterable[str]) -> Iterator[str]:
    items = "".join(f"<li>{line}</li>" for line in lines)
    if items:
        yield f'<section><h2>{title}</h2><ul class="{kind}">{items}</ul></section>'


def _pairs(title: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    pairs = list(pairs)
    if pairs:
        yield f"<section><h2>{title}</h2>{_definitions(pairs)}</section>"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in pairs)
    return f"<dl>{rows}</dl>"


def _dot(text: str) -> str:
    return f" · {text}" if text else ""
