"""One process works in a workspace, one goes on with a session."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vibe.core.session.errors import SessionFolderError, SessionLockedError, WorkspaceLockedError
from vibe.core.session.folder import SessionFolder
from vibe.core.system.locks import FileLock, holder_of


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
