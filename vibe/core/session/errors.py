"""Errors of saved conversations, their files and their locks.

EnvironmentFailure
├── TranscriptError          a conversation can't be read or written (folder.py)
├── SessionFolderError       a session's folder, or the one of all sessions, can't be written or read
├── WorkspaceLockedError     other runs write in the workspace
└── SnapshotError            the files of a workspace can't be recorded or restored
UsageError
└── BrokenSessionError       a session's folder can't be understood
    └── DamagedMetaError     its meta.json is missing or damaged
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as, remedy


class SessionFolderError(EnvironmentFailure):
    """A session's folder, or the one of all sessions, can't be written or read."""

    def __init__(self, path: Path, error: OSError, done: str = "written") -> None:
        problem = f"the session folder {path} can't be {done} ({error.strerror})"
        super().__init__(f"{problem}: {remedy(error)}, or set VIBE_HOME to another folder")


def writing_folder(path: Path) -> AbstractContextManager[None]:
    """Raise system errors of the block as SessionFolderError."""
    return os_error_as(partial(SessionFolderError, path))


class WorkspaceLockedError(EnvironmentFailure):
    """Other runs wrote in the workspace for longer than this one was willing to wait."""


class SnapshotError(EnvironmentFailure):
    """The files of a workspace can't be recorded or restored."""


class BrokenSessionError(UsageError):
    """A session's folder can't be understood."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the session in {path} can't be read: {problem}")


class DamagedMetaError(BrokenSessionError):
    """A session's ``meta.json`` is missing or damaged; its messages may be intact."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, f"{problem}; restore it from a backup, or remove the folder")
        self.problem = problem
