"""Settling: attempts that end together are seen to in lots, the ones that most waits for first."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

import anyio.lowlevel

AttemptT = TypeVar("AttemptT")


class Settling(Generic[AttemptT]):
    """Hands attempts to ``settle``, lot after lot, never two lots side by side; ``settle`` puts them on disk.

    A lot takes the best by rank, 0 first, and at most twice as many as the lot before. So of a crowd that ends at one
    moment the step with the longest chain behind it goes on at once, in place of after all the others, and the crowd
    still costs few flushes of the disk.
    """

    def __init__(self, settle: Callable[[Sequence[AttemptT]], Awaitable[None]]) -> None:
        self._settle = settle
        self._waiting: list[tuple[int, int, AttemptT]] = []
        self._order = itertools.count()
        self._is_busy = False

    async def add(self, rank: int, attempt: AttemptT) -> None:
        """Have it settled. Whoever comes first stays until nothing is left to settle, the others return at once.

        What ``settle`` raises goes to the one who stays, and nothing is settled any more.
        """
        heappush(self._waiting, (rank, next(self._order), attempt))
        if self._is_busy:
            return
        self._is_busy = True
        size = 1
        while self._waiting:
            lot = [heappop(self._waiting)[-1] for _ in range(min(size, len(self._waiting)))]
            await self._settle(lot)
            size *= 2
            if self._waiting:
                await anyio.lowlevel.checkpoint()  # what was just started begins
        self._is_busy = False
