"""One picture of a run for a terminal: goal, steps, budget bars, what each does now, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from vibe.front import plan_words as say
from vibe.front.event_text import one_line
from vibe.view.plan_view import WAITING, PlanView, StepView

RECENT = 3
"""Completed steps that stay in sight if not all fit."""

NEXT = 4
"""Steps that can start next that stay in sight if not all fit."""


class TreeLayout(Struct, frozen=True, kw_only=True):
    """The steps to show."""

    steps: tuple[StepView, ...]
    """In plan order."""
    roomy: bool
    """Running steps get a second row."""
    hidden: dict[str, int]
    """The number of steps that are not shown, by status."""


def lay_out(plan: PlanView, rows: int, chosen_id: str = "") -> TreeLayout:
    """Choose what to show in at most ``rows`` rows, the line that counts the rest included."""
    busy = len(plan.running) + len(plan.replanning)
    second_rows = busy + len(plan.failed)
    if plan.total <= rows:
        return TreeLayout(steps=tuple(plan.steps.values()), roomy=plan.total + second_rows <= rows, hidden={})
    room = max(0, rows - 1)
    roomy = 2 * busy + len(plan.failed) + NEXT <= room
    chosen: dict[str, StepView] = {}
    for step in _by_interest(plan, chosen_id):
        cost = 2 if roomy and _has_second_row(step) else 1
        if cost > room:
            break
        if step.id not in chosen:
            chosen[step.id] = step
            room -= cost
    hidden = dict(plan.counts)
    for step in chosen.values():
        hidden[step.status] -= 1
    return TreeLayout(
        steps=tuple(step for step in plan.steps.values() if step.id in chosen),
        roomy=roomy,
        hidden={status: count for status, count in hidden.items() if count > 0},
    )


def _has_second_row(step: StepView) -> bool:
    return step.replanning or step.status in {"in_progress", "failed"}


def _by_interest(plan: PlanView, chosen_id: str) -> Iterator[StepView]:
    """Yield the steps by interest, the most interesting first; a step may come twice."""
    if chosen_id in plan.steps:
        yield plan.steps[chosen_id]
    yield from plan.running.values()
    yield from plan.replanning.values()
    yield from reversed(plan.failed.values())
    waiting = [step for step in plan.steps.values() if step.status in WAITING]
    yield from (step for step in waiting if step.status == "needs_decision")
    yield from islice(_ready_first(waiting, plan), NEXT)
    yield from islice((step for step in reversed(plan.steps.values()) if step.status == "completed"), RECENT)
    yield from chain(waiting, plan.steps.values())


def _ready_first(waiting: Iterable[StepView], plan: PlanView) -> Iterator[StepView]:
    ready = list(islice((step for step in waiting if not say.unmet(step, plan)), NEXT))
    yield from chain(ready, (step for step in waiting if step not in ready))


STYLES = {
    "completed": "green",
    "failed": "red",
    "skipped": "dim",
    "cancelled": "dim",
    "in_progress": "bold cyan",
    "needs_decision": "yellow",
}
BAR = 8
TOTAL_BAR = 12
MODE, ELAPSED, TOKENS = 10, 6, 10
BAR_FROM, TOKENS_FROM, MODE_FROM = 72, 52, 40
"""Columns of terminal from which the budget bar, the tokens and the mode are shown."""


def frame(plan: PlanView, now: float, width: int, height: int, chosen_id: str = "") -> list[Text]:
    """The lines to show at ``now`` (unix seconds): at most ``height``, none wider than ``width`` cells.

    The step of ``chosen_id`` is among them, and marked.
    """
    decisions = [_decision(plan, each, width) for each in list(plan.decisions)[: max(0, height // 4)]]
    airy = height >= 16
    rows = max(0, height - 2 - len(decisions) - (2 if airy else 0))
    layout = lay_out(plan, rows, chosen_id)
    lines = [Text(say.cut(f" {one_line(plan.goal, 400)}", width), style="bold")]
    lines += [Text("")] if airy else []
    for step, line in _steps(plan, layout, now, width):
        if step is not None and step.id == chosen_id:
            line.stylize("reverse")
        lines.append(line)
    lines += decisions
    lines += [Text("")] if airy else []
    lines.append(_totals(plan, now, width))
    for line in lines:
        line.rstrip()  # what a terminal made narrower need not wrap
    return lines[-height:]


def _steps(plan: PlanView, layout: TreeLayout, now: float, width: int) -> Iterator[tuple[StepView | None, Text]]:
    """Yield lines, and the step of which each is the first."""
    for step in layout.steps:
        yield step, _step(step, plan, now, width, crowded=not layout.roomy)
        text = say.second_row(step) if layout.roomy else ""
        if text:
            lead = say.indent(step).replace("├", "│") + "  ╰ "
            style = "red" if step.status == "failed" else "yellow" if step.is_asking else "dim"
            yield None, Text(say.cut(lead + text, width), style=style)
    if layout.hidden:
        yield None, Text(say.cut(f" … {_counted(layout.hidden)}", width), style="dim")


def _step(step: StepView, plan: PlanView, now: float, width: int, *, crowded: bool) -> Text:
    columns = _columns(step, plan, now, width)
    room = max(0, width - 1 - columns.cell_len)
    style = STYLES.get(step.status, "")
    line = Text(no_wrap=True)
    line.append(say.indent(step))
    shown = say.mark(step)
    if (step.status == "in_progress" or step.replanning) and not step.is_asking:
        shown = say.SPINNER[int(now * 8) % len(say.SPINNER)]
    line.append(shown + " ", style="yellow" if step.is_asking else style)
    again = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    title = one_line(step.title, 200) + again
    second = say.second_row(step) if crowded else ""
    if second:  # neither may push the other out of sight
        title = say.cut(title, max(room // 2, room - line.cell_len - cell_len(second) - 2))
    line.append(title, style="dim" if step.status in WAITING else "")
    if second:
        line.append(f"  {second}", style="red" if step.status == "failed" else "dim")
    line.truncate(room, overflow="ellipsis", pad=True)
    line.append(columns)
    return line


def _columns(step: StepView, plan: PlanView, now: float, width: int) -> Text:
    """Return the columns at the right: the mode, then time, tokens and bar, or what the step waits for."""
    text = Text()
    if width >= MODE_FROM:
        text.append("  " + _fit(_mode(step.mode), MODE), style="blue" if step.status == "in_progress" else "dim")
    bar = width >= BAR_FROM
    tokens = width >= TOKENS_FROM
    size = 2 + ELAPSED + (2 + TOKENS if tokens else 0) + (1 + BAR if bar else 0)
    why = say.hint(step, plan)
    if why:
        return text.append(_fit("  " + why, size), style="dim")
    elapsed = step.elapsed(now)
    text.append(f"  {'' if elapsed is None else say.took(elapsed):>{ELAPSED}}")
    if tokens:
        text.append("  " + _fit(_spent(step), TOKENS), style="" if step.status == "in_progress" else "dim")
    if bar:
        text.append(" ")
        text.append(_budget_bar(step))
    return text


def _budget_bar(step: StepView) -> Text:
    if not step.max_tokens:
        return Text(" " * BAR)
    return _filled(step.budget_used / step.max_tokens, live=step.status == "in_progress")


def _filled(share: float, *, live: bool) -> Text:
    """A bar in the colour of how much is used; what does not move any more is dim."""
    style = "red" if share >= 0.9 else "yellow" if share >= 0.7 else "green"
    return Text(say.bar(share, BAR), style=style if live else "dim")


def _totals(plan: PlanView, now: float, width: int) -> Text:
    totals = say.totals_line(plan, now, width - 1)
    text = Text(" ", no_wrap=True)
    if plan.total and width >= TOTAL_BAR + 4 + cell_len(totals):
        done = round(TOTAL_BAR * plan.done / plan.total)
        lost = min(TOTAL_BAR - done, round(TOTAL_BAR * len(plan.failed) / plan.total + 0.49))
        text.append("━" * done, style="green").append("━" * lost, style="red")
        text.append("─" * (TOTAL_BAR - done - lost) + "  ", style="dim")
    text.append(totals, style="bold")
    if plan.max_tokens and width >= text.cell_len + BAR + 1:
        text.append(" ").append_text(_filled(plan.tokens / plan.max_tokens, live=True))
    text.truncate(width, overflow="ellipsis")
    return text


def _decision(plan: PlanView, decision_id: str, width: int) -> Text:
    decision = plan.decisions[decision_id]
    options = " / ".join(decision.options)
    line = one_line(f"{decision_id}: {decision.question} ({options})", 400)
    return Text(say.cut(f" ? {line}", width), style="yellow")


def _mode(mode: str) -> str:
    icon = say.mode_icon(mode)
    return f"{icon} {mode}" if icon != "·" else one_line(mode, MODE)


def _spent(step: StepView) -> str:
    if step.max_tokens is not None:
        return f"{say.short(step.budget_used)}/{say.short(step.max_tokens)}".rjust(TOKENS)
    return (say.short(step.spent.tokens) if step.spent.calls else "").rjust(TOKENS)


def _counted(hidden: Mapping[str, int]) -> str:
    words = {"in_progress": "running", "pending": "waiting", "blocked": "waiting", "needs_decision": "undecided"}
    counts: dict[str, int] = {}
    for status, count in hidden.items():
        word = words.get(status, status)
        counts[word] = counts.get(word, 0) + count
    return "not shown: " + " · ".join(f"{count:,} {word}" for word, count in counts.items())


def _fit(text: str, cells: int) -> str:
    return set_cell_size(say.cut(text, cells), cells)
