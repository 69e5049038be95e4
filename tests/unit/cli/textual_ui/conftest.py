"""Fixtures of all screen tests: a pilot that waits only as long as there is something to wait for."""

from __future__ import annotations

import asyncio  # noqa: TID251  it looks inside the loop, which anyio hides
from collections.abc import Iterator
from typing import Any, cast

import pytest
from anyio import to_thread
from textual import app, pilot

SOON = 0.02
"""In seconds. What is due within this time, such as the next frame, is waited for."""


@pytest.fixture(scope="session", autouse=True)
def settling() -> Iterator[None]:
    """Replace Textual's own wait, which is too slow.

    It takes 20 ms or more, several times per key, until the process uses almost no processor time.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (app, pilot):
            patch.setattr(module, "wait_for_idle", nothing_to_do)
        yield


async def nothing_to_do(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop has nothing to run, nothing is due soon and no thread works, or for ``max_sleep`` seconds."""
    loop = cast("Any", asyncio.get_running_loop())
    end = loop.time() + max_sleep
    await asyncio.sleep(min_sleep)
    while (now := loop.time()) < end:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        due = [timer.when() - now for timer in loop._scheduled if not timer.cancelled()]
        if not threads_at_work(loop) and min(due, default=SOON) >= SOON:
            return
        await asyncio.sleep(0.001)


def threads_at_work(loop: Any) -> int:
    """Return the number of busy threads of anyio and of Textual's workers."""
    pool = loop._default_executor
    of_workers = 0 if pool is None else pool._work_queue.qsize() + len(pool._threads) - pool._idle_semaphore._value
    return to_thread.current_default_thread_limiter().borrowed_tokens + of_workers
