"""Handles the signals of a run (Ctrl-C, SIGTERM, SIGHUP), and ends processes that serve others."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio.lowlevel
from msgspec import Struct

from vibe.app.engine.host import Host
from vibe.system.racing import bare_task_group

EXIT_OF = {which: 128 + which for which in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
"""The exit code for each signal, as shells define it."""


SETTLING_ITERATIONS = 5
"""Event loop iterations to run after the end, so that a signal that arrived with it is still handled."""


class SignalLog(Struct):
    """The exit code of the first signal, or None as long as none has arrived."""

    exit_code: int | None = None


@asynccontextmanager
async def handled_signals(host: Host, on_signal: Callable[[signal.Signals, int], None]) -> AsyncGenerator[SignalLog]:
    """Call ``on_signal(which, count)`` for SIGINT, SIGTERM and SIGHUP while the block runs.

    ``count`` starts at 1. SIGHUP is left alone if the caller ignores it, as ``nohup`` does; all signals are if the
    process isn't the run's own. An error leaves the block as it was raised, not wrapped in an exception group.
    """
    log = SignalLog()
    if not host.owns_process:
        yield log
        return
    heeded = [which for which in EXIT_OF if which is not signal.SIGHUP or signal.getsignal(which) != signal.SIG_IGN]

    async def watch() -> None:
        with anyio.open_signal_receiver(*heeded) as signals:
            started.set()
            count = 0
            async for which in signals:
                count += 1
                log.exit_code = log.exit_code or EXIT_OF[which]
                on_signal(which, count)

    started = anyio.Event()
    async with bare_task_group() as group:
        group.start_soon(watch)
        await started.wait()
        try:
            yield log
        finally:
            await _handle_late_signals()
            group.cancel_scope.cancel()


async def _handle_late_signals() -> None:
    with anyio.CancelScope(shield=True):
        for _ in range(SETTLING_ITERATIONS):
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def cancelled_by_signals(host: Host) -> AsyncGenerator[SignalLog]:
    """Cancel the block at the first signal; the code after it runs on."""
    with anyio.CancelScope() as scope:
        async with handled_signals(host, lambda _which, _count: scope.cancel()) as signals:
            yield signals


LAST_SECONDS = 0.7
"""Seconds that unwanted work has to end; then the guard of its processes kills them along with ours."""


class ProcessEnd:
    """The end of the process, if it ``is_ours``: immediate once all is done, and in time even if something hangs."""

    def __init__(self, *, is_ours: bool) -> None:
        self.code = 0
        self._is_ours = is_ours
        self._is_near = False
        if is_ours:
            atexit.register(self._leave_if_near)  # runs after all handlers that are registered later

    def is_near(self, code: int) -> None:
        """Record that the results of work in progress are no longer wanted."""
        self.code = code
        self._is_near = True
        if self._is_ours:
            late = threading.Timer(LAST_SECONDS, self._leave)
            late.daemon = True
            late.start()

    def _leave_if_near(self) -> None:
        """Skip the slow teardown of objects, unless an error sets an exit code of its own."""
        if self._is_near:
            self._leave()

    def _leave(self) -> None:
        os._exit(self.code)


async def served_until_signal(host: Host, serve: Callable[[], Awaitable[object]]) -> int:
    """Serve until a signal arrives, and return the exit code. Ending by Ctrl-C or SIGTERM counts as success."""
    end, hung_up = ProcessEnd(is_ours=host.owns_process), EXIT_OF[signal.SIGHUP]
    async with cancelled_by_signals(host) as signals:
        await serve()
    end.is_near(hung_up if signals.exit_code == hung_up else 0)
    return end.code
