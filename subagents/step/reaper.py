"""End of what an attempt at a step has started: found by a mark in its environment, whatever its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class, move_on_after

from vibe.core.system.process import kill_marked

ATTEMPT_MARK = "_VIBE_ATTEMPT"
"""The variable of what an attempt at a step starts, in whatever process the attempt is made."""

GRACE_SECONDS = 0.5
"""The time commands have to end by themselves once their step is cancelled."""
KILL_SECONDS = 5.0

T = TypeVar("T")


async def ended_soon(work: Callable[[], Awaitable[T]], mark: str) -> T:
    """Do ``work``, whose processes carry ``mark`` as ``ATTEMPT_MARK``; if it is cancelled, none of them outlives it.

    None keeps it waiting then for longer than 0.5 s, whatever ``work`` grants them.
    """
    ended = Event()
    results: list[T] = []
    failure: Exception | None = None
    async with create_task_group() as group:
        group.start_soon(_hurry, ended, mark)
        try:
            results.append(await work())
        except Exception as error:  # noqa: BLE001  raised below, not as one of a group
            failure = error
        finally:
            ended.set()
    if failure is not None:
        raise failure
    return results[0]


async def _hurry(ended: Event, mark: str) -> None:
    try:
        await ended.wait()
    except get_cancelled_exc_class():
        with CancelScope(shield=True):
            with move_on_after(GRACE_SECONDS):
                await ended.wait()
            with move_on_after(KILL_SECONDS):
                await kill_marked(ATTEMPT_MARK, mark)
        raise
