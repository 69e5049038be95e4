"""An app that shows the agents of a view, and keeps what a person asks for there."""

from __future__ import annotations

from typing import Any, cast

from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from ipc import events as e
from vibe.cli.textual_ui.controllers.app_controller import Chat
from vibe.cli.textual_ui.panels.request_queue import RequestQueue, RequestReply
from vibe.cli.textual_ui.screens.agent_screens import AgentDesk, AgentScreen, FleetScreen, FleetView, TranscriptScreen
from vibe.cli.textual_ui.state_store import UIStateStore
from vibe.view.view import View

NOW = 1092.0


class AgentsApp(App[None]):
    """``wished`` holds the person's wishes for steps and agents, and ``replies`` their answers."""

    def __init__(self, view: View, tile_id: str = "") -> None:
        super().__init__()
        self.store = UIStateStore(lambda: None)
        self.store.view = self.view = view
        self.now = NOW
        self.wished: list[tuple[str, ...]] = []
        self.replies: list[RequestReply] = []
        self.requests = RequestQueue(lambda _: "")
        self.desk = AgentDesk(store=self.store, chat=cast("Chat", self), requests=self.requests, clock=lambda: self.now)
        self.opened: AgentScreen = TranscriptScreen(self.desk, tile_id) if tile_id else FleetScreen(self.desk)

    def tell_agent(self, *wish: str) -> None:
        """Record words for an agent, as the chat would take them."""
        self.wished.append(("tell", *wish))

    def command(self, line: str) -> None:
        """Record a command, as the chat would take it."""
        self.wished.append((line,))

    async def on_mount(self) -> None:
        """Show the screen."""
        await self.push_screen(self.opened)
        self.ask()

    def see(self, *events: e.Event) -> None:
        """Publish events."""
        for event in events:
            self.store.publish(event)
        self.ask()
        self.store.flush()

    def ask(self) -> None:
        """Put the open requests of the view to the person."""

        async def take(reply: RequestReply) -> str:
            self.replies.append(reply)
            return ""

        for request in self.view.requests.values():
            self.requests.add_remote(request, take)

    @property
    def rows(self) -> list[str]:
        """Return the rows of the tiles."""
        fleet = self.opened.query_one(FleetView)
        return [fleet.render_line(y).text.rstrip() for y in range(fleet.size.height)]


def text_of(strip: Strip) -> str:
    """Return the text of a row, without the blanks around it."""
    return strip.text.strip()


async def drawn(pilot: Pilot[Any]) -> None:
    """Wait until no drawing is delayed any more."""
    await pilot.pause(0.3)
    await pilot.pause()
