"""The list of runs on the screen, and the runs that a person attaches to from there and comes back from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from anyio import create_task_group

from ipc.errors import IpcError
from vibe.cli.environment import CliEnvironment
from vibe.cli.textual_ui.app import VibeApp, show
from vibe.cli.textual_ui.chat_screen import ChatScreen, choice_of
from vibe.cli.textual_ui.panels.request_queue import Awaited
from vibe.cli.textual_ui.screens.runs_screen import RunsDesk, RunsScreen
from vibe.cli.textual_ui.state_store import ScreenPhase

if TYPE_CHECKING:
    from vibe.cli.textual_ui.chat_screen import Hold


def show_runs(env: CliEnvironment) -> int:
    """Show the list until the person leaves, and return the exit code."""
    desk, first = RunsDesk(), Awaited[str | None]()
    return show(partial(_load, env, desk, first), env, cover=(RunsScreen(desk), first.give))


def _load(env: CliEnvironment, desk: RunsDesk, first: Awaited[str | None]) -> Hold:
    """Load what follows runs; returns what holds the list."""
    from vibe.app.watch.board import Board  # noqa: PLC0415  behind the first frame
    from vibe.app.watch.commands import send  # noqa: PLC0415  as above
    from vibe.cli.textual_ui.remote_chat import hold_attached  # noqa: PLC0415  as above

    board = Board(env.home, env.runtime_dir)
    desk.board, desk.send = board, send

    async def hold(stage: ChatScreen) -> None:
        app = cast("VibeApp", stage.our_app)
        async with create_task_group() as tasks:
            tasks.start_soon(board.keep)
            chosen = await first.given()
            while chosen and stage.store.screen.phase is not ScreenPhase.LEAVING:
                await _visit(app, partial(hold_attached, env, chosen, ""))
                chosen = await choice_of(app, RunsScreen(desk))
            tasks.cancel_scope.cancel()

    return hold


async def _visit(app: VibeApp, hold: Hold) -> None:
    """Have a chat held on the chat's screen until it is left, as Esc does; what is wrong with it is told."""
    app.back = lambda: app.controller.chat and app.controller.chat.leave()
    try:
        await hold(app.chat_screen)
    except IpcError as error:
        app.notify(str(error), severity="warning", markup=False)
    app.back = None
    if app.store.screen.phase is not ScreenPhase.LEAVING:
        app.chat_screen.log_view.reset()
        app.store.restart()
        app.controller.switch()
