"""A clock that only moves when somebody sleeps, or when a test says so."""

from __future__ import annotations

import anyio
import anyio.lowlevel


class SleepyClock:
    """Time passes by sleeping alone, and at once: an hour's wait is over before the next line."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        await anyio.lowlevel.checkpoint()
        self.slept.append(seconds)
        self.now += seconds


class ManualClock:
    """Time passes by ``advance`` alone; sleepers wake when theirs has come."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._moved = anyio.Event()

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += seconds
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has been advanced by so much."""
        until = self.now + seconds
        while self.now < until:
            await self._moved.wait()
