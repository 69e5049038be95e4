"""Finds processes by their session, a variable or their folder, and ends them.

On Linux they are listed in ``/proc``. Elsewhere a session is found by its leader's process group, and nothing by the
other two.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from anyio import sleep, to_thread

LISTS_PROCESSES = os.path.isdir("/proc/self/task")
PR_SET_PDEATHSIG = 1
"""The option of Linux's ``prctl`` that sets the signal a process gets when its parent ends."""
ORPHANED = 1
"""The exit code of a process whose parent is gone."""
GRACE_SECONDS = 2.0
"""Seconds that processes have to end after SIGTERM."""
KILL_SECONDS = 2.0
"""Seconds to wait for processes to be gone after SIGKILL."""
FIRST_POLL_SECONDS = 0.002
"""The first interval between two looks, which is doubled each time."""
LAST_POLL_SECONDS = 0.05
"""The longest interval between two looks."""
ENDED = frozenset({b"Z", b"X"})
"""States of a process that no longer runs."""


class _Stat(NamedTuple):
    """The parts of a process's line in ``/proc`` that are used."""

    has_ended: bool
    session: int
    has_terminal: bool


async def end_session(leader: int) -> None:
    """Send SIGTERM to the whole session that ``leader`` opened, and SIGKILL after 2 s to what is left.

    Returns when all are gone, or 2 s after SIGKILL. A process that opened a session of its own is not found.
    """
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        if await _signal_until_gone(leader, sign, seconds):
            return


async def kill_marked(variable: str, value: str) -> None:
    """Kill all processes started with a variable, which every descendant inherits. Returns when none is left.

    A program that empties its environment on purpose is not found.
    """
    poll = FIRST_POLL_SECONDS
    while found := await to_thread.run_sync(_find, partial(_is_marked, f"{variable}={value}")):
        for pid in found:
            _send(pid, signal.SIGKILL)
        await sleep(poll)
        poll = min(2 * poll, LAST_POLL_SECONDS)


def die_with(parent: int) -> None:
    """Have this process end with its parent, by the kernel if it can. End at once if the parent is gone already."""
    if sys.platform.startswith("linux"):
        import ctypes  # noqa: PLC0415  costs what a start must not

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def kill_in_folder(folder: str) -> None:
    """Kill the processes that work in a folder or below it. Blocks.

    This process is spared, and so are those of a person's own terminal.
    """
    for pid in _find(partial(_works_in, folder)) - {os.getpid()}:
        if (stat := _stat(pid)) is not None and not stat.has_terminal:
            _send(pid, signal.SIGKILL)


def kill_group(leader: int, sign: signal.Signals = signal.SIGKILL) -> None:
    """Send SIGKILL or another signal to a process group. It may be gone, or another user's."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, sign)


async def _signal_until_gone(leader: int, sign: signal.Signals, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    poll = FIRST_POLL_SECONDS
    signalled: set[int] = set()
    if sign is signal.SIGKILL or not LISTS_PROCESSES:
        kill_group(leader, sign)
    while True:
        members = await to_thread.run_sync(_members, leader)
        if not members:
            return True
        # Signal each only once: a second SIGTERM makes some programs abort their clean-up. Late forks get theirs here.
        for member in members - signalled:
            _send(member, sign)
        signalled |= members
        if time.monotonic() >= deadline:
            return False
        await sleep(poll)
        poll = min(2 * poll, LAST_POLL_SECONDS)


def _send(pid: int, sign: signal.Signals) -> None:
    """Send a signal to a process, which may be gone or another user's."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, sign)


def _members(leader: int) -> set[int]:
    """Return the living processes of a session. Without ``/proc``, the leader stands for its whole group."""
    if LISTS_PROCESSES:
        return _find(partial(_is_member, leader))
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, 0)
        return {leader}
    return set()


def _find(belongs: Callable[[int], bool]) -> set[int]:
    """Return the processes for which ``belongs`` is true, or none if the system does not list processes."""
    if not LISTS_PROCESSES:
        return set()
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if belongs(pid)}  # noqa: PTH208  hundreds


def _is_member(leader: int, pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat.session == leader and not stat.has_ended


def _is_marked(mark: str, pid: int) -> bool:
    with suppress(OSError):
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _works_in(folder: str, pid: int) -> bool:
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115  hundreds
    except OSError:
        return False
    return cwd == folder or cwd.startswith(f"{folder}/")


def _stat(pid: int) -> _Stat | None:
    """Return a process's line, or None if it is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The line is "pid (name) state parent group session terminal ...". Split after the last parenthesis, because the
    # name may contain some, too.
    state, _, _, session, terminal = line.rpartition(b")")[2].split()[:5]
    return _Stat(state in ENDED, int(session), terminal != b"0")
