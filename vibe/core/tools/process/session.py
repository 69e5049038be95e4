"""Ends a session of processes: everything in it, in whatever process group, politely and then not."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from anyio import sleep, to_thread

GRACE_SECONDS = 2.0
KILL_SECONDS = 2.0
FIRST_POLL_SECONDS = 0.002
LAST_POLL_SECONDS = 0.05


async def end_session(leader: int) -> None:
    """SIGTERM to all of the session that ``leader`` opened, SIGKILL after 2 s to whoever is left.

    Returns when all are gone, or 2 s after SIGKILL. A process that opened a session of its own is not found.
    """
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        if await _signal_until_gone(leader, sign, seconds):
            return


async def _signal_until_gone(leader: int, sign: signal.Signals, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    poll = FIRST_POLL_SECONDS
    signalled: set[int] = set()
    if sign is signal.SIGKILL or not sys.platform.startswith("linux"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, sign)
    while True:
        members = await to_thread.run_sync(_members, leader)
        if not members:
            return True
        # Once each, for a second SIGTERM makes some programs give up their clean-up; late forks get theirs here.
        for member in members - signalled:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, sign)
        signalled |= members
        if time.monotonic() >= deadline:
            return False
        await sleep(poll)
        poll = min(2 * poll, LAST_POLL_SECONDS)


def _members(leader: int) -> set[int]:
    """The living processes of a session. Without ``/proc`` the leader stands for its whole group."""
    if not sys.platform.startswith("linux"):
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {leader}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_member(entry, leader):
            found.add(int(entry.name))
    return found


def _is_member(entry: Path, leader: int) -> bool:
    try:
        stat = (entry / "stat").read_bytes()
    except OSError:
        return False
    # pid (name) state ppid pgrp session ...: the name may hold spaces and parentheses, so count from the last one.
    state, _, _, session = stat[stat.rfind(b")") + 2 :].split(b" ", 4)[:4]
    return int(session) == leader and state not in {b"Z", b"X"}
