"""One picture of a run for a terminal: goal, steps, budget bars, what each does now, and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from planner.plan.icons import MARKS, REUSED_MARK
from vibe.app.view.run_view import ACTIVE, RunView
from vibe.app.view.step_view import FINAL, WAITING, StepView
from vibe.cli.render.event_text import one_line
from vibe.cli.terminal.tree_layout import TreeLayout, lay_out, unmet
from vibe.core.modes import MODE_CATALOG, ExecutionMode

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STYLES = {
    "completed": "green",
    "failed": "red",
    "skipped": "dim",
    "cancelled": "dim",
    "in_progress": "bold cyan",
    "needs_decision": "yellow",
}
EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 8
TOTAL_BAR = 12
MODE, ELAPSED, TOKENS = 10, 6, 10
LEFT_OUT = "only"
DEEPEST = 5
"""Levels beyond it are drawn at this one: what a step is called matters more than how deep it lies."""
BAR_FROM, TOKENS_FROM, MODE_FROM = 72, 52, 40
"""Columns of terminal from which the budget bar, the tokens and the mode are shown."""

SPARED_FIRST = ("undecided", "cancelled", "skipped", "tokens", "running", "cost")
"""Parts of the totals that go, one after the other, where the line is too short for all."""


def frame(state: RunView, now: float, width: int, height: int) -> list[Text]:
    """The lines to show at ``now`` (unix seconds): at most ``height``, none wider than ``width`` cells."""
    decisions = [_decision(state, each, width) for each in list(state.decisions)[: max(0, height // 4)]]
    airy = height >= 16
    rows = max(0, height - 2 - len(decisions) - (2 if airy else 0))
    layout = lay_out(state, rows)
    lines = [Text(_cut(f" {one_line(state.goal, 400)}", width), style="bold")]
    lines += [Text("")] if airy else []
    lines += _steps(state, layout, now, width)
    lines += decisions
    lines += [Text("")] if airy else []
    lines.append(_totals(state, now, width))
    for line in lines:
        line.rstrip()  # what a terminal made narrower need not wrap
    return lines[-height:]


def _steps(state: RunView, layout: TreeLayout, now: float, width: int) -> Iterator[Text]:
    for step in layout.steps:
        yield _step(step, state, now, width, crowded=not layout.roomy)
        text = _second_row(step) if layout.roomy else ""
        if text:
            indent = _indent(step).replace("├", "│") + "  ╰ "
            style = "red" if step.status == "failed" else "yellow" if step.requests else "dim"
            yield Text(_cut(indent + text, width), style=style)
    if layout.hidden:
        yield Text(_cut(f" … {_counted(layout.hidden)}", width), style="dim")


def _step(step: StepView, state: RunView, now: float, width: int, *, crowded: bool) -> Text:
    columns = _columns(step, state, now, width)
    room = max(0, width - 1 - columns.cell_len)
    style = STYLES.get(step.status, "")
    line = Text(no_wrap=True)
    line.append(_indent(step))
    mark = REUSED_MARK if step.reused else MARKS.get(step.status, "·")
    if step.status == "in_progress" or step.replanning:
        mark = "?" if step.requests else SPINNER[int(now * 8) % len(SPINNER)]
    line.append(mark + " ", style="yellow" if step.requests else style)
    again = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    title = one_line(step.title, 200) + again
    second = _second_row(step) if crowded else ""
    if second:  # neither may push the other out of sight
        title = _cut(title, max(room // 2, room - line.cell_len - cell_len(second) - 2))
    line.append(title, style="dim" if step.status in WAITING else "")
    if second:
        line.append(f"  {second}", style="red" if step.status == "failed" else "dim")
    line.truncate(room, overflow="ellipsis", pad=True)
    line.append(columns)
    return line


def _columns(step: StepView, state: RunView, now: float, width: int) -> Text:
    """Return the columns at the right: the mode, then time, tokens and bar, or what the step waits for."""
    text = Text()
    if width >= MODE_FROM:
        text.append("  " + _fit(_mode(step.mode), MODE), style="blue" if step.status == "in_progress" else "dim")
    bar = width >= BAR_FROM
    tokens = width >= TOKENS_FROM
    size = 2 + ELAPSED + (2 + TOKENS if tokens else 0) + (1 + BAR if bar else 0)
    hint = _hint(step, state)
    if hint:
        return text.append(_fit("  " + hint, size), style="dim")
    elapsed = step.elapsed(now)
    text.append(f"  {'' if elapsed is None else _took(elapsed):>{ELAPSED}}")
    if tokens:
        text.append("  " + _fit(_spent(step), TOKENS), style="" if step.status == "in_progress" else "dim")
    if bar:
        text.append(" ")
        text.append(_budget_bar(step))
    return text


def _hint(step: StepView, state: RunView) -> str:
    """Return the reason why a step does not run."""
    if known := _standing(step):
        return known
    if step.status in {"skipped", "cancelled"} and step.duration_s is None:
        return one_line(f"{step.status}: {step.reason}" if step.reason else step.status)
    if step.status in FINAL or step.status == "in_progress" or step.duration_s is not None:
        return ""
    above = unmet(step, state)
    if above:
        return one_line("after " + ", ".join(above))
    lost = [each for each in step.depends_on if each in state.failed]
    return one_line("held up by " + ", ".join(lost)) if lost and step.status == "blocked" else "next"


def _standing(step: StepView) -> str:
    """Return the most urgent thing to say of a step."""
    if step.status == "needs_decision":
        return "waits for a decision"
    if step.reused:
        return "taken over"
    return "left out" if step.reason == LEFT_OUT else ""


def _second_row(step: StepView) -> str:
    if step.replanning:
        return one_line(f"replanning › {step.doing()}", 400)  # noqa: RUF001  a mark
    if step.status == "in_progress":
        return one_line(step.doing(), 400)
    return one_line(step.reason, 400) if step.status == "failed" else ""


def _budget_bar(step: StepView) -> Text:
    if not step.max_tokens:
        return Text(" " * BAR)
    return _filled(step.budget_used / step.max_tokens, live=step.status == "in_progress")


def _filled(share: float, *, live: bool) -> Text:
    """A bar in the colour of how much is used; what does not move any more is dim."""
    style = "red" if share >= 0.9 else "yellow" if share >= 0.7 else "green"
    return Text(bar(share, BAR), style=style if live else "dim")


def bar(share: float, cells: int) -> str:
    """A bar of so many cells, filled to the eighth of a cell; something spent is never drawn as nothing."""
    eighths = round(min(1.0, max(0.0, share)) * cells * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (EIGHTHS[rest] if rest else "")
    return drawn + "·" * (cells - len(drawn))


def _totals(state: RunView, now: float, width: int) -> Text:
    said = _said_in_total(state, now)
    for spare in SPARED_FIRST:
        if cell_len(" · ".join(said.values())) < width:
            break
        said.pop(spare, None)
    totals = " · ".join(said.values())
    text = Text(" ", no_wrap=True)
    if state.total and width >= TOTAL_BAR + 4 + cell_len(totals):
        done = round(TOTAL_BAR * state.done / state.total)
        lost = min(TOTAL_BAR - done, round(TOTAL_BAR * len(state.failed) / state.total + 0.49))
        text.append("━" * done, style="green").append("━" * lost, style="red")
        text.append("─" * (TOTAL_BAR - done - lost) + "  ", style="dim")
    text.append(totals, style="bold")
    if state.max_tokens and width >= text.cell_len + BAR + 1:
        text.append(" ").append_text(_filled((state.tokens + state.tokens_before) / state.max_tokens, live=True))
    text.truncate(width, overflow="ellipsis")
    return text


def _said_in_total(state: RunView, now: float) -> dict[str, str]:
    """The parts of the last line, in order; an unknown price is no part of it."""
    said = {"steps": f"{state.done}/{state.total} steps"}
    if state.running:
        said["running"] = f"{len(state.running)} running"
    said |= {
        status: f"{state.counts[status]} {status}"
        for status in ("failed", "skipped", "cancelled")
        if state.counts.get(status)
    }
    if state.replanning:
        said["replanning"] = f"{len(state.replanning)} replanning"
    if state.decisions:
        said["undecided"] = f"{len(state.decisions)} undecided"
    spent = state.tokens + state.tokens_before
    if state.calls or state.max_tokens:
        most = f"/{_short(state.max_tokens)}" if state.max_tokens else ""
        said["tokens"] = f"{_short(spent)}{most} tok"
    if state.calls and state.cost_usd is not None:
        said["cost"] = f"${state.cost_usd:.2f}"
    said["time"] = f"{_clock(state.elapsed(now)):>05}"
    if state.status not in {ACTIVE, "idle"}:
        said["status"] = state.status
    return said


def _decision(state: RunView, decision_id: str, width: int) -> Text:
    decision = state.decisions[decision_id]
    options = " / ".join(decision.options)
    line = one_line(f"{decision_id}: {decision.question} ({options})", 400)
    return Text(_cut(f" ? {line}", width), style="yellow")


def _indent(step: StepView) -> str:
    level = min(step.level, DEEPEST)
    return " " if level == 0 else " " + "│ " * (level - 1) + "├ "


def _mode(mode: str) -> str:
    known = mode in ExecutionMode.__members__.values()
    return f"{MODE_CATALOG[ExecutionMode(mode)].icon} {mode}" if known else one_line(mode, MODE)


def _spent(step: StepView) -> str:
    if step.max_tokens is not None:
        return f"{_short(step.budget_used)}/{_short(step.max_tokens)}".rjust(TOKENS)
    return (_short(step.tokens) if step.calls else "").rjust(TOKENS)


def _counted(hidden: Mapping[str, int]) -> str:
    words = {"in_progress": "running", "pending": "waiting", "blocked": "waiting", "needs_decision": "undecided"}
    counts: dict[str, int] = {}
    for status, count in hidden.items():
        word = words.get(status, status)
        counts[word] = counts.get(word, 0) + count
    return "not shown: " + " · ".join(f"{count:,} {word}" for word, count in counts.items())


def _short(count: int) -> str:
    """A number of tokens in at most five characters up to a billion: ``950``, ``1.9k``, ``41k``, ``2.5M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _took(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 9.95 else _clock(seconds)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _fit(text: str, cells: int) -> str:
    return set_cell_size(_cut(text, cells), cells)


def _cut(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""
