"""Locks of a repository: one for everything we do in it, and git's own on its index while the user's files change."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from subagents.worktree.errors import MergeRefusedError, WorktreeError
from vibe.core.system.locks import POLL_SECONDS, FileLock

LOCK_NAME = "vibe.lock"
OURS = b"vibe plan run\n"
"""The content of our ``index.lock``: git's own are empty or contain an index."""

PATIENCE_SECONDS = 10.0
"""The time we wait for a git command of the user's to release the index."""


def lock_repository(common_dir: Path, seconds: float = 0) -> FileLock | None:
    """Take the lock of a repository; None if another process, or another plan in this one, has it all that time.

    Blocks.

    Raises:
        WorktreeError: the repository can't be written.
    """
    path = common_dir / LOCK_NAME
    try:
        return FileLock.acquire(path, seconds, brief=True)
    except FileNotFoundError as error:
        problem = f"the repository at {str(common_dir)!r} is missing: restore it, then resume the plan"
        raise WorktreeError(problem) from error
    except OSError as error:
        raise WorktreeError(f"{str(path)!r} can't be locked ({error.strerror}): is it writable?") from error


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
        raise WorktreeError(f"{str(path)!r} can't be created ({error.strerror}): is it writable?") from error
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
    """Remove the lock of a process of ours that was killed.

    Whoever holds the repository's lock knows that it is dead.
    """
    path = git_dir / "index.lock"
    with suppress(OSError):
        if path.read_bytes() == OURS:
            path.unlink()
