"""Empty folders and files that stand where no command may make anything, and go with the last command."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vibe.shell.sandbox.control import FOLDERS
from vibe.system.locks import try_lock, wait_for_lock

LOCK_SECONDS = 5.0
"""The time to wait for another process that takes one away: that is done in an instant."""

MARK = stat.S_ISVTX
"""The mode bit that tells ours from files of a user: set in the instant that they are made, it says nothing about
empty ones."""


class Placeholders:
    """Placeholders that exist as long as a process uses them; where a file of the user's stands, there is none.

    Each is locked by all its users, so that only the last one takes it away, and none in use is taken for abandoned.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        held = [(path, lock) for path in paths if (lock := _placed(path)) is not None]
        self.release = weakref.finalize(self, _release, held)
        self._held = frozenset(_which(lock) for _, lock in held)

    def are_among(self, others: Placeholders) -> bool:
        """Return whether releasing these takes none away, as long as ``others`` are not released."""
        return self._held <= others._held


def _which(lock: int) -> tuple[int, int]:
    found = os.fstat(lock)
    return found.st_dev, found.st_ino


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove those of ``paths`` that are placeholders no process uses: runs that were killed left them."""
    _release((path, lock) for path in paths if (lock := _opened(path)) is not None)


def _placed(path: Path) -> int | None:
    while True:
        try:
            made = _made(path)
        except OSError:
            return None
        lock = _opened(path, anyhow=made)
        if lock is None:
            if os.path.lexists(path):
                return None
            continue  # the last one to hold it took it away just now
        with suppress(OSError):  # where there are no locks, it is not removed either
            wait_for_lock(lock, LOCK_SECONDS, shared=True)
        if _is_at(lock, path):
            return lock
        os.close(lock)  # as above


def _made(path: Path) -> bool:
    """Return whether it is there now and was not before."""
    try:
        if path.name in FOLDERS:
            path.mkdir(0o777 | MARK)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666 | MARK))
    except FileExistsError:
        return False
    return True


def _opened(path: Path, *, anyhow: bool = False) -> int | None:
    """Return what stands there, if it is a placeholder.

    ``anyhow``: it is one, even where the file system keeps no mark.
    """
    try:
        if not anyhow and not _is_ours(path, path.lstat()):
            return None
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    if anyhow or _is_ours(path, os.fstat(lock)):
        return lock
    os.close(lock)
    return None


def _is_ours(path: Path, found: os.stat_result) -> bool:
    is_kind = stat.S_ISDIR if path.name in FOLDERS else stat.S_ISREG
    return is_kind(found.st_mode) and bool(found.st_mode & MARK) and found.st_uid == os.geteuid()


def _release(held: Iterable[tuple[Path, int]]) -> None:
    for path, lock in held:
        with suppress(OSError):
            if try_lock(lock) and _is_at(lock, path):
                _remove_empty(path, lock)
        os.close(lock)


def _remove_empty(path: Path, lock: int) -> None:
    found = os.fstat(lock)
    if stat.S_ISDIR(found.st_mode):
        with suppress(OSError):
            path.rmdir()
    elif not found.st_size:
        path.unlink()
    if _is_at(lock, path):  # another process put something in there, so it is theirs now
        os.fchmod(lock, stat.S_IMODE(found.st_mode) & ~MARK)


def _is_at(lock: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(lock), path.lstat())
    return False
