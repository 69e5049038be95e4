"""The commit a workspace's repository stands at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subagents.worktree_errors import GitFailedError
from subagents.worktree_git import Git, git_environ


def head_commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """HEAD's commit; None without git, repository or commit. Blocks."""
    try:
        answer = Git(folder=folder, environ=git_environ(environ)).ask("rev-parse", "--verify", "--quiet", "HEAD")
    except GitFailedError:
        return None
    return answer.text if answer.code == 0 and answer.text else None
