"""Clocks that move only when somebody sleeps, or when a test says so."""

from __future__ import annotations

import anyio
import anyio.lowlevel


class SleepyClock:
    """A clock on which a sleep returns at once and moves the time forward, so that an hour's wait takes no time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Move the time forward by ``seconds``, and record the sleep."""
        await anyio.lowlevel.checkpoint()
        self.slept.append(seconds)
        self.now += seconds


class ManualClock:
    """A clock that moves only by ``advance``. Sleepers wake when their time has come."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._moved = anyio.Event()

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake whoever is due."""
        self.now += seconds
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has been advanced by ``seconds``."""
        until = self.now + seconds
        while self.now < until:
            await self._moved.wait()
