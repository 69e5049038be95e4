"""The commit a workspace's repository stands at."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from vibe.core.system.git.calls import GitCall, git_environ, run_git
from vibe.core.system.git.discovery import locate


def head_commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """HEAD's commit; None without git, repository or commit. Blocks."""
    words = ("rev-parse", "--verify", "--quiet", "HEAD")
    try:
        located = locate(folder)
        if located is None:
            return None
        answer = run_git(GitCall(words=words, folder=located.top, environ=located.surroundings(git_environ(environ))))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return answer.text if answer.code == 0 and answer.text else None
