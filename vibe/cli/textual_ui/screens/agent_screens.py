"""The screens of agents: FleetScreen shows all of them at once, TranscriptScreen what one of them said and did."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar, Final

from msgspec import Struct
from textual import events, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from vibe.cli.textual_ui.controllers.app_controller import Chat
from vibe.cli.textual_ui.input.prompt_area import OneLine, priority_binding
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.rows import drawn, drawn_row
from vibe.cli.textual_ui.overview.ticker import pressure
from vibe.cli.textual_ui.panels.panel_frame import LOW, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.request_panels import panel_for
from vibe.cli.textual_ui.panels.request_queue import PendingRequest, RequestQueue
from vibe.cli.textual_ui.presenters.chat_presenter import ChatPresenter, ReadJournals
from vibe.cli.textual_ui.refresher import SECONDS_PER_REFRESH, Refresher, app_of
from vibe.cli.textual_ui.state_store import UIStateStore
from vibe.front import fleet
from vibe.front.cells import Line, spread
from vibe.front.event_text import step_title
from vibe.front.fleet import Tile, TilePlace, actions, key_line, tile_doing, tiles
from vibe.system.plain_text import one_line
from vibe.view.agent_view import AgentView, Key
from vibe.view.view import View

NOTHING_YET: Final = "nothing here yet"
LONGEST: Final = 400
ACTIONS: Final = frozenset({"talk", "act", "review", "go_to_request", "next_agent", "choose", "open", "filter"})
"""The actions of keys that work only while neither the input nor a panel has the focus."""


class AgentDesk(Struct, frozen=True, kw_only=True):
    """The objects that the agent screens work with.

    ``store`` reports changes, ``chat`` carries out commands, ``requests`` takes answers, ``read`` finds what the view
    no longer holds, and ``clock`` returns Unix seconds.
    """

    store: UIStateStore
    chat: Chat
    requests: RequestQueue
    read: ReadJournals | None = None
    clock: Callable[[], float] = time.time


class AgentScreen(Screen[None]):
    """Base of the agent screens: keys act on ``tile``, an input steers its agent, and a panel answers its request.

    The panel's keys work even without the focus, except those that the screen binds itself.
    """

    DEFAULT_CSS = """
    AgentScreen { layout: vertical; }
    AgentScreen .head, AgentScreen .keys { height: 1; text-wrap: nowrap; }
    AgentScreen > Input { height: 1; border: none; padding: 0 1; display: none; }
    AgentScreen > Input:focus { border: none; }
    AgentScreen PanelFrame { max-height: 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        priority_binding("t", "talk", "Tell it something"),
        priority_binding("x", "act('cancel')", "Stop the step"),
        priority_binding("k", "act('skip')", "Skip the step"),
        priority_binding("r", "act('retry')", "Do the step again"),
        priority_binding("v", "review", "Changes"),
        priority_binding("tab", "go_to_request", "What waits for you"),
    ]

    def __init__(self, desk: AgentDesk) -> None:
        super().__init__()
        self.desk = desk
        self.head = Static(classes="head", markup=False)
        self.keys = Static(classes="keys", markup=False)
        self.line = OneLine(select_on_focus=False)
        self._panel: tuple[PendingRequest, PanelFrame] | None = None
        self._guard = TypingGuard()

    @property
    def tile(self) -> Tile | None:
        """The tile that keys act on."""
        raise NotImplementedError

    @property
    def body(self) -> Widget:
        """The widget that has the focus when neither the input nor a panel has it."""
        raise NotImplementedError

    @property
    def view(self) -> View:
        """The view of all runs."""
        return self.desk.store.view

    def compose(self) -> ComposeResult:
        """Compose the head, the body, the input and the keys."""
        yield self.head
        yield self.body
        yield self.line
        yield self.keys

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed in the view."""
        raise NotImplementedError

    @on(events.Mount)
    def _begin(self) -> None:
        self.desk.store.add(self.present)

    @on(events.Unmount)
    def _end(self) -> None:
        self.desk.store.remove(self.present)

    def _show_request(self, tile: Tile | None) -> None:
        """Show the panel of a tile's request, if it is not shown yet; its keys work once the person stops typing."""
        asked = "" if tile is None or tile.request is None else tile.request.id
        pending = next((each for each in self.desk.requests.pending if each.id == asked), None)
        if self._panel is not None and self._panel[0] is not pending:
            _, panel = self._panel
            self._panel = None
            if panel in (() if self.focused is None else self.focused.ancestors_with_self):
                self.set_focus(self.body)
            panel.remove()
        if self._panel is None and pending is not None:
            self._guard.typed()
            panel = panel_for(pending, self.desk.clock)
            panel.guard, panel.is_beside = self._guard, True
            self._panel = pending, panel
            self._mount_panel(panel)
            panel.asleep = True

    def _mount_panel(self, panel: PanelFrame) -> None:
        """Mount a panel above the input."""
        self.mount(panel, before=self.line)

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the panel, except Esc, which goes back without answering."""
        if self._panel is not None and self.focused is self.body and event.key != "escape":
            self._panel[1].on_key(event)

    @on(PanelFrame.PutOff)
    def _put_off(self) -> None:
        self.set_focus(self.body)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable ``ACTIONS`` only while the body has the focus."""
        return self.focused is self.body if action in ACTIONS else super().check_action(action, parameters)

    def action_act(self, action: str) -> None:
        """Cancel, skip or retry the tile's step, unless it is done."""
        tile = self.tile
        if tile is not None and tile.step is not None and tile.state != "done":
            self.desk.chat.command(f"/{action} {tile.step.id}")

    def action_review(self) -> None:
        """Review the changes of the tile's plan, if its step changed files."""
        tile = self.tile
        if tile is not None and tile.plan is not None and tile.step is not None and tile.step.files:
            self.desk.chat.command(f"/review {tile.plan.id}")

    def action_talk(self, _key: str = "") -> None:
        """Open the input for telling the agent something, or what a failed step should know when it is tried again."""
        tile = self.tile
        if tile is not None and "t" in dict(actions(tile)):
            self.line.placeholder = f"tell {one_line(tile.name)}"
            self.line.display, self.keys.display = True, False
            self.set_focus(self.line)

    def action_go_to_request(self) -> None:
        """Focus the panel of the request."""
        if self._panel is not None:
            self._panel[1].take_focus()

    def action_back(self) -> None:
        """Go back from the input or a panel to the body, and from the body to where the screen was opened."""
        if self.focused is self.line:
            self._close_line()
        elif self.focused is self.body:
            self.dismiss()
        else:
            self.set_focus(self.body)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Tell the agent what was typed; if none can hear it, the failed step is tried again, or the text stays."""
        message.stop()
        tile, text = self.tile, message.value.strip()
        agent = None if tile is None else fleet.hearing_agent(tile)
        if text and agent is not None:
            self.desk.chat.tell_agent(agent.id, text)
        elif text and tile is not None and tile.step is not None and tile.state == "failed":
            self.desk.chat.command(f"/retry {tile.step.id} {text}")
        elif text:
            self.notify("not sent: this agent has finished", severity="warning")
            return
        self._close_line()

    def _close_line(self) -> None:
        self.line.clear()
        self.line.display, self.keys.display = False, True
        self.set_focus(self.body)


class TranscriptScreen(AgentScreen):
    """Shows the transcript of one agent of a tile; left and right go to the others, in the order of the fleet."""

    DEFAULT_CSS = "TranscriptScreen .head { height: 2; margin-bottom: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        priority_binding("s", "talk('s')", "Tell it something"),
        priority_binding("left", "next_agent(-1)", "Agent before"),
        priority_binding("right", "next_agent(1)", "Next agent"),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "ChatLog"

    def __init__(self, desk: AgentDesk, tile_id: str) -> None:
        super().__init__(desk)
        self.tile_id = tile_id
        self.agent_id = ""
        self._log = ChatLog()
        self._presenter = ChatPresenter(self._log, tile_id, read=desk.read)
        self._refresher = Refresher(self, self._draw)

    @property
    def tile(self) -> Tile | None:
        """The tile that was opened."""
        alone = self.view.agents.get(self.tile_id)  # an agent without a tile, such as a planner
        found = (tile for tile in tiles(self.view) if tile.id == self.tile_id)
        return next(found, None if alone is None else fleet.agent_tile(alone))

    @property
    def body(self) -> Widget:
        """The chat log."""
        return self._log

    def on_mount(self) -> None:
        """Show what is known so far."""
        self.present(self.view, frozenset())

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed, and switch to the tile's latest agent if the shown one is gone."""
        tile = self.tile
        if tile is not None and tile.agents and self.agent_id not in {agent.id for agent in tile.agents}:
            self._open(tile.id, tile.agents[-1].id)
        elif self.agent_id:
            self._presenter.present(view, changed)
        self._refresher.request()

    def on_chat_log_older_wanted(self, message: ChatLog.OlderWanted) -> None:
        """Show older entries."""
        message.stop()
        self.run_worker(self._presenter.show_older(), group="older")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave ``s`` to a panel if there is one, and ``k`` to the log once an entry is marked."""
        if (parameters == ("s",) and self._panel is not None) or (parameters == ("skip",) and self._log.takes("k")):
            return False
        return super().check_action(action, parameters)

    def action_leave_log(self) -> None:
        """Remove the mark of an entry; if none is marked, leave the screen."""
        if not self._log.unmark():
            raise SkipAction

    def action_next_agent(self, by: int) -> None:
        """Show the next (1) or previous (-1) agent."""
        stops = [(tile.id, agent.id) for tile in tiles(self.view) for agent in tile.agents]
        if len(stops) > 1 and (self.tile_id, self.agent_id) in stops:
            self._open(*stops[(stops.index((self.tile_id, self.agent_id)) + by) % len(stops)])
            self._draw()

    def _open(self, tile_id: str, agent_id: str) -> None:
        self.tile_id, self.agent_id = tile_id, agent_id
        self._presenter.show(self.view, agent_id)

    @on(events.Resize)
    def _draw(self) -> None:
        tile, agent, width = self.tile, self.view.agents.get(self.agent_id), max(1, self.size.width)
        if tile is None:
            return
        self.head.update(Content("\n").join(map(drawn, _headings(tile, agent, self.desk.clock(), width))), layout=False)
        keys = [*actions(tile), ("←→", "agent"), ("Enter", "fold")]
        self.keys.update(drawn(key_line(keys, width)), layout=False)
        self._show_request(tile)
        self._refresher.draw_every(1.0 if tile.ended_at is None else 0.0)


def _headings(tile: Tile, agent: AgentView | None, now: float, width: int) -> tuple[Line, Line]:
    """Return the two head lines, on a tile and on one of its agents."""
    title = "" if tile.step is None or tile.step.title == tile.name else step_title(tile.step.title)
    left: Line = [(" ", ""), fleet.sign_of(tile, int(now)), (f" {one_line(tile.name)}", "bold"), (f"  {title}", "")]
    first = spread(left, [(f"{fleet.tile_facts(tile, now)} ", "muted")], width)
    if agent is None:
        return first, [("   ", ""), (NOTHING_YET, "muted")]
    ids = [each.id for each in tile.agents]
    which = f"agent {ids.index(agent.id) + 1} of {len(ids)}" if len(ids) > 1 and agent.id in ids else ""
    words, style = tile_doing(tile, now) if tile.state == "failed" else (agent.doing() or agent.outcome or "", "")
    about = one_line(" · ".join(filter(None, (which, agent.profile, agent.model))), LONGEST)
    share = (agent.context_tokens or 0) / agent.context_limit if agent.context_limit else 0.0
    context: Line = [(f"{share:.0%} context ", pressure(share) or "muted")] if share else []
    second: Line = [
        ("   ", ""),
        (about + " · " * bool(about and words), "muted"),
        (one_line(words, LONGEST), style or "muted"),
    ]
    return first, spread(second, context, width)


NO_AGENTS: Final = "no agents yet: /plan GOAL has several work"
NONE_MATCH: Final = "none now: f shows others"


PANEL_LEAST: Final = 4
"""The fewest rows of a panel in its tile, however few rows of the tile are in sight."""


class FleetView(Widget, can_focus=True):
    """Paints the tiles that are in sight, repainting only the rows that have changed.

    It may contain the panel that answers the request of the chosen tile, shown inside that tile.
    """

    DEFAULT_CSS = """
    FleetView { height: 1fr; margin-top: 1; overflow: hidden; }
    FleetView > PanelFrame { position: absolute; }
    FleetScreen.-low FleetView { margin-top: 0; }
    """

    @dataclass
    class Pointed(Message):
        """Posted when a tile was clicked."""

        tile_id: str

    def __init__(self) -> None:
        super().__init__()
        self.places: list[TilePlace] = []
        self._layout: tuple[object, ...] = ()
        self._top = 0
        self._rows: dict[str, list[tuple[Line, Strip]]] = {}
        self._shown: tuple[Sequence[Tile], str, float, PanelFrame | None] | None = None

    def show(
        self, shown: Sequence[Tile], chosen: str, now: float, panel: PanelFrame | None, touched: Collection[str]
    ) -> None:
        """Show tiles at ``now``, in Unix seconds, with the panel for a request in the chosen one.

        ``touched`` holds the ids of tiles and agents that something happened to.
        """
        self._shown = shown, chosen, now, panel
        height = self.size.height
        self.places = fleet.places(shown, self.size.width, height, chosen, now)
        below = max((each.y + each.height for each in self.places), default=0)
        for place in self.places:
            if place.tile.id == chosen:
                self._top = min(max(self._top, place.y + place.height - height), place.y)
        self._top = max(0, min(self._top, below - height))
        sizes = ((each.tile.id, each.x, each.y, each.width, each.height) for each in self.places)
        layout = (chosen, panel, self._top, *sizes)
        if layout != self._layout:
            self._layout = layout
            self._rows.clear()
            self.refresh()
        for place in self.places:
            if self._top - place.height < place.y < self._top + height:
                self._draw(place, now, touched, chosen=place.tile.id == chosen)
            if panel is not None and place.tile.id == chosen:
                y = place.y - self._top
                top = max(0, min(y + fleet.panel_row(place), height - PANEL_LEAST))
                panel.styles.offset, panel.styles.width = (place.x, top), place.width
                panel.styles.max_height = max(1, min(y + place.height, height) - top)

    def _draw(self, place: TilePlace, now: float, touched: Collection[str], *, chosen: bool) -> None:
        tile, beat = place.tile, int(now / SECONDS_PER_REFRESH)
        known = self._rows.get(tile.id, [])
        is_same = tile.id not in touched and not any(agent.id in touched for agent in tile.agents)
        if known and is_same and place.height > 2 and tile_doing(tile, now)[1] != "warn":
            head = fleet.tile_head(tile, place.width, now, chosen=chosen, beat=beat)
            lines = [head, *(line for line, _ in known[1:])]
        else:
            has_panel = chosen and self._shown is not None and self._shown[-1] is not None
            lines = fleet.tile_lines(place, now, chosen=chosen, beat=beat, has_panel=has_panel)
        painted = {tuple(line): strip for line, strip in known}
        self._rows[tile.id] = rows = list[tuple[Line, Strip]]()
        for row, line in enumerate(lines):
            strip = painted.get(tuple(line)) or drawn_row(self, line, place.width).strip
            rows.append((line, strip.adjust_cell_length(place.width)))
            if known and known[row][0] != line:
                self.refresh(Region(place.x, place.y + row - self._top, place.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return a line of the widget."""
        strips, blank, end = list[Strip](), self.rich_style, 0
        for place in self.places:
            row, rows = y + self._top - place.y, self._rows.get(place.tile.id)
            if rows is not None and 0 <= row < place.height:
                strips += [Strip.blank(place.x - end, blank), rows[row][1]]
                end = place.x + place.width
        return Strip.join(strips).adjust_cell_length(self.size.width, blank)

    def notify_style_update(self) -> None:
        """Repaint in the colours of a new theme."""
        super().notify_style_update()
        self._layout = ()
        if self._shown is not None:
            self.call_after_refresh(self.show, *self._shown, ())

    def on_click(self, event: events.Click) -> None:
        """Post which tile was clicked."""
        for place in self.places if event.widget is self else ():
            if Region(place.x, place.y, place.width, place.height).contains(event.x, event.y + self._top):
                self.post_message(self.Pointed(place.tile.id))


class FleetScreen(AgentScreen):
    """Shows the tiles of all agents; ``chosen`` is the id of the tile that keys act on.

    Opening a tile shows its transcript over this screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(priority_binding(way, f"choose('{way}')", "Choose") for way in ("left", "right", "up", "down")),
        priority_binding("enter", "open", "Open"),
        priority_binding("f", "filter", "Filter"),
        Binding("f2", "back", "Back", show=False),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "FleetView"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LOW, "-high")]  # noqa: RUF012  as in Textual

    def __init__(self, desk: AgentDesk) -> None:
        super().__init__(desk)
        self.chosen = ""
        self._fleet = FleetView()
        self._filters = cycle(fleet.FILTERS)
        self._filter = next(self._filters)
        self._touched: set[str] = set()
        self.refresher = Refresher(self, self._draw)

    @property
    def tile(self) -> Tile | None:
        """The chosen tile."""
        return next((tile for tile in self._shown() if tile.id == self.chosen), None)

    @property
    def body(self) -> Widget:
        """The widget with the tiles."""
        return self._fleet

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """Record which tiles changed, and request a redraw."""
        for kind, *way in changed:
            if kind == "agents":
                self._touched.add(way[0])
            elif kind == "plans" and len(way) > 2:
                self._touched.add(f"{way[0]}/{way[2]}")
        self.refresher.request()

    def action_choose(self, way: str) -> None:
        """Choose the next tile in a direction."""
        shown = self._shown()
        if shown:
            known = self._fleet.places or fleet.places(shown, *app_of(self).size, self.chosen, self.desk.clock())
            self._choose(fleet.neighbour(known, self.chosen, way))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Before the first frame, enable only the keys that look around; later see ``AgentScreen``."""
        if not self._fleet.places and action in ACTIONS:
            return action in {"choose", "open"}
        return super().check_action(action, parameters)

    def _mount_panel(self, panel: PanelFrame) -> None:
        """Mount a panel in the fleet, where it is placed in the chosen tile."""
        self._fleet.mount(panel)

    def action_filter(self) -> None:
        """Go to the next filter: all tiles, those at work, those that need the person, those that have ended."""
        self._filter = next(self._filters)
        self._draw()

    def action_go_to_request(self) -> None:
        """Choose the first tile with a request; if the chosen tile has one, focus its panel."""
        asking = [place.tile.id for place in self._fleet.places if place.tile.request is not None]
        if asking and self.chosen not in asking:
            self._choose(asking[0])
        else:
            super().action_go_to_request()

    def action_open(self) -> None:
        """Show the transcript of the chosen tile."""
        if self.tile is not None and self.is_active:
            opened = TranscriptScreen(self.desk, self.chosen)
            app_of(self).push_screen(opened, lambda _: self._choose(opened.tile_id))

    def on_fleet_view_pointed(self, message: FleetView.Pointed) -> None:
        """Choose the clicked tile, or open it if it is chosen already."""
        if message.tile_id == self.chosen:
            self.action_open()
        else:
            self._choose(message.tile_id)

    def _shown(self) -> list[Tile]:
        """Return the tiles that pass the filter; if the chosen one does not, choose the most urgent."""
        shown = [tile for tile in tiles(self.view) if not self._filter or tile.state in fleet.FILTERS[self._filter]]
        if all(tile.id != self.chosen for tile in shown):
            urgent = sorted(shown, key=lambda tile: ("ask", "failed", "run", "later", "done").index(tile.state))
            self.chosen = urgent[0].id if urgent else ""
        return shown

    def _choose(self, tile_id: str) -> None:
        self.chosen = tile_id
        self._draw()

    @on(events.Resize)
    def _fit(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if not self.is_active or not self._fleet.size.height:
            return
        now, width = self.desk.clock(), max(1, self.size.width)
        every, shown = tiles(self.view), self._shown()
        tile = self.tile
        self._show_request(tile)
        self._fleet.show(shown, self.chosen, now, self._panel and self._panel[1], self._touched)
        self._touched.clear()
        self.head.update(drawn(fleet.fleet_head(self.view, every, now, width, self._filter)), layout=False)
        asks = [("Tab", "what waits for you")] if self.view.requests and self._panel is None else []
        keys = [("", NONE_MATCH if every else NO_AGENTS)]
        if tile is not None:
            keys = [("↑↓←→", "choose"), ("Enter", "open"), *asks, *actions(tile), ("f", "filter")]
        self.keys.update(drawn(key_line(keys, width)), layout=False)
        self.refresher.draw_every(_redraw_interval(shown, now))


def _redraw_interval(shown: Sequence[Tile], now: float) -> float:
    """Return the seconds between redraws while nothing happens, or 0 if none are needed."""
    if any(tile.state == "run" for tile in shown):
        return SECONDS_PER_REFRESH
    return 1.0 if any(tile.ended_at is None or now - tile.ended_at < fleet.FADE_S for tile in shown) else 0.0
