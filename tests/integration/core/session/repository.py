"""A git repository, and the snapshots of a session in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from vibe.core.session.snapshots import Snapshots

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def git(*words: str, cwd: Path, check: bool = True) -> str:
    """Run git and return its output without trailing newlines."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
    ended = subprocess.run(command, cwd=cwd, check=check, capture_output=True, text=True, errors="replace")
    return ended.stdout.rstrip("\n")


def repository(root: Path, files: dict[str, str]) -> Path:
    """Create a repository with one commit of these files."""
    root.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=root)
    write(root, files)
    git("add", "-A", cwd=root)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=root)
    return root


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def snapshots(root: Path, folder: Path) -> Snapshots:
    """Return the snapshots of the session in ``folder``."""
    folder.mkdir(exist_ok=True)
    return Snapshots(root, folder, ENVIRON)


def content(root: Path) -> dict[str, str]:
    """Return the text of every file outside ``.git``."""
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
