"""One process per plan, by a lock on a file of its folder."""

from __future__ import annotations

from pathlib import Path

from planner.store.errors import PlanLockedError, StoreWriteError
from vibe.core.system.locks import FileLock, holder_of


def lock_plan(path: Path, plan_id: str) -> FileLock:
    """Take the lock of a plan at once or not at all.

    Raises:
        PlanLockedError: another holder has it, in this process or another.
        StoreWriteError: the lock file can't be made or locked.
    """
    try:
        lock = FileLock.try_acquire(path)
    except OSError as error:
        raise StoreWriteError(path, error) from error
    if lock is None:
        raise PlanLockedError(plan_id, holder_of(path))
    return lock
