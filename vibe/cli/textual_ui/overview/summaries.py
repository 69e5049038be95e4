"""Summaries of the view: the overview beside the chat, what happened while the person was away, and next commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from textual.content import Content

from ipc.events import TodoEntry
from vibe.cli.textual_ui.log.rows import drawn
from vibe.cli.textual_ui.overview.ticker import ViewWidget, is_busy, pressure
from vibe.cli.textual_ui.refresher import SECONDS_PER_TICK
from vibe.front.cells import Line, fit, spread
from vibe.system.plain_text import counted, one_line, some_of
from vibe.view.figures import clock, short
from vibe.view.plan_view import PlanView
from vibe.view.view import View

HEADINGS = {"completed": "Plan completed", "failed": "Plan failed", "paused": "Plan paused"}
MOST_NAMED = 3
"""The most failed steps named in a summary."""
WHY_LENGTH = 400
"""The most characters of a line or a text in it."""


class ViewSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot of a view: the status of each step and plan, the busy agents, and what was spent.

    ``steps`` is keyed by plan id and step id.
    """

    steps: dict[tuple[str, str], str]
    plans: dict[str, str]
    busy: frozenset[str]
    tokens: int
    cost_usd: float | None


def snapshot(view: View) -> ViewSnapshot:
    """Take a snapshot of a view, for ``away_summary``."""
    return ViewSnapshot(
        steps={(plan.id, step.id): step.status for plan in view.plans.values() for step in plan.steps.values()},
        plans={plan.id: plan.status for plan in view.plans.values()},
        busy=frozenset(agent.id for agent in view.agents.values() if is_busy(agent)),
        tokens=view.spent.tokens,
        cost_usd=view.spent.cost_usd,
    )


def away_summary(before: ViewSnapshot, view: View) -> str:
    """Return one line on what happened since a snapshot; blank if there is nothing that the person need know."""
    phrases = [*_plans_since(before, view), *_steps_since(before, view)]
    main = view.main
    if main is not None and main.id in before.busy and not is_busy(main):
        phrases.append("the agent answered" if main.outcome in {None, "completed"} else f"the agent {main.outcome}")
    if view.requests:
        phrases.append("1 waits for you" if len(view.requests) == 1 else f"{len(view.requests)} wait for you")
    if not phrases:
        return ""
    tokens = view.spent.tokens - before.tokens
    if tokens > 0:
        phrases.append(f"{short(tokens)} tok")
    if view.spent.cost_usd is not None and before.cost_usd is not None and view.spent.cost_usd > before.cost_usd:
        phrases.append(f"${view.spent.cost_usd - before.cost_usd:.2f}")
    return one_line(f"while you were away: {' · '.join(phrases)}", WHY_LENGTH)


def _plans_since(before: ViewSnapshot, view: View) -> list[str]:
    changed = [plan for plan in view.plans.values() if before.plans.get(plan.id) != plan.status]
    return [HEADINGS[plan.status].lower().replace("plan", "the plan", 1) for plan in changed if plan.status in HEADINGS]


def _steps_since(before: ViewSnapshot, view: View) -> Iterator[str]:
    steps = [(plan.id, step.id, step.status) for plan in view.plans.values() for step in plan.steps.values()]
    for status in ("completed", "failed", "skipped", "cancelled"):
        ids = [name for plan, name, now in steps if now == status and before.steps.get((plan, name)) != status]
        named = f" ({some_of(ids, MOST_NAMED)})" if status == "failed" else ""
        yield from [f"{counted(len(ids), 'step')} {status}{named}"] if ids else ()


def next_lines(plan: PlanView) -> list[str]:
    """Return lines with the commands to go on after a run of a plan; none if the plan has completed."""
    from vibe.front.next_command import try_again  # noqa: PLC0415  it loads the plan's model

    lines: list[str] = []
    if plan.status == "paused":
        decide = f"decide with: vibe plan decide {plan.id}"
        asked = plan.state.open.values()
        lines = [f"decision {one.decision_id}: {one.question} ({decide} {one.decision_id} OPTION)" for one in asked]
        lines.append(f"continue with: vibe plan resume {plan.id}")
    elif plan.status == "failed":
        lines = try_again(plan.id, [*plan.state.steps.values()], plan.state.outcome)
    return [one_line(line, WHY_LENGTH) for line in lines]


# --- the overview

_TODO: Final = {"completed": ("✓", "done"), "in_progress": ("▸", "bold accent")}


def overview_lines(view: View, now: float, width: int, rows: int) -> list[Line]:
    """Return the lines of the overview at ``now``, in Unix seconds; its parts share at most ``rows`` rows."""
    parts = [part for part in (_todo(view, width), _background(view, now, width), _changed(view, width)) if part]
    context = _context(view, width)
    room = max(2, (rows - len(context)) // max(1, len(parts)) - 1)
    lines = [line for part in parts for line in (*_cut(part, room, width), fit([], width))]
    return [*lines, *context][:rows] if context else lines[:-1]


def _cut(part: list[Line], room: int, width: int) -> list[Line]:
    left_out = len(part) - room + 1
    return part if len(part) <= room else [*part[: room - 1], fit([(f"  … {left_out} more", "muted")], width)]


def has_overview(view: View) -> bool:
    """Return whether the overview has content: things to do, background commands or changed files."""
    agents = view.agents.values()
    return bool(view.main and view.main.todo) or any(agent.background or agent.changed for agent in agents)


def _todo(view: View, width: int) -> list[Line]:
    entries = () if view.main is None else view.main.todo
    done = sum(entry.status == "completed" for entry in entries)
    open_first = sorted(entries, key=lambda entry: entry.status == "completed") if done > len(entries) // 2 else entries
    lines = [_todo_line(entry, width) for entry in open_first]
    return [spread([("Todo", "bold")], [(f"{done}/{len(entries)}", "muted")], width), *lines] if lines else []


def _todo_line(entry: TodoEntry, width: int) -> Line:
    style = "" if entry.status == "in_progress" else "muted"
    sign = _TODO.get(entry.status, ("·", "muted"))
    return fit([sign, (" ", ""), (one_line(entry.content, WHY_LENGTH), style)], width)


def _background(view: View, now: float, width: int) -> list[Line]:
    lines = [
        spread([("▸ ", "accent"), (one_line(one.command, WHY_LENGTH), "")], [(clock(now - one.ts), "muted")], width)
        for agent in view.agents.values()
        for one in agent.background.values()
    ]
    return [fit([("Background", "bold")], width), *lines] if lines else []


def _changed(view: View, width: int) -> list[Line]:
    files: dict[str, tuple[int, int, str]] = {}
    for agent in view.agents.values():
        for path, file in agent.changed.items():
            added, removed, _ = files.get(path, (0, 0, ""))
            files[path] = (added + file.added, removed + file.removed, one_line(agent.step_id or ""))
    lines: list[Line] = []
    for path, (added, removed, who) in files.items():
        facts = (f"{_counts(added, removed)} {who}".strip(), "muted")
        lines.append(spread([("  ", ""), (one_line(path, WHY_LENGTH), "")], [facts], width))
    total = _counts(sum(each[0] for each in files.values()), sum(each[1] for each in files.values()))
    return [spread([("Changed", "bold")], [(total, "muted")], width), *lines] if lines else []


def _counts(added: int, removed: int) -> str:
    return f"+{added} −{removed}" if added or removed else ""  # noqa: RUF001  a minus


def _context(view: View, width: int) -> list[Line]:
    agent = view.main
    if agent is None or not agent.context_tokens or not agent.context_limit:
        return []
    share = min(1.0, agent.context_tokens / agent.context_limit)
    style = pressure(share)
    fact = (f"{share:.0%} of {short(agent.context_limit)}", style or "muted")
    full = max(1, round(share * width))
    return [
        spread([("Context", "bold")], [fact], width),
        fit([("━" * full, style or "accent"), ("─" * (width - full), "muted")], width),
    ]


class SidePanel(ViewWidget):
    """The overview beside the chat: what a plan's card does not show, aligned to the bottom.

    It draws nothing while it is hidden.
    """

    DEFAULT_CSS = "SidePanel { width: 46; height: 1fr; padding: 0 1; content-align: left bottom; text-wrap: nowrap; }"

    def on_show(self) -> None:
        """Resume drawing."""
        self._draw()

    def on_hide(self) -> None:
        """Stop drawing at intervals."""
        self.refresher.draw_every(0.0)

    def _period(self) -> float:
        has_background = any(agent.background for agent in self._view.agents.values())
        return SECONDS_PER_TICK if has_background else 0.0

    def _draw(self) -> None:
        if self.display:
            super()._draw()

    def _content(self) -> Content:
        width, height = self.content_size
        return Content("\n").join(map(drawn, overview_lines(self._view, self._clock(), max(1, width), height)))
