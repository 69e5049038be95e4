"""Finds processes by a mark in their environment, which every descendant inherits, and ends them all.

A program that empties its environment on purpose is not found.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class, move_on_after, sleep, to_thread

MARK = "_VIBE_STEP"
"""The variable of what the process of a step starts."""
ATTEMPT_MARK = "_VIBE_ATTEMPT"
"""The variable of what an attempt at a step starts, in whatever process the attempt is made."""

GRACE_SECONDS = 0.5
"""How long commands have to end by themselves once their step is cancelled."""
KILL_SECONDS = 5.0
POLL_SECONDS = 0.01

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
                await end_marked(mark, ATTEMPT_MARK)
        raise


async def end_marked(mark: str, variable: str = MARK) -> None:
    """Kill all that carry the mark; returns when none is left. Finds nothing where there is no ``/proc``."""
    while found := await to_thread.run_sync(_marked, f"{variable}={mark}"):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await sleep(POLL_SECONDS)


def _marked(entry: str) -> list[int]:
    if not sys.platform.startswith("linux"):
        return []
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _carries(folder, entry.encode())]


def _carries(process: Path, entry: bytes) -> bool:
    try:
        return entry in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
