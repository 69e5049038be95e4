"""Runs git: the user's program and identity, none of their hooks, and nothing that could ask or be led elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from subagents.worktree_errors import GitFailedError

GIT_SECONDS = 120.0
"""How long one git command may take; a checkout of a large repository takes seconds."""

OLDEST = (2, 38)
"""``merge-tree --write-tree`` came with it."""

_OPTIONS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.safecrlf=false", "gc.auto=0", "maintenance.auto=false",
    "commit.gpgSign=false", "merge.directoryRenames=false", "advice.addEmbeddedRepo=false", "merge.conflictStyle=diff3",
    "submodule.recurse=false", "log.showSignature=false",
)  # fmt: skip

_KEPT = re.compile(r"GIT_(CONFIG_.*|(AUTHOR|COMMITTER)_(NAME|EMAIL)|EXEC_PATH|CEILING_DIRECTORIES|SSL_.*)")
"""Of the variables that steer git, those that say who the user is and where the configuration lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output without its last line break."""
        return os.fsdecode(self.out).rstrip("\n")

    @property
    def items(self) -> list[str]:
        """The parts of a ``-z`` output."""
        return [os.fsdecode(part) for part in self.out.split(b"\0") if part]

    @property
    def problem(self) -> str:
        """What went wrong, in one line."""
        said = [line for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        wrong = next((line for line in said if line.startswith(("fatal:", "error:"))), said[0] if said else "")
        return wrong.partition(": ")[2] if wrong.startswith(("fatal:", "error:")) else wrong or f"exit code {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Git in one folder. Every call blocks: make it in a thread.

    ``environ`` is complete (see ``git_environ``); ``held`` are descriptors that a command keeps open while it runs, so
    that a lock outlives us for as long as it.
    """

    folder: Path
    environ: Mapping[str, str] = field(repr=False)  # it may hold keys
    held: tuple[int, ...] = ()

    def at(self, folder: Path) -> Git:
        """The same git in another folder."""
        return replace(self, folder=folder)

    def holding(self, descriptor: int) -> Git:
        """The same git, whose commands keep ``descriptor`` open."""
        return replace(self, held=(*self.held, descriptor))

    def __call__(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> Answer:
        """Run a command that has to succeed; ``index`` in place of the folder's own.

        Raises:
            GitFailedError: it failed.
        """
        answer = self.ask(*words, stdin=stdin, index=index)
        if answer.code != 0:
            raise GitFailedError(words, self.folder, answer.problem)
        return answer

    def ask(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> Answer:
        """Run a command whose failure is an answer, too.

        Raises:
            GitFailedError: it can't be started or takes too long.
        """
        environ = self.environ if index is None else {**self.environ, "GIT_INDEX_FILE": str(index)}
        options = [word for option in _OPTIONS for word in ("-c", option)]
        try:
            ended = subprocess.run(  # noqa: S603  git, with words of our own
                ["git", *options, *words],  # noqa: S607  the user's git, wherever it is
                cwd=self.folder,
                env=environ,
                input=stdin,
                capture_output=True,
                timeout=GIT_SECONDS,
                check=False,
                pass_fds=self.held,
                start_new_session=True,  # Ctrl-C is for us: what is being merged is merged
            )
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(words, self.folder, f"it took longer than {GIT_SECONDS:.0f} s") from error
        except OSError as error:
            raise GitFailedError(words, self.folder, error.strerror or str(error)) from error
        return Answer(code=ended.returncode, out=ended.stdout, err=ended.stderr)


def git_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's surroundings without what would lead git elsewhere or let it ask."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": ":"}


def git_version(git: Git) -> tuple[int, ...]:
    """The version's numbers; empty if it can't be told.

    Raises:
        GitFailedError: git can't be started.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", git("version").text)
    return tuple(int(number) for number in found.groups() if number) if found else ()


def paths_to_stdin(paths: Sequence[str]) -> bytes:
    """Paths for ``-z --stdin``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
