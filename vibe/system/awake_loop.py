"""An event loop whose clock stops while the process is stopped, so that no time limit expires meanwhile.

A process is stopped by SIGSTOP, by a debugger, or with its virtual machine. Deadlines of anyio and ``asyncio`` use the
loop's clock. Our own code that measures by it calls ``anyio.current_time``.
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
"""The longest interval at which the loop checks if time has passed without it."""
UNSEEN_SECONDS = 1.0
"""A delay of more seconds than this means that the process was stopped."""

T = TypeVar("T")
Args = TypeVarTuple("Args")


class _LookingSelector(selectors.DefaultSelector):
    """Waits in pieces of ``LOOK_SECONDS``. ``unseen`` counts the seconds in which the process was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = 0.0
        self._looked = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for files as the base class does, for ``timeout`` seconds in which the process runs."""
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
        """Return the clock's time without the time that was not seen.

        ``waited`` is the wait expected since the last call.
        """
        now = time.monotonic()
        late = now - self._looked - waited
        self._looked = now
        if late > UNSEEN_SECONDS:
            self.unseen += late
        return now - self.unseen


class AwakeLoop(asyncio.SelectorEventLoop):
    """The event loop of a command."""

    def __init__(self) -> None:
        self._looking = _LookingSelector()
        super().__init__(self._looking)

    def time(self) -> float:
        """Return the seconds of a clock that stops with the process."""
        return self._looking.look()


def run_awake(function: Callable[[Unpack[Args]], Awaitable[T]], *arguments: *Args) -> T:
    """Run an async function in such a loop, like ``anyio.run``."""
    return anyio.run(function, *arguments, backend_options={"loop_factory": AwakeLoop})
