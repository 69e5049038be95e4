"""One process per plan: an flock on a file of the plan's folder that also names its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from planner.store_errors import PlanLockedError, StoreWriteError


class PlanLock:
    """A held lock; the kernel releases it when the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def acquire(cls, path: Path, plan_id: str) -> PlanLock:
        """Take the lock at once or not at all.

        Raises:
            PlanLockedError: another holder has it, in this process or another.
            StoreWriteError: the lock file can't be made or locked.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreWriteError(path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            os.close(fd)
            raise PlanLockedError(plan_id, _pid_in(path)) from None
        except OSError as error:
            os.close(fd)
            raise StoreWriteError(path, error) from error
        return cls(fd)

    def release(self) -> None:
        """Give it back; a second call does nothing. The file stays: removing it would let two processes hold it."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)


def lock_holder(path: Path) -> int | None:
    """The pid of the living process that says it holds the lock; takes no lock itself, so it is for display only."""
    pid = _pid_in(path)
    if pid is None:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return pid
    return pid


def _pid_in(path: Path) -> int | None:
    try:
        text = path.read_bytes()[:32].strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
