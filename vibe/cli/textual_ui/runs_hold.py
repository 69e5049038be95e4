"""Shows the list of runs, and each run that a person attaches to from there and comes back from."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import partial
from subprocess import DEVNULL
from typing import Final, cast
from urllib.parse import quote

from anyio import EndOfStream, Lock, create_task_group, move_on_after, open_process
from anyio.abc import Process

from ipc.errors import IpcError
from vibe.cli.environment import CliEnvironment
from vibe.cli.textual_ui.app import VibeApp, show
from vibe.cli.textual_ui.chat_screen import ChatScreen, Hold, choice_of
from vibe.cli.textual_ui.panels.request_queue import PendingAnswer
from vibe.cli.textual_ui.refresher import app_of
from vibe.cli.textual_ui.screens.runs_screen import RunsDesk, RunsScreen
from vibe.cli.textual_ui.state_store import ScreenPhase
from vibe.system.errors import EnvironmentFailure

PAGE: Final = (sys.executable, "-P", "-m", "vibe.cli.main", "dashboard", "--web", "--control", "--output", "json")
START_SECONDS: Final = 15.0
"""The longest time, in seconds, that the page's server may take to start."""


def show_runs(env: CliEnvironment) -> int:
    """Show the list of runs until the person leaves, and return the exit code."""
    desk, first = RunsDesk(), PendingAnswer[str | None]()
    return show(partial(_load, env, desk, first), env, cover=(RunsScreen(desk), first.give))


def _load(env: CliEnvironment, desk: RunsDesk, first: PendingAnswer[str | None]) -> Hold:
    """Load the modules that follow runs, and return the function that holds the list on the screen."""
    from vibe.app.watch.board import Board  # noqa: PLC0415  after the first frame
    from vibe.app.watch.commands import send  # noqa: PLC0415  as above
    from vibe.cli.textual_ui.remote_chat import hold_attached  # noqa: PLC0415  as above

    board, page = Board(env.home, env.runtime_dir), PageServer(env)
    desk.board, desk.send, desk.page = board, send, page.address

    async def hold(stage: ChatScreen) -> None:
        app = cast("VibeApp", app_of(stage))
        async with create_task_group() as tasks:
            tasks.start_soon(board.keep)
            try:
                chosen = await first.given()
                while chosen:
                    await _visit(app, partial(hold_attached, env, chosen, ""))
                    is_leaving = stage.store.screen.phase is ScreenPhase.LEAVING
                    chosen = "" if is_leaving else await choice_of(app, RunsScreen(desk))
            finally:
                page.end()
            tasks.cancel_scope.cancel()

    return hold


class PageServer:
    """Serves the browser's dashboard from a process of its own, from the first ``address`` until ``end``."""

    def __init__(self, env: CliEnvironment) -> None:
        self._env = env
        self._process: Process | None = None
        self._url = ""
        self._starting = Lock()

    async def address(self, key: str) -> str:
        """Return the address at which the page shows a run, after starting the server if necessary.

        Raises:
            EnvironmentFailure: the page can't be served.
        """
        async with self._starting:
            if not self._url or self._process is None or self._process.returncode is not None:
                self.end()  # a server whose start was cancelled
                await self._start()
        place, _, token = self._url.partition("#")
        return f"{place.partition('?')[0]}?run={quote(key, safe='')}#{token}"

    def end(self) -> None:
        """Stop the server."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    async def _start(self) -> None:
        env = self._env
        self._url = ""
        process = await open_process(PAGE, stdin=DEVNULL, stderr=DEVNULL, cwd=env.cwd, env=env.for_another)
        self._process = process
        printed = b""
        with move_on_after(START_SECONDS), suppress(EndOfStream):
            while process.stdout is not None and b"\n" not in printed:
                printed += await process.stdout.receive()
        try:
            self._url = json.loads(printed)["url"]
        except (ValueError, KeyError) as error:
            self.end()
            raise EnvironmentFailure("the page can't be served: `vibe dashboard --web` says why") from error


async def _visit(app: VibeApp, hold: Hold) -> None:
    """Hold a chat on the chat screen until the person leaves it, for instance by Esc; notify them of its error."""
    app.back = lambda: app.controller.chat and app.controller.chat.leave()
    try:
        await hold(app.chat_screen)
    except IpcError as error:
        app.notify(str(error), severity="warning", markup=False)
    app.back = None
    if app.store.screen.phase is not ScreenPhase.LEAVING:
        app.switch(None)
