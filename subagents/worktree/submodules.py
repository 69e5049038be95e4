"""Sees whether a step worked in submodules, whose files no worktree commits: such work would be lost without a word."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from subagents.worktree.errors import MergeRefusedError
from subagents.worktree.git import Git
from subagents.worktree.repository import Repository
from vibe.core.system.git.calls import GitCall, run_git, without_fetching
from vibe.core.system.git.discovery import located_at
from vibe.core.system.git.shelter import take_shelter

INDEX_MARK = b"\0\0\xe0\0"
"""The mode of a submodule, as any index has it."""


def check_submodules(repository: Repository, git: Git, admin: Path) -> None:
    """See that a worktree's submodules hold what is committed.

    ``git`` is that of the worktree, ``admin`` its folder there.

    Raises:
        MergeRefusedError: one does not.
        GitFailedError: git refuses.
    """
    if INDEX_MARK not in (admin / "index").read_bytes():
        return
    for path, commit in repository.gitlinks(git).items():
        changed = _changed(git.folder / path, commit, repository)
        if changed:
            raise MergeRefusedError(
                f"the step changed {changed!r} in the submodule {path!r}, which can't be merged: commit it there "
                f"yourself, or "
                "let the step work with workspace 'shared', in the submodule's own folder"
            )


def _changed(folder: Path, commit: str, repository: Repository) -> str:
    """A file in a submodule that is not as its commit has it, or nothing."""
    if folder.is_symlink() or not os.path.lexists(folder / ".git"):
        return next(_files(folder), "")
    try:
        located = located_at(folder)
        if located is None:
            return ".git"
        shelter = take_shelter(located, repository.git.environ, repository.keep, programs=False)
        environ: Mapping[str, str] = without_fetching(shelter.here())
        words = ("status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames")
        status = run_git(GitCall(words=words, folder=folder, environ=environ))
        head = run_git(GitCall(words=("rev-parse", "--verify", "HEAD"), folder=folder, environ=environ))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ".git"
    if status.code != 0 or head.text != commit:
        return ".git"
    return status.items[0][3:] if status.items else ""


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118  text, which may be no name
