"""An event loop whose clock stands still while the process is stopped, so that no limit runs out meanwhile.

A process is stopped by SIGSTOP, by a debugger, or with its virtual machine. Deadlines of anyio and of ``asyncio`` are
by the clock of the loop; what measures by it in code of ours asks ``anyio.current_time``.
"""

from __future__ import annotations

import asyncio  # noqa: TID251  it is the loop itself
import math
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio

LOOK_SECONDS = 1.0
"""So often the loop looks whether time has passed unseen."""
UNSEEN_SECONDS = 1.0
"""More than this late, and the process did not run."""

T = TypeVar("T")
Args = TypeVarTuple("Args")


class _LookingSelector(selectors.DefaultSelector):
    """Waits in pieces of ``LOOK_SECONDS``; ``unseen`` are the seconds in which the process did not run."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = 0.0
        self._looked = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for files as the class above does, but for ``timeout`` seconds in which the process runs."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        now = self.look()
        end = math.inf if timeout is None else now + timeout
        while True:
            piece = min(max(end - now, 0.0), LOOK_SECONDS)
            found = super().select(piece)
            now = self.look(piece)
            if found or now >= end:
                return found

    def look(self, waited: float = 0.0) -> float:
        """Return the time of the clock without what was not seen; since the last look it may have ``waited``."""
        now = time.monotonic()
        late = now - self._looked - waited
        self._looked = now
        if late > UNSEEN_SECONDS:
            self.unseen += late
        return now - self.unseen


class AwakeLoop(asyncio.SelectorEventLoop):
    """The loop of a command."""

    def __init__(self) -> None:
        self._looking = _LookingSelector()
        super().__init__(self._looking)

    def time(self) -> float:
        """Seconds of a clock that stands still with the process."""
        return self._looking.look()


def run_awake(function: Callable[[Unpack[Args]], Awaitable[T]], *arguments: *Args) -> T:
    """Run an async function in such a loop, as ``anyio.run`` does."""
    return anyio.run(function, *arguments, backend_options={"loop_factory": AwakeLoop})
