"""SidePanel: the overview beside the chat: plan, agents, things to do, context and cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.overview.panel_rows import (
    agent_lines,
    agent_row,
    agent_second_row,
    listed_agents,
    meter_rows,
    place_of_interest,
    plan_lines,
    step_row,
    step_second_row,
    todo_row,
)
from vibe.cli.textual_ui.overview.row_list import ListRow, RowList
from vibe.cli.textual_ui.overview.ticker import Refresher, is_live
from vibe.front.event_text import one_line
from vibe.front.plan_words import cut, totals_line
from vibe.view.agent_view import AgentView
from vibe.view.plan_view import PlanView
from vibe.view.transcript import Key
from vibe.view.view import View

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

    class Opened(Message):
        """An agent was opened, or a ``step``: its plan's id and its own."""

        def __init__(self, agent_id: str = "", step: tuple[str, str] = ("", "")) -> None:
            super().__init__()
            self.agent_id = agent_id
            self.step = step

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
        self._refresher = Refresher(self, self._draw)

    @property
    def keeps_time(self) -> bool:
        """It redraws by itself."""
        return self._refresher.beats

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
        self._refresher.wish()

    def focus_plan(self) -> None:
        """Take the keys, from the next on: to the plan if there is one, else to the agents; Escape gives them back.

        The step that waits for the person or runs is chosen at first.
        """
        focused, plan = self.screen.focused, self._view.plan
        if focused is not None and focused not in self.children:
            self._came_from = focused
        if plan is not None and plan.total and self._plan.chosen not in plan.steps:
            lines = plan_lines(plan)
            self._plan.chosen, _ = lines[place_of_interest(plan, lines)]
        self.screen.set_focus(self._plan if self._plan.display else self._agents)

    def on_mount(self) -> None:
        """Show what was presented before."""
        self._draw()

    def on_resize(self) -> None:
        """Share the rows out anew."""
        self._draw()

    def on_show(self) -> None:
        """Show what was presented while it was hidden."""
        self._draw()

    def on_hide(self) -> None:
        """Rest."""
        self._refresher.beat(0.0)

    def on_descendant_focus(self) -> None:
        """Name the keys that count now."""
        self._refresher.wish()

    def on_descendant_blur(self) -> None:
        """Name them no more."""
        self._refresher.wish()

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
        self._meter.set_rows([str(index) for index in range(len(rows))], lambda index, _width: rows[index])
        self._share_out(len(rows))
        self._refresher.beat(SECONDS_PER_TICK if is_live(view.plan) else 0.0)

    def _share_out(self, meter: int) -> None:
        """Have agents and things to do take a part of the height at most, and the plan all that is left."""
        height = self.content_size.height
        heads = sum(2 for head in (self._plan_head, self._agents_head, self._todo_head) if head.display)
        agents = min(self._agents.count, max(3, height // 4)) if self._agents.display else 0
        todo = min(self._todo.count, max(2, height // 5)) if self._todo.display else 0
        self._agents.limit(max(1, agents))
        self._todo.limit(max(1, todo))
        self._plan.limit(max(3, height - heads - agents - todo - meter))

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
        lines = plan_lines(plan)

        def row_at(index: int, _width: int) -> ListRow:
            first, step_id = lines[index]
            step = plan.steps.get(step_id)
            if step is None:
                return ListRow(())
            return step_row(step, plan, now) if first else step_second_row(step)

        self._plan.set_rows([first for first, _ in lines], row_at)
        if not self._plan.has_focus:
            self._plan.reveal(place_of_interest(plan, lines))

    def _draw_agents(self, view: View, main: AgentView | None) -> None:
        agents = listed_agents(view, main)
        self._agents.display = self._agents_head.display = bool(agents)
        lines = agent_lines(view, agents)

        def row_at(index: int, _width: int) -> ListRow:
            first, agent_id = lines[index]
            agent = view.agents.get(agent_id)
            if agent is None:
                return ListRow(())
            return agent_row(view, agent) if first else agent_second_row(agent)

        self._agents.set_rows([first for first, _ in lines], row_at)

    def _draw_todo(self, agent: AgentView | None) -> None:
        todo = () if agent is None else agent.todo
        self._todo.display = self._todo_head.display = bool(todo)
        done = sum(entry.status == "completed" for entry in todo)
        _say(self._todo_head, Content(f"Todo {done}/{len(todo)}"))
        self._todo.set_rows([""] * len(todo), lambda index, _width: todo_row(todo[index]))


def _say(head: Static, content: Content) -> None:
    """Have a heading say something; the screen is laid out anew only if it takes more or fewer lines."""
    before = head.content
    lines = before.plain.count("\n") if isinstance(before, Content) else -1
    if not isinstance(before, Content) or not before.is_same(content):
        head.update(content, layout=lines != content.plain.count("\n"))
