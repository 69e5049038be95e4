"""A small app with a prompt and the bottom panel, and the requests and readings that its tests need."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Static, TextArea

from ipc.events import ApprovalRequestEvent
from vibe.cli.textual_ui.panels.bottom_panel import WAKE_SECONDS, BottomPanel
from vibe.cli.textual_ui.panels.panel_frame import LineView
from vibe.cli.textual_ui.panels.plan_panels import PlanPanel
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel
from vibe.cli.textual_ui.panels.request_queue import RequestQueue


class PanelClock:
    """Monotonic and unix time that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class PanelApp(App[None]):
    """A log, with the bottom panel below it."""

    CSS = "#log { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.clock = PanelClock()
        self.heard: list[tuple[str, str]] = []
        self.steps: dict[str, str] = {}
        self.sign = ""
        self.queue = RequestQueue(lambda request_id: self.steps.get(request_id, ""))
        self.prompt = TextArea(id="prompt")
        self.prompt.styles.height = 3
        self.bottom = BottomPanel(self.prompt, self.queue, clock=self.clock, now=self.clock, show_sign=self.told)

    def compose(self) -> ComposeResult:
        yield Static("the log", id="log")
        yield self.bottom

    @on(PlanPanel.Acted)
    def act(self, message: PlanPanel.Acted) -> None:
        self.heard.append((
            message.line or f"opens {message.agent}" * (message.agent is not None),
            "leaves" * message.leaves + ", it goes on" * message.goes_on,
        ))

    def on_mount(self) -> None:
        self.prompt.focus()

    def told(self, sign: str, style: str) -> None:
        self.sign = sign if style else "without a style"

    @on(ProposalPanel.Answered)
    def hear(self, message: ProposalPanel.Answered) -> None:
        self.heard.append((message.word, message.text))


class Stage:
    """The app while a test uses it."""

    def __init__(self, app: PanelApp, pilot: Pilot[None], group: TaskGroup) -> None:
        self.app = app
        self.pilot = pilot
        self.group = group
        self.queue = app.queue
        self.answers: list[Any] = []

    async def ask(self, ask: Callable[..., Any], *args: Any) -> anyio.CancelScope:
        """Ask as the engine does; the answer goes to ``answers``. Cancelling the returned scope withdraws the request."""
        scope = anyio.CancelScope()

        async def asking() -> None:
            with scope:
                self.answers.append(await ask(*args))

        self.group.start_soon(asking)
        await self.settle()
        return scope

    async def approve(self, request: ApprovalRequestEvent) -> anyio.CancelScope:
        return await self.ask(self.queue.approve, request)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await self.pilot.pause()

    async def until(self, condition: Callable[[], object]) -> None:
        with anyio.fail_after(5):
            while not condition():
                await self.pilot.pause(0.01)

    async def until_woken(self) -> None:
        """Wait until the bottom panel notices that nobody types any more."""
        await self.pilot.pause(3 * WAKE_SECONDS)
        await self.settle()

    @property
    def rows(self) -> list[str]:
        """Return the rows of the screen as they are drawn."""
        return [strip.text.rstrip() for strip in self.strips]

    @property
    def strips(self) -> list[Strip]:
        """Return the rows with their colours."""
        return self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]

    @property
    def screen(self) -> str:
        return "\n".join(self.rows)

    @property
    def lines(self) -> list[str]:
        """Return all lines of the panel, visible or not."""
        view = self.app.bottom.shown.query_one(LineView)
        return [line.lead + str(line.text) for line in view.lines]


@asynccontextmanager
async def stage(width: int = 80, height: int = 24) -> AsyncGenerator[Stage]:
    """Run the app."""
    app = PanelApp()
    async with app.run_test(size=(width, height)) as pilot, anyio.create_task_group() as group:
        await pilot.pause()
        yield Stage(app, pilot, group)
        group.cancel_scope.cancel()


def request(request_id: str = "r1", tool: str = "bash", **fields: Any) -> ApprovalRequestEvent:
    """Return the request for a call that waits for approval."""
    fields.setdefault("arguments", {"command": "rm -rf build"})
    fields.setdefault("covers", ("bash: rm",))
    known: dict[str, Any] = {
        "tool_call_id": "c1",
        "summary": "rm -rf build",
        "rule": "permission",
        "reason": f"{tool} needs your approval",
    }
    return ApprovalRequestEvent(request_id=request_id, tool=tool, **{**known, **fields})
