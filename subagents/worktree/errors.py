"""Errors of worktrees.

VibeError
├── UsageError
│   └── WorktreeRefusedError    the repository can't be used for worktree steps now; nothing was done
└── EnvironmentFailure
    └── WorktreeError           a worktree can't be made, committed or merged
        ├── GitFailedError      a git command failed
        ├── StaleTreeError      the user's files are not those that the merge was planned for
        └── MergeRefusedError   a step's work may not be merged
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as, remedy, shortage_in
from vibe.system.plain_text import some_of

NAMES_SHOWN = 5
"""Paths that a sentence names at most."""


class WorktreeRefusedError(UsageError):
    """Worktree steps can't run in the workspace now."""

    def __init__(self, workspace: Path, problem: str, fix: str) -> None:
        super().__init__(f"steps with workspace 'worktree' can't run in {str(workspace)!r}: {problem}; {fix}")


class WorktreeError(EnvironmentFailure):
    """A worktree can't be made, committed or merged."""


def on_disk(path: Path, done: str = "written") -> AbstractContextManager[None]:
    """Raise an OSError in the block as a WorktreeError that ``path`` can't be ``done``."""
    problem = f"{str(path)!r} can't be {done}"
    return os_error_as(lambda error: WorktreeError(f"{problem} ({error.strerror or error}): {remedy(error)}"))


class GitFailedError(WorktreeError):
    """A git command failed; ``problem`` is its own message."""

    def __init__(self, words: Sequence[str], folder: Path, problem: str) -> None:
        command = words[2] if words[0] == "-c" else words[0]
        super().__init__(f"git {command} failed in {str(folder)!r}: {problem}")
        self.__cause__ = shortage_in(problem, folder, *(Path(word) for word in words if word.startswith("/")))


class StaleTreeError(WorktreeError):
    """Files on disk have neither the content that git reported nor the content they are to get."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"{name_some(paths)} would be overwritten, but git does not track the content (ignored, marked as "
            "unchanged, or just changed): move it away and merge the branch"
        )


class MergeRefusedError(WorktreeError):
    """The step's work must not be merged as things are; the message says why and what to do."""


def name_some(paths: Sequence[str]) -> str:
    """Return the paths as part of a sentence: the first few quoted, and the number of the others."""
    return some_of(map(repr, paths), NAMES_SHOWN)
