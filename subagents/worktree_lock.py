"""Locks of a repository: one for everything we do in it, and git's own on its index while the user's files change."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from subagents.worktree_errors import MergeRefusedError, WorktreeError

LOCK_NAME = "vibe.lock"
OURS = b"vibe plan run\n"
"""What our ``index.lock`` holds: git's own are empty or hold an index."""

PATIENCE_SECONDS = 10.0
"""How long we wait for a git command of the user's to let go of the index."""

POLL_SECONDS = 0.01


class RepositoryLock:
    """A held lock. The file goes with it: nothing is left behind."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self.descriptor = descriptor

    @classmethod
    def try_acquire(cls, common_dir: Path) -> RepositoryLock | None:
        """Take the lock at once; None if another process, or another plan in this one, has it.

        Raises:
            WorktreeError: the repository can't be written.
        """
        path = common_dir / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            problem = f"the repository at {str(common_dir)!r} is gone: put it back, then resume the plan"
            raise WorktreeError(problem) from error
        except OSError as error:
            raise WorktreeError(f"{str(path)!r} can't be made ({error.strerror}): is it writable?") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(descriptor, path):
                return cls(path, descriptor)
        except BlockingIOError:
            pass
        except OSError as error:
            os.close(descriptor)
            raise WorktreeError(f"{str(path)!r} can't be locked ({error.strerror})") from error
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Give it back."""
        self._path.unlink(missing_ok=True)  # before it is free: who has waited for it finds that it is gone
        os.close(self.descriptor)


@contextmanager
def index_lock(git_dir: Path, scratch: Path) -> Generator[None]:
    """Hold git's lock on the index, as any git command that writes would. Blocks; only with the repository's lock held.

    ``scratch`` is a folder of ours on the same file system.

    Raises:
        MergeRefusedError: a git command of the user's does not let go of it.
        WorktreeError: the repository can't be written.
    """
    path, draft = git_dir / "index.lock", scratch / "lock"
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        draft.write_bytes(OURS)
        while not _linked(draft, path):  # it is never there without its text, so that it can be told whose it is
            drop_own_index_lock(git_dir)
            if time.monotonic() > deadline:
                raise MergeRefusedError(f"{str(path)!r} is held by a git command: end it, or remove the file")
            time.sleep(POLL_SECONDS)
    except OSError as error:
        raise WorktreeError(f"{str(path)!r} can't be made ({error.strerror}): is it writable?") from error
    try:
        yield
    finally:
        drop_own_index_lock(git_dir)


def _linked(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    return True


def drop_own_index_lock(git_dir: Path) -> None:
    """Remove the lock of a process of ours that was killed; whoever holds the repository's lock knows that it is dead."""
    path = git_dir / "index.lock"
    with suppress(OSError):
        if path.read_bytes() == OURS:
            path.unlink()


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the locked file is the one at ``path``: its last holder removed it."""
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
