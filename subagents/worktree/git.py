"""Git in one folder, as worktree steps need it: sheltered, and with failures that say where."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from subagents.worktree.errors import GitFailedError
from vibe.core.system.git.calls import GitCall, GitOutput, run_git

OLDEST = (2, 38)
"""``merge-tree --write-tree`` came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Git in one folder. Every call blocks: make it in a thread.

    ``environ`` is complete (see ``git_environ``); ``locks`` are descriptors that a command keeps open while it runs, so
    that a lock outlives us for as long as it.
    """

    folder: Path
    environ: Mapping[str, str] = field(repr=False)  # it may hold keys
    locks: tuple[int, ...] = ()

    def at(self, folder: Path, git_dir: Path) -> Git:
        """The same git in another worktree of the repository, of which git has its own in ``git_dir``."""
        where = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}
        return replace(self, folder=folder, environ={**self.environ, **where})

    def with_lock(self, descriptor: int) -> Git:
        """The same git, whose commands keep ``descriptor`` open."""
        return replace(self, locks=(*self.locks, descriptor))

    def __call__(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command that has to succeed; ``index`` in place of the folder's own.

        Raises:
            GitFailedError: it failed.
        """
        answer = self.ask(*words, stdin=stdin, index=index)
        if answer.code != 0:
            raise GitFailedError(words, self.folder, answer.problem)
        return answer

    def ask(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command whose failure is an answer, too.

        Raises:
            GitFailedError: it can't be started or takes too long.
        """
        environ = self.environ if index is None else {**self.environ, "GIT_INDEX_FILE": str(index)}
        call = GitCall(words=words, folder=self.folder, environ=environ, stdin=stdin, locks=self.locks)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(words, self.folder, f"it took longer than {call.seconds:.0f} s") from error
        except OSError as error:
            if not self.folder.is_dir():
                raise GitFailedError(words, self.folder, "the folder does not exist") from error
            raise GitFailedError(words, self.folder, error.strerror or str(error)) from error


def git_version(git: Git) -> tuple[int, ...]:
    """The version's numbers; empty if it can't be told.

    Raises:
        GitFailedError: git can't be started.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", git("version").text)
    return tuple(int(number) for number in found.groups() if number) if found else ()
