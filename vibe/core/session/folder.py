"""SessionFolder: where one conversation is kept: ``meta.json``, ``messages.jsonl``, whole outputs, and its lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vibe.core.session.errors import SessionFolderError, SessionLockedError
from vibe.core.session.meta import SessionMeta, write_meta
from vibe.core.system.locks import FileLock, holder_of


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """One session's folder; other users can't read it."""

    path: Path

    @classmethod
    def begin(cls, sessions: Path, meta: SessionMeta) -> SessionFolder:
        """Make the folder of a new session and write what it is about.

        Raises:
            SessionFolderError: it can't be written.
        """
        folder = cls(sessions / meta.session_id)
        try:
            folder.path.mkdir(parents=True, mode=0o700)
            write_meta(folder.path, meta)
        except OSError as error:
            raise SessionFolderError(folder.path, error) from error
        return folder

    @property
    def transcript(self) -> Path:
        """The conversation, one message a line."""
        return self.path / "messages.jsonl"

    @property
    def outputs(self) -> Path:
        """Tool outputs that were too long for the conversation."""
        return self.path / "outputs"

    @property
    def lock(self) -> Path:
        """Held by the process that goes on with the session."""
        return self.path / "lock"


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
