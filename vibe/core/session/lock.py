"""FileLock: an flock on a file that also names its holder; one process works in a workspace, one goes on with a session."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from vibe.core.session.errors import SessionFolderError, SessionLockedError, WorkspaceLockedError
from vibe.core.session.folder import SessionFolder


class FileLock:
    """A held lock; the kernel releases it when the process ends, however it ends. Child processes don't inherit it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> FileLock | None:
        """Take the lock at once; None if another holder has it, in this process or another.

        Raises:
            OSError: the file can't be made or locked.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Give it back; a second call does nothing. The file stays: removing it would let two processes hold it."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # whatever the disk says: closing is what releases
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def lock_workspace(locks: Path, workspace: Path) -> FileLock:
    """Be the only process that may write in ``workspace``; ``locks`` is the folder of the lock files.

    Raises:
        WorkspaceLockedError: another is.
        SessionFolderError: the lock can't be made.
    """
    place = workspace.resolve()
    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    path = locks / f"{name}.lock"
    try:
        locks.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = FileLock.try_acquire(path)
    except OSError as error:
        raise SessionFolderError(locks, error) from error
    if held is None:
        raise WorkspaceLockedError(place, holder_of(path))
    return held


def lock_session(folder: SessionFolder) -> FileLock:
    """Be the only process that goes on with a session.

    Raises:
        SessionLockedError: another does.
        SessionFolderError: the lock can't be made.
    """
    try:
        held = FileLock.try_acquire(folder.lock)
    except OSError as error:
        raise SessionFolderError(folder.path, error) from error
    if held is None:
        raise SessionLockedError(folder.path.name, holder_of(folder.lock))
    return held


def holder_of(path: Path) -> int | None:
    """The pid in a lock file; for people to read, since it may have ended by now."""
    try:
        text = path.read_bytes()[:32].strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
