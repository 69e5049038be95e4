"""Which commit and branch a folder is at, read from git's files without starting git."""

from __future__ import annotations

import re
from pathlib import Path

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def git_head(folder: Path) -> tuple[str | None, str | None]:
    """Commit and branch; None for what there is not (no repository, no commit yet, detached)."""
    git_dir = _git_dir(folder)
    if git_dir is None:
        return None, None
    head = _line(git_dir / "HEAD")
    if not head.startswith("ref: "):
        return (head if _HASH.fullmatch(head) else None), None
    ref = head.removeprefix("ref: ")
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return _resolved(git_dir, ref), branch


def _git_dir(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        entry = place / ".git"
        if entry.is_dir():
            return entry
        if entry.is_file():  # a worktree or a submodule: the file says where
            return place / _line(entry).removeprefix("gitdir: ")
    return None


def _resolved(git_dir: Path, ref: str) -> str | None:
    shared = git_dir / (_line(git_dir / "commondir") or ".")
    for place in (git_dir, shared):
        found = _line(place / ref)
        if _HASH.fullmatch(found):
            return found
    packed = _text(shared / "packed-refs")
    match = re.search(rf"^({_HASH.pattern}) {re.escape(ref)}$", packed, re.MULTILINE)
    return match.group(1) if match else None


def _line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
