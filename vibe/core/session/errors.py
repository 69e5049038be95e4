"""Errors of saved conversations.

EnvironmentFailure
├── TranscriptError          a conversation can't be read or written (transcript.py)
├── SessionFolderError       a session's folder can't be written
├── WorkspaceLockedError     others write in the workspace
├── SessionLockedError       another process goes on with the session
└── SnapshotError            the files of a workspace can't be recorded or restored
UsageError
├── NoSuchSessionError       no session has that id
├── AmbiguousSessionError    several have it
├── BrokenSessionError       its folder can't be understood
└── NoSuchMessageError       a conversation can't be taken back to there
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vibe.system.errors import EnvironmentFailure, UsageError


class SessionFolderError(EnvironmentFailure):
    """The disk refuses a session's folder."""

    def __init__(self, path: Path, error: OSError) -> None:
        problem = f"the session folder {path} can't be written ({error.strerror})"
        super().__init__(f"{problem}: set VIBE_HOME to a writable folder")
        self.path = path


class WorkspaceLockedError(EnvironmentFailure):
    """Others write in the workspace, and did all the time that was waited for them."""


class SessionLockedError(EnvironmentFailure):
    """Another process goes on with the session."""

    def __init__(self, session_id: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"session {session_id} is in use by {holder}: wait for it or stop it")
        self.session_id = session_id
        self.pid = pid


class SnapshotError(EnvironmentFailure):
    """The files of a workspace can't be recorded or restored."""


class NoSuchSessionError(UsageError):
    """No session has an id that begins like this; ``wanted`` empty: the workspace has none at all."""

    def __init__(self, wanted: str, where: Path | None = None) -> None:
        if wanted:
            super().__init__(f"no session {wanted!r}: see `vibe session list`")
        else:
            super().__init__(f"no session to continue in {where}: start one with `vibe -p PROMPT`")
        self.wanted = wanted


class AmbiguousSessionError(UsageError):
    """More than one session has an id that begins like this."""

    def __init__(self, wanted: str, found: Sequence[str]) -> None:
        names = ", ".join(found[:4]) + (" ..." if len(found) > 4 else "")
        super().__init__(f"{wanted!r} matches {len(found)} session ids ({names}): give more of it")
        self.found = tuple(found)


class BrokenSessionError(UsageError):
    """A session's folder can't be understood."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the session in {path} can't be read: {problem}")
        self.path = path
        self.problem = problem


class DamagedMetaError(BrokenSessionError):
    """The meta data of a session are gone or no longer readable; its messages may be whole."""


class NoSuchMessageError(UsageError):
    """A conversation can't be taken back to before this message."""

    def __init__(self, index: int, allowed: Sequence[int]) -> None:
        places = ", ".join(map(str, allowed[-12:])) or "none"
        more = "... " if len(allowed) > 12 else ""
        super().__init__(f"message {index} is not a point to rewind to; choose from {more}{places}")
        self.index = index
