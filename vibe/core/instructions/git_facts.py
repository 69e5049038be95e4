"""Facts from git about a workspace at the start of a conversation; nothing of the repository's own runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from vibe.core.system.git.calls import GitCall, run_git, without_fetching
from vibe.core.system.git.discovery import locate
from vibe.core.system.git.shelter import Shelter, take_shelter

LINE_LENGTH = 120
_STATUS = (
    "status",
    "--porcelain=v1",
    "-z",
    "--branch",
    "--no-renames",
    "--untracked-files=normal",
    "--ignore-submodules=all",
)
_HEADS = ("for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master")
_LOG = ("log", "--oneline", "--no-decorate", "--no-show-signature")
_LIST = ("ls-files", "-z", "--cached", "--deduplicate")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitQuestion:
    """Folder to ask in, number of commits to tell of, and seconds to wait.

    ``keep`` is for the settings that git goes by instead of the repository's own (see ``take_shelter``).
    """

    folder: Path
    environ: Mapping[str, str]
    keep: Path
    commits: int
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GitView:
    """Git's view of a folder. ``facts``: branch, main branch, state and recent commits, as lines.

    ``paths`` are relative to the folder: what git keeps and has not seen deleted, and what is new and not ignored;
    new folders end with a slash. None: it did not say in time.
    """

    facts: str
    paths: tuple[str, ...] | None


def git_view(question: GitQuestion) -> GitView | None:
    """Ask; None where there is no repository, none that git would have made, or no git. Blocks."""
    deadline = time.monotonic() + question.timeout_seconds
    try:
        located = locate(question.folder)
        shelter = take_shelter(located, question.environ, question.keep, programs=False) if located else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    if shelter is None:
        return None
    log = (*_LOG, "-n", str(question.commits)) if question.commits else ()
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = [pool.submit(_git, question, shelter, deadline, words) for words in (_STATUS, _HEADS, log, _LIST)]
        status, heads, commits, listed = (one.result() for one in asked)
    entries = None if status is None else status.split("\0")
    lines = ["Status: unknown, git did not answer in time"] if entries is None else _status(entries)
    lines += [f"Main branch: {heads.split()[0]}"] if heads and heads.split() else []
    if question.commits:
        found = [line for line in (commits or "").splitlines() if line.strip()]
        lines.append("Recent commits:" if found else "Recent commits: none")
        lines.extend(_plain(line) for line in found)
    prefix = Path(question.folder.resolve()).relative_to(shelter.located.top).as_posix()
    return GitView(
        facts="\n".join(lines),
        paths=None
        if listed is None or entries is None
        else _paths(listed, entries, "" if prefix == "." else f"{prefix}/"),
    )


def _status(entries: Sequence[str]) -> list[str]:
    branch = entries[0].removeprefix("## ").removeprefix("No commits yet on ").partition("...")[0]
    changes = sum(1 for entry in entries[1:] if entry)
    state = f"{changes} changed or new files" if changes else "clean"
    return [f"Current branch: {_plain(branch)}", f"Status: {state}"]


def _paths(listed: str, entries: Sequence[str], prefix: str) -> tuple[str, ...]:
    found = dict.fromkeys(path for path in listed.split("\0") if path)
    for entry in entries[1:]:
        state, path = entry[:2], entry[3:]
        if not path.startswith(prefix) or path == prefix:
            continue
        if state == "??":
            found[path.removeprefix(prefix)] = None
        elif "D" in state:
            found.pop(path.removeprefix(prefix), None)
    return tuple(found)


def _git(question: GitQuestion, shelter: Shelter, deadline: float, words: Sequence[str]) -> str | None:
    """Return what a git command printed; None where it failed or took too long."""
    if not words:
        return ""
    seconds = max(deadline - time.monotonic(), 0.01)
    environ = without_fetching(shelter.here())
    try:
        answer = run_git(GitCall(words=tuple(words), folder=question.folder, environ=environ, seconds=seconds))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return answer.out.decode("utf-8", errors="replace") if answer.code == 0 else None


def _plain(text: str) -> str:
    """A line without control characters, bounded."""
    return "".join(char for char in text if char.isprintable())[:LINE_LENGTH]
