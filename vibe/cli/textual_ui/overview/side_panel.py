"""SidePanel: the overview beside the chat: plan, agents, things to do, context and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar, TypeAlias

from msgspec import Struct
from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget
from textual.widgets import Static

from ipc.events import TodoEntry
from planner.plan.status import MARKS
from vibe.cli.textual_ui.overview.ticker import Refresher, is_busy, is_live, pressure
from vibe.front.cells import cut
from vibe.front.event_text import one_line
from vibe.front.plan_words import bar, hint, indent, mark, mode_icon, second_row, totals_line
from vibe.view.agent_view import AgentView, Key
from vibe.view.figures import short, took
from vibe.view.plan_view import WAITING, PlanView, StepView
from vibe.view.view import View

Parts: TypeAlias = tuple[tuple[str, str], ...]
"""Texts with their styles."""
MOST_KEPT = 1_000
"""Painted rows that are kept."""


class ListRow(Struct, frozen=True):
    """A row: texts at the left, which give way, and texts at the right. All of them are safe to show."""

    left: Parts
    right: Parts = ()


ListedRow: TypeAlias = tuple[str, Callable[[], ListRow]]
"""The id of a row, and what makes it when it comes into sight."""


class RowList(ScrollView, can_focus=True):
    """Shows rows; one with a blank id belongs to the one above it and can't be chosen.

    ``chosen`` is the id of the row that the keys are at; blank: none.
    """

    DEFAULT_CSS = """
    RowList { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; text-wrap: nowrap; }
    RowList > .row-list--chosen {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--chosen"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("enter", "open", "Open"),
    ]

    @dataclass
    class RowOpened(Message):
        """A row was opened, by Enter or a click."""

        rows: RowList
        row_id: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.chosen = ""
        self._ids: Sequence[str] = ()
        self._rows: Sequence[ListedRow] = ()
        self._painted: dict[tuple[ListRow, int, bool], Strip] = {}

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._ids)

    def set_rows(self, rows: Sequence[ListedRow]) -> None:
        """Show these rows."""
        is_other_size = len(rows) != len(self._ids)
        self._ids, self._rows = [row_id for row_id, _ in rows], rows
        if is_other_size:
            self.virtual_size = Size(0, len(rows))
            self.refresh(layout=self.styles.is_auto_height)
        else:
            self.refresh()

    def reveal(self, index: int) -> None:
        """Have a row in sight, and those after it rather than those before."""
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if height and not top <= index < top + max(1, height - 1):
            self.scroll_to(y=max(0, index - height // 4), animate=False)

    def render_line(self, y: int) -> Strip:
        """A line of the screen."""
        width, index = self.scrollable_content_region.width, y + self.scroll_offset.y
        if not 0 <= index < len(self._ids):
            return Strip.blank(width, self.rich_style)
        is_chosen = self.has_focus and bool(self._ids[index]) and self._ids[index] == self.chosen
        row = self._rows[index][1]()
        painted = self._painted.get((row, width, is_chosen))
        if painted is None:
            if len(self._painted) >= MOST_KEPT:
                self._painted.clear()
            painted = self._painted[row, width, is_chosen] = self._paint(row, width, is_chosen=is_chosen)
        return painted

    def _paint(self, row: ListRow, width: int, *, is_chosen: bool) -> Strip:
        content = fitted(row, width)
        style = self.visual_style
        if is_chosen:
            style, content = style + self.get_visual_style("row-list--chosen"), Content(content.plain)
        strips = Visual.to_strips(self, content, width, 1, style, apply_selection=False)
        return strips[0] if strips else Strip.blank(width, self.rich_style)

    def notify_style_update(self) -> None:
        """Paint in the colours of another theme."""
        super().notify_style_update()
        self._painted.clear()

    def on_focus(self) -> None:
        """Have a row chosen."""
        if not self._has_choice:
            self._choose(self._nearest(self.scroll_offset.y, 1))
        self.refresh()

    def on_blur(self) -> None:
        """Show no choice while the keys are elsewhere."""
        self.refresh()

    def action_move(self, by: int) -> None:
        """Choose a row further up or down."""
        at = self._ids.index(self.chosen) if self._has_choice else self.scroll_offset.y - by
        self._choose(self._nearest(max(0, min(at + by, len(self._ids) - 1)), 1 if by > 0 else -1))

    def action_page(self, by: int) -> None:
        """Choose a row a page further up or down."""
        self.action_move(by * max(1, self.scrollable_content_region.height - 1))

    def action_open(self) -> None:
        """Open the chosen row."""
        if self._has_choice:
            self.post_message(self.RowOpened(self, self.chosen))

    def on_click(self, event: events.Click) -> None:
        """Choose and open a row."""
        index = self._nearest(event.y + self.scroll_offset.y, -1)
        if event.y + self.scroll_offset.y < len(self._ids):
            self._choose(index)
            self.action_open()

    @property
    def _has_choice(self) -> bool:
        return bool(self.chosen) and self.chosen in self._ids

    def _nearest(self, index: int, step: int) -> int:
        """The next row that can be chosen, in one direction or else in the other; -1: there is none."""
        for direction in (step, -step):
            at = index
            while 0 <= at < len(self._ids):
                if self._ids[at]:
                    return at
                at += direction
        return -1

    def _choose(self, index: int) -> None:
        if 0 <= index < len(self._ids):
            self.chosen = self._ids[index]
            height = self.scrollable_content_region.height
            top = self.scroll_offset.y
            if index < top:
                self.scroll_to(y=index, animate=False)
            elif index >= top + height:
                self.scroll_to(y=index - height + 1, animate=False)
            self.refresh()


def fitted(row: ListRow, width: int) -> Content:
    """A row of exactly so many cells: what is at the left gives way, but keeps half of it."""
    right = _within(row.right, width // 2 if row.left else width)
    taken = sum(cell_len(text) for text, _ in right)
    left = _within(row.left, max(0, width - taken - (1 if taken else 0)))
    gap = width - taken - sum(cell_len(text) for text, _ in left)
    return Content.assemble(*left, " " * max(0, gap), *right)


def _within(parts: Parts, cells: int) -> list[tuple[str, str]]:
    """As much of some texts as goes into so many cells."""
    shown: list[tuple[str, str]] = []
    for text, style in parts:
        if cells <= 0:
            break
        piece = cut(text, cells)
        shown.append((piece, style))
        cells = 0 if piece != text else cells - cell_len(piece)
    return shown


MUTED = "$foreground-muted"
STYLES = {
    "completed": "$text-success",
    "failed": "$text-error",
    "in_progress": "bold $text-accent",
    "needs_decision": "$text-warning",
}
"""Of a step's mark, by status; muted for the others."""
MOST_ENDED = 10
"""Agents that ended which are listed."""
BAR = 10
TITLE_LENGTH = 200
LINE_LENGTH = 400


# --- the plan


def plan_rows(plan: PlanView, now: float) -> list[ListedRow]:
    """The rows of a plan: one with its id for each step, and a second one for some."""
    rows: list[ListedRow] = []
    for step_id, step in plan.steps.items():
        rows.append((step_id, partial(step_row, step, plan, now)))
        if step_id in plan.running or step_id in plan.failed or step_id in plan.replanning:
            rows.append(("", partial(step_second_row, step)))
    return rows


def step_row(step: StepView, plan: PlanView, now: float) -> ListRow:
    """The first row of a step."""
    style = "$text-warning" if step.is_asking else STYLES.get(step.status, MUTED)
    again = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    title = one_line(step.title, TITLE_LENGTH) + again
    is_waiting = step.status in WAITING
    left = ((indent(step), MUTED), (f"{mark(step)} ", style), (title, MUTED if is_waiting else ""))
    return ListRow(left, ((f" {mode_icon(step.mode)} ", MUTED), (_figures(step, plan, now), MUTED)))


def _figures(step: StepView, plan: PlanView, now: float) -> str:
    """The reason why a step does not run, or its time and tokens."""
    why = hint(step, plan)
    if why:
        return why
    elapsed = step.elapsed(now)
    tokens = step.budget_used if step.max_tokens is not None else step.spent.tokens
    most = f"/{short(step.max_tokens)}" if step.max_tokens is not None else ""
    spent = f"{short(tokens)}{most}" if tokens else ""
    return " ".join(filter(None, ("" if elapsed is None else took(elapsed), spent)))


def step_second_row(step: StepView) -> ListRow:
    """The second row of a step: its doing, or why it failed."""
    style = "$text-error" if step.status == "failed" else "$text-warning" if step.is_asking else MUTED
    lead = indent(step).replace("├", "│")
    return ListRow(((lead, MUTED), ("╰ ", MUTED), (second_row(step), style)))


def place_of_interest(plan: PlanView, rows: Sequence[ListedRow]) -> int:
    """The row to have in sight: of the first step that waits for a person or runs, else that comes next."""
    wanted = {step.id for step in plan.steps.values() if step.status == "needs_decision"} | set(plan.running)
    wanted = wanted or set(islice((step.id for step in plan.steps.values() if step.status in WAITING), 1))
    return next((index for index, (step_id, _) in enumerate(rows) if step_id in wanted), 0)


# --- the agents


def listed_agents(view: View, main: AgentView | None) -> list[AgentView]:
    """The agent of the chat, then those at work as they began, then the last that ended."""
    others = [agent for agent in view.agents.values() if agent is not main]
    active = [agent for agent in others if is_active(view, agent)]
    ended = [agent for agent in others if agent.ended_at is not None]
    ended.sort(key=lambda agent: agent.ended_at or 0.0, reverse=True)
    first = [] if main is None else [main]
    return [*first, *active, *ended[:MOST_ENDED]]


def is_active(view: View, agent: AgentView) -> bool:
    """Return True if an agent is at work, or may go on."""
    if agent.ended_at is not None:
        return False
    step = view.step_of(agent)
    return is_busy(agent) or bool(agent.requests) or step is None or step.status == "in_progress"


def agent_rows(view: View, agents: Iterable[AgentView]) -> list[ListedRow]:
    """The rows of agents, as ``plan_rows``."""
    rows: list[ListedRow] = []
    for agent in agents:
        rows.append((agent.id, partial(agent_row, view, agent)))
        is_someones = agent.parent_id is not None or view.step_of(agent) is not None
        is_at_work = is_busy(agent) or bool(agent.requests) or is_someones
        if is_at_work and is_active(view, agent) and agent.doing():
            rows.append(("", partial(agent_second_row, agent)))
    return rows


def agent_name(agent: AgentView) -> str:
    """A name for an agent, in a line."""
    return one_line(agent.title or agent.step_id or agent.profile or agent.id[:8] or "agent", TITLE_LENGTH)


def agent_row(view: View, agent: AgentView) -> ListRow:
    """The first row of an agent."""
    sign, style = _agent_mark(view, agent)
    lead = "  " if agent.parent_id is not None else " "
    tokens = f" {short(agent.spent.tokens)} tok" if agent.spent.tokens else ""
    return ListRow(((lead, ""), (f"{sign} ", style), (agent_name(agent), "")), ((tokens, MUTED),))


def _agent_mark(view: View, agent: AgentView) -> tuple[str, str]:
    if agent.requests:
        return "?", "$text-warning"
    if agent.ended_at is None:
        busy = is_busy(agent) or (is_active(view, agent) and view.step_of(agent) is not None)
        return (MARKS["in_progress"], STYLES["in_progress"]) if busy else ("·", MUTED)
    if agent.outcome in {None, "completed"}:
        return MARKS["completed"], STYLES["completed"]
    if agent.outcome == "interrupted":
        return MARKS["cancelled"], MUTED
    return MARKS["failed"], STYLES["failed"]


def agent_second_row(agent: AgentView) -> ListRow:
    """The second row of an agent: its doing."""
    lead = "  " if agent.parent_id is not None else " "
    style = "$text-warning" if agent.requests else MUTED
    return ListRow(((f"{lead}╰ ", MUTED), (one_line(agent.doing(), LINE_LENGTH), style)))


# --- things to do, context and cost


def todo_row(entry: TodoEntry) -> ListRow:
    """A thing to do."""
    sign = MARKS.get(entry.status, "·")
    style = "" if entry.status == "in_progress" else MUTED
    words = one_line(entry.content, LINE_LENGTH)
    return ListRow(((" ", ""), (f"{sign} ", STYLES.get(entry.status, MUTED)), (words, style)))


def meter_rows(view: View, agent: AgentView | None) -> list[ListRow]:
    """The agent's context, how full it is, and all that was spent."""
    rows: list[ListRow] = []
    if agent is not None and agent.context_tokens and agent.context_limit:
        share = agent.context_tokens / agent.context_limit
        said = f"{share:.0%} of {short(agent.context_limit)}"
        rows.append(
            ListRow(
                (("context ", MUTED), (bar(share, BAR), pressure(share) or "$text-success")), ((said, pressure(share)),)
            )
        )
    if view.spent.calls:
        cost = "unknown cost" if view.spent.cost_usd is None else f"${view.spent.cost_usd:.2f}"
        rows.append(ListRow((("spent", MUTED),), ((f"{short(view.spent.tokens)} tok · {cost}", ""),)))
    return rows


SECONDS_PER_TICK = 1.0
KEYS = "↑↓ choose · Enter open · Esc back"
WAY_IN = "F2 opens a step or agent"
NO_PLAN = "no plan yet: /plan GOAL proposes one"


class SidePanel(Widget):
    """The plan as a tree, the agents and what each does, things to do, context and cost.

    A step or an agent is opened by Enter or a click. While it is not shown it draws nothing.
    """

    DEFAULT_CSS = """
    SidePanel {
        layout: vertical; width: 40; height: 1fr; padding: 0 1; border-left: solid $panel; overflow: hidden;
    }
    SidePanel .heading { height: auto; max-height: 2; color: $foreground; text-style: bold; text-wrap: nowrap; }
    SidePanel .heading.lower { margin-top: 1; }
    SidePanel #meter { dock: bottom; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", show=False)]

    @dataclass
    class Opened(Message):
        """An agent was opened, or a ``step``: its plan's id and its own."""

        agent_id: str = ""
        step: tuple[str, str] = ("", "")

    class Left(Message):
        """The keys are to go back; they have, if ``focus_plan`` took them."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._view = View()
        self._came_from: Widget | None = None
        self._plan_head = Static(classes="heading", markup=False)
        self._plan = RowList(id="plan")
        self._agents_head = Static("Agents", classes="heading lower", markup=False)
        self._agents = RowList(id="agents")
        self._todo_head = Static(classes="heading lower", markup=False)
        self._todo = RowList(id="todo")
        self._meter = RowList(id="meter")
        self._meter.can_focus = self._todo.can_focus = False
        self.refresher = Refresher(self, self._draw)

    def compose(self) -> ComposeResult:
        """The sections."""
        yield self._plan_head
        yield self._plan
        yield self._agents_head
        yield self._agents
        yield self._todo_head
        yield self._todo
        yield self._meter

    def present(self, view: View, changed: frozenset[Key] = frozenset()) -> None:  # noqa: ARG002  as every presenter
        """Show how a view stands, now or at most a quarter of a second later."""
        self._view = view
        self.refresher.wish()

    def focus_plan(self) -> None:
        """Take the keys, from the next on: to the plan if there is one, else to the agents; Escape gives them back.

        The step that waits for the person or runs is chosen at first.
        """
        self._draw()  # it may have been hidden until now
        focused, plan = self.screen.focused, self._view.plan
        if focused is not None and focused not in self.children:
            self._came_from = focused
        if plan is not None and plan.total and self._plan.chosen not in plan.steps:
            rows = plan_rows(plan, self._clock())
            self._plan.chosen, _ = rows[place_of_interest(plan, rows)]
        self.screen.set_focus(self._plan if self._plan.display else self._agents)

    def on_hide(self) -> None:
        """Rest."""
        self.refresher.beat(0.0)

    def on_descendant_focus(self) -> None:
        """Name the keys that count now."""
        self.refresher.wish()

    def on_descendant_blur(self) -> None:
        """Name them no more."""
        self.refresher.wish()

    def on_row_list_row_opened(self, message: RowList.RowOpened) -> None:
        """Say what was opened."""
        message.stop()
        plan = self._view.plan
        if message.rows is self._plan and plan is not None:
            self.post_message(self.Opened(step=(plan.id, message.row_id)))
        elif message.rows is self._agents:
            self.post_message(self.Opened(message.row_id))

    def action_leave(self) -> None:
        """Give the keys back."""
        if self._came_from is not None and self._came_from.is_attached:
            self._came_from.focus()
        self.post_message(self.Left())

    @on(events.Mount)
    @on(events.Resize)
    @on(events.Show)
    def _draw(self) -> None:
        if not self.display or not self.is_mounted:
            return
        view, now = self._view, self._clock()
        agent = view.main
        self._draw_plan(view.plan, now)
        self._draw_agents(view, agent)
        self._draw_todo(agent)
        rows = meter_rows(view, agent)
        rows.append(ListRow(((KEYS if self.has_focus_within else WAY_IN, "$foreground-muted"),)))
        self._meter.set_rows([("", partial(ListRow, row.left, row.right)) for row in rows])
        self._share_out(len(rows))
        self.refresher.beat(SECONDS_PER_TICK if is_live(view.plan) else 0.0)

    def _share_out(self, meter: int) -> None:
        """Have agents and things to do take a part of the height at most, and the plan all that is left."""
        height = self.content_size.height
        heads = sum(2 for head in (self._plan_head, self._agents_head, self._todo_head) if head.display)
        agents = min(self._agents.count, max(3, height // 4)) if self._agents.display else 0
        todo = min(self._todo.count, max(2, height // 5)) if self._todo.display else 0
        self._agents.styles.max_height = max(1, agents)
        self._todo.styles.max_height = max(1, todo)
        self._plan.styles.max_height = max(3, height - heads - agents - todo - meter)

    def _draw_plan(self, plan: PlanView | None, now: float) -> None:
        self._plan.display = plan is not None and plan.total > 0
        if plan is None or not plan.total:
            _say(self._plan_head, Content.styled(NO_PLAN, "$foreground-muted not bold"))
            return
        width = max(1, self.content_size.width)
        goal = cut(one_line(plan.goal, 200) or "Plan", width)
        _say(
            self._plan_head, Content.assemble(goal, "\n", (totals_line(plan, now, width), "$foreground-muted not bold"))
        )
        rows = plan_rows(plan, now)
        self._plan.set_rows(rows)
        if not self._plan.has_focus:
            self._plan.reveal(place_of_interest(plan, rows))

    def _draw_agents(self, view: View, main: AgentView | None) -> None:
        agents = listed_agents(view, main)
        self._agents.display = self._agents_head.display = bool(agents)
        self._agents.set_rows(agent_rows(view, agents))

    def _draw_todo(self, agent: AgentView | None) -> None:
        todo = () if agent is None else agent.todo
        self._todo.display = self._todo_head.display = bool(todo)
        done = sum(entry.status == "completed" for entry in todo)
        _say(self._todo_head, Content(f"Todo {done}/{len(todo)}"))
        self._todo.set_rows([("", partial(todo_row, entry)) for entry in todo])


def _say(head: Static, content: Content) -> None:
    """Have a heading say something; the screen is laid out anew only if it takes more or fewer lines."""
    before = head.content
    lines = before.plain.count("\n") if isinstance(before, Content) else -1
    if not isinstance(before, Content) or not before.is_same(content):
        head.update(content, layout=lines != content.plain.count("\n"))
