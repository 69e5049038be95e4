"""Opens the screen at the terminal of this process, and says how it ended as an exit code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from signal import SIGINT, Signals

import anyio

from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import handled_signals
from vibe.cli.textual_ui.app import VibeApp
from vibe.cli.textual_ui.controllers.app_controller import Hold
from vibe.core.system.awake_loop import run_awake

SHOWN_ID = 8
SWITCH_SECONDS = 0.001
"""Between threads while the engine is loaded in one: the person's keys are served in another."""
COLLECTED_AT = (5_000, 20, 30)
"""Thresholds of the collector, whose pauses are felt in the keys: it seldom looks at what stays.

Not too seldom, as Textual's painted lines refer to themselves: with 100 for 30, a thousand turns left 20 MB behind.
"""


def show(load: Callable[[], Hold], env: CliEnvironment) -> int:
    """Show the screen until the person leaves, and return the exit code.

    ``load`` loads the engine and returns what holds a chat on the screen; it is called in a thread, behind the first
    frame.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: the conversation could not be opened, or not be closed.
    """
    return run_awake(_show, load, env)


async def _show(load: Callable[[], Hold], env: CliEnvironment) -> int:
    starting = anyio.CancelScope()
    app = VibeApp(env, starting.cancel)
    problem: Exception | None = None

    async def hold() -> None:
        nonlocal problem
        try:
            with starting:
                await app.chat_screen.is_drawn.wait()
                with _short_switches(env):
                    first = await anyio.to_thread.run_sync(load)
                with _seldom_collected(env):
                    await app.hold(first)
        except Exception as error:  # noqa: BLE001  said once the terminal is as it was
            problem = error
        finally:
            app.exit()

    def on_signal(which: Signals, _count: int) -> None:
        if which is SIGINT:
            app.controller.interrupt()
        else:
            app.controller.leave()

    async with handled_signals(env.host, on_signal) as signals, anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await app.run_async(mouse=app.settings.mouse)
        app.controller.leave()
    if app.chat_screen.parting:
        env.stdout.write(f"{app.chat_screen.parting}\n")
    if app.session_id:
        env.stdout.write(f"saved; continue with: vibe --resume {app.session_id[:SHOWN_ID]}\n")
    error = app.crash or problem  # a screen that broke may have broken what was being closed, too
    if error is not None:
        raise error
    return signals.exit_code or ExitCode.DONE


@contextmanager
def _short_switches(env: CliEnvironment) -> Generator[None]:
    """Have threads take turns quickly while the block runs, if the process is ours."""
    before = sys.getswitchinterval()
    if env.owns_process:
        sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        if env.owns_process:
            sys.setswitchinterval(before)


@contextmanager
def _seldom_collected(env: CliEnvironment) -> Generator[None]:
    """Have the collector leave alone what was loaded, and look seldom at the rest, if the process is ours."""
    before = gc.get_threshold()
    if env.owns_process:
        gc.freeze()
        gc.set_threshold(*COLLECTED_AT)
    try:
        yield
    finally:
        if env.owns_process:
            gc.set_threshold(*before)
            gc.unfreeze()
