"""Timers: everything a run waits for by the clock, in one task and one heap, with a clock and a sleep of choice."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Awaitable, Callable

import anyio

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


def _since_boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def steady_time(wall: Clock = time.time, steady: Clock = _since_boot) -> Clock:
    """Tells unix seconds, as of now, by a clock that nobody sets: what lies between two answers is what has passed."""
    offset = wall() - steady()
    return lambda: offset + steady()


class Timer:
    """A call that is due at a time; ``cancel`` makes it never come."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Forget the call; a second time, or after it was made, nothing happens."""
        self.call = None


class Timers:
    """Makes calls when they are due; all from the task that awaits ``run``, in the order of their times.

    The task sleeps until the earliest call and is woken only by an earlier one. Times in seconds.
    """

    def __init__(self, clock: Clock = time.monotonic, sleep: Sleep = anyio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._nap: anyio.CancelScope | None = None
        self._nap_ends = math.inf
        self._stopped = False

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Have ``call`` made in so many seconds."""
        timer = Timer(call)
        due = self._clock() + seconds
        heapq.heappush(self._heap, (due, next(self._order), timer))
        if due < self._nap_ends:
            self._wake()
        return timer

    def stop(self) -> None:
        """End ``run``; calls that are not due yet are never made."""
        self._stopped = True
        self._wake()

    async def run(self) -> None:
        """Make the calls, until ``stop``."""
        while not self._stopped:
            self._call_due()
            if self._stopped:
                return
            self._nap_ends = self._heap[0][0] if self._heap else math.inf
            with anyio.CancelScope() as self._nap:
                if self._heap:
                    await self._sleep(max(0.0, self._nap_ends - self._clock()))
                else:
                    await anyio.sleep_forever()
            self._nap = None

    def _call_due(self) -> None:
        while self._heap and not self._stopped:
            due, _, timer = self._heap[0]
            call = timer.call
            if call is not None and due > self._clock():
                return
            heapq.heappop(self._heap)
            timer.cancel()
            if call is not None:
                call()

    def _wake(self) -> None:
        if self._nap is not None:
            self._nap.cancel()
