"""Locks of the kernel's: it releases them when their holder ends, however that ends.

Child processes don't inherit them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

POLL_SECONDS = 0.01


@contextmanager
def opened(path: Path | str, flags: int = os.O_RDONLY, folder: int | None = None) -> Generator[int]:
    """A descriptor while the block runs; a file that is made is its user's alone. ``path`` may be seen from ``folder``.

    Raises:
        OSError: it can't be opened.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder at once; False if another has it, in this process or another.

    The lock is of what is open: it is held for as long as the descriptor, or one that ``os.dup`` makes of it.

    Raises:
        OSError: the file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)  # noqa: TID251  the one place
        return True
    return False


def wait_for_lock(descriptor: int, seconds: float, *, shared: bool = False) -> bool:
    """The same, but wait for it; False if another has it all the time. Blocks.

    Raises:
        OSError: the file system has no locks.
    """
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


class FileLock:
    """A held lock on a file that names its holder; one that is ``brief`` takes the file along when it is released."""

    def __init__(self, path: Path, descriptor: int, *, brief: bool = False) -> None:
        self.descriptor = descriptor
        self._path = path
        self._brief = brief

    @classmethod
    def acquire(cls, path: Path, seconds: float = 0, *, brief: bool = False) -> FileLock | None:
        """Take the lock, and wait for it so long; None if another holder has it all that time. Blocks.

        Raises:
            OSError: the file can't be made or locked.
        """
        deadline = time.monotonic() + seconds
        while True:
            with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
                if try_lock(descriptor) and _is_at(descriptor, path):
                    _name_holder(descriptor)
                    return cls(path, os.dup(descriptor), brief=brief)
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)

    @classmethod
    def on_folder(cls, path: Path, *, shared: bool) -> FileLock | None:
        """Lock a folder itself at once, in which nothing is made; None if another holder has it.

        Raises:
            OSError: it can't be opened, or its file system locks no folders.
        """
        with opened(path, os.O_DIRECTORY) as descriptor:
            return cls(path, os.dup(descriptor)) if try_lock(descriptor, shared=shared) else None

    def release(self) -> None:
        """Give it back; a second call does nothing.

        A file that is not brief stays: two processes could hold it else.
        """
        if self.descriptor < 0:
            return
        descriptor, self.descriptor = self.descriptor, -1
        with suppress(OSError):  # whatever the disk says: closing is what releases
            if self._brief:
                self._path.unlink(missing_ok=True)  # before it is free: who gets it then finds that it is gone
            else:
                os.ftruncate(descriptor, 0)
        os.close(descriptor)


class FolderLocks:
    """The locks of a process on folders, which several holders in it may share. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[Path, tuple[FileLock, int]] = {}
        self._lock = Lock()

    def take(self, path: Path, *, beside: bool) -> bool:
        """Lock a folder at once, or share its lock if that may be ``beside`` others in this process.

        False: others have it.

        Raises:
            OSError: see ``FileLock.on_folder``.
        """
        with self._lock:
            lock, users = self._held.get(path, (None, 0))
            if lock is None:
                lock = FileLock.on_folder(path, shared=False)
            elif not beside:
                return False
            if lock is not None:
                self._held[path] = lock, users + 1
            return lock is not None

    def release(self, path: Path) -> None:
        """Give it back; the last of its holders lets others in."""
        with self._lock:
            lock, users = self._held[path]
            if users > 1:
                self._held[path] = lock, users - 1
            else:
                del self._held[path]
                lock.release()


def is_locked(path: Path) -> bool:
    """Return whether another holder has a lock file; False: it may be gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> int | None:
    """The pid in a lock file; for people to read, since it may have ended by now."""
    try:
        text = path.read_bytes()[:32].strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def is_alive(pid: int) -> bool:
    """Return whether there is a process of that number, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _name_holder(descriptor: int) -> None:
    with suppress(OSError):  # a full disk: it is held all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether the locked file is the one at ``path``: its last holder may have removed it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
