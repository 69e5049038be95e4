"""Errors of saved conversations.

EnvironmentFailure
├── TranscriptError          a conversation can't be read or written (transcript.py)
├── SessionFolderError       a session's folder can't be written
├── WorkspaceLockedError     others write in the workspace
└── SnapshotError            the files of a workspace can't be recorded or restored
UsageError
└── BrokenSessionError       a session's folder can't be understood
"""

from __future__ import annotations

from pathlib import Path

from vibe.system.errors import EnvironmentFailure, UsageError


class SessionFolderError(EnvironmentFailure):
    """The disk refuses a session's folder."""

    def __init__(self, path: Path, error: OSError) -> None:
        problem = f"the session folder {path} can't be written ({error.strerror})"
        super().__init__(f"{problem}: set VIBE_HOME to a writable folder")


class WorkspaceLockedError(EnvironmentFailure):
    """Others write in the workspace, and did all the time that was waited for them."""


class SnapshotError(EnvironmentFailure):
    """The files of a workspace can't be recorded or restored."""


class BrokenSessionError(UsageError):
    """A session's folder can't be understood."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the session in {path} can't be read: {problem}")
        self.problem = problem


class DamagedMetaError(BrokenSessionError):
    """The meta data of a session are gone or no longer readable; its messages may be whole."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, f"{problem}; restore it from a backup, or remove the folder")
        self.problem = problem
