"""One process goes on with a session."""

from __future__ import annotations

from vibe.core.session.errors import SessionFolderError, SessionLockedError
from vibe.core.session.folder import SessionFolder
from vibe.core.system.locks import FileLock, holder_of


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
