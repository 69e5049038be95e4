"""What git says of a workspace at the start of a conversation, asked so that nothing of the repository's own runs."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LINE_LENGTH = 120

_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false")
_RUNS_PROGRAMS = r"^(filter\..*\.(clean|process|smudge)|core\.(fsmonitor|worktree)|includeif\..*|include\.path)$"
_RUNS_AT_CHECKOUT = (
    r"^((filter|merge)\..*\.(clean|process|smudge|driver)|remote\..*\.(uploadpack|vcs)|core\.(fsmonitor|worktree)|"
    r"includeif\..*|include\.path)$"
)
_LFS = "filter.lfs."
LFS_VALUE = re.compile(r"git-lfs [\w %-]+|true")
"""What git-lfs sets its filter to."""
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
"""A partial clone fetches what it lacks on demand, by a program that its configuration names."""
UNTRUSTED = "Status: not asked for, because this untrusted repository's own git configuration could run programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitQuestion:
    """Where to ask, how many commits to tell of, and for how long to wait, in seconds.

    In a repository that is not ``trusted`` nothing is asked that its configuration could turn into a program to run.
    """

    folder: Path
    environ: Mapping[str, str]
    commits: int
    timeout_seconds: float
    trusted: bool


def git_facts(question: GitQuestion) -> str:
    """Branch, main branch, state and recent commits; empty where there is no repository or no git. Blocks."""
    deadline = time.monotonic() + question.timeout_seconds
    heads = _git(
        question, deadline, "for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master"
    )
    if heads is None:
        return ""
    status = _status(question, deadline)
    lines = [*status, *([f"Main branch: {heads.split()[0]}"] if heads.split() else [])]
    if question.commits:
        log = _git(question, deadline, "log", "--oneline", "--no-decorate", "-n", str(question.commits))
        commits = [line for line in (log or "").splitlines() if line.strip()]
        lines.append("Recent commits:" if commits else "Recent commits: none")
        lines.extend(_plain(line) for line in commits)
    return "\n".join(lines)


def _status(question: GitQuestion, deadline: float) -> list[str]:
    if not question.trusted and _may_run_programs(question, deadline):
        return [UNTRUSTED]
    text = _git(question, deadline, "status", "--porcelain=v1", "--branch", "--ignore-submodules=all")
    if text is None:
        return ["Status: unknown, git did not answer in time"]
    head, *changes = text.splitlines() or [""]
    branch = head.removeprefix("## ").removeprefix("No commits yet on ").partition("...")[0]
    state = f"{len(changes)} changed or new files" if changes else "clean"
    return [f"Current branch: {_plain(branch)}", f"Status: {state}"]


def chosen_programs(folder: Path, environ: Mapping[str, str], timeout_seconds: float = 10.0) -> tuple[str, ...]:
    """The settings of a repository's own that have git run programs, or may, when it checks out and merges; blocks.

    Those of git-lfs are left out where they say what it sets them to itself.
    """
    question = GitQuestion(folder=folder, environ=environ, commits=0, timeout_seconds=timeout_seconds, trusted=False)
    deadline = time.monotonic() + timeout_seconds
    found = _git(question, deadline, "config", "--show-scope", "--get-regexp", _RUNS_AT_CHECKOUT)
    if found is None:
        return ("settings that git can't read",)
    own = [line.partition("\t")[2] for line in found.splitlines() if line.split("\t")[0] in {"local", "worktree"}]
    settings = [line.partition(" ") for line in own]
    return tuple(
        dict.fromkeys(
            _plain(name) for name, _, value in settings if not (name.startswith(_LFS) and LFS_VALUE.fullmatch(value))
        )
    )


def _may_run_programs(question: GitQuestion, deadline: float) -> bool:
    """Whether the repository's own configuration names programs that asking for its status would start."""
    found = _git(question, deadline, "config", "--show-scope", "--name-only", "--get-regexp", _RUNS_PROGRAMS)
    return found is None or any(line.split("\t")[0] in {"local", "worktree"} for line in found.splitlines())


def _git(question: GitQuestion, deadline: float, *words: str) -> str | None:
    """What a git command printed; None where it failed or took too long. ``config`` finding nothing is no failure."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
    environ = {**question.environ, **quiet, **_NO_FETCH}
    try:
        ended = subprocess.run(  # noqa: S603  a fixed program and options
            ["git", *_QUIET, *words],  # noqa: S607  the user's git, wherever it is
            cwd=question.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(deadline - time.monotonic(), 0.01),
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if ended.returncode != 0 and not (words[0] == "config" and ended.returncode == 1):
        return None
    return ended.stdout.decode("utf-8", errors="replace")


def _plain(text: str) -> str:
    """A line without control characters, bounded."""
    return "".join(char for char in text if char.isprintable())[:LINE_LENGTH]
