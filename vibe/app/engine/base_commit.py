"""The commit of a workspace's repository, and the changes between two."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git, without_fetching
from vibe.system.git.discovery import locate


def head_commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """HEAD's commit; None without git, repository or commit. Blocks."""
    answer = _asked(folder, environ, "rev-parse", "--verify", "--quiet", "HEAD")
    return answer.text or None if answer else None


def changed_files(folder: Path, before: str, after: str, environ: Mapping[str, str]) -> tuple[Path, ...] | None:
    """Return the files of the working tree in which two commits differ; None: git can't say. Blocks."""
    top = _asked(folder, environ, "rev-parse", "--show-toplevel")
    answer = _asked(folder, environ, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", before, after, "--")
    return tuple(Path(top.text, name) for name in answer.items) if top and answer else None


def files_of(folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files in the folder that git does not ignore; none: git can't say. Blocks."""
    top = _asked(folder, environ, "rev-parse", "--show-toplevel")
    answer = _asked(folder, environ, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    if top is None or answer is None:
        return
    for name in answer.items:
        if (file := Path(top.text, name)).is_relative_to(folder):
            yield file


def _asked(folder: Path, environ: Mapping[str, str], *words: str) -> GitOutput | None:
    """Return git's answer in the folder's repository; None: there is no repository, or git refuses."""
    try:
        located = locate(folder)
        if located is None:
            return None
        # What a partial clone lacks would be fetched by a program that its settings name.
        surroundings = located.surroundings(without_fetching(git_environ(environ, folder)))
        answer = run_git(GitCall(words=words, folder=located.top, environ=surroundings))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return answer if answer.code == 0 else None
