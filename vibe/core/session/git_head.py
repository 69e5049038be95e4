"""Which commit and branch a folder is at, read from git's files without starting git."""

from __future__ import annotations

import re
from pathlib import Path

from vibe.core.system.git.discovery import Located, locate, small_text

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def git_head(folder: Path) -> tuple[str | None, str | None]:
    """Commit and branch; None for what there is not (no repository, no commit yet, detached)."""
    try:
        located = locate(folder)
        head = small_text(located.git_dir / "HEAD").strip() if located is not None else ""
    except (OSError, ValueError):
        return None, None
    if located is None or not head.startswith("ref: "):
        return (head if _HASH.fullmatch(head) else None), None
    ref = head.removeprefix("ref: ")
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return _resolved(located, ref), branch


def _resolved(located: Located, ref: str) -> str | None:
    for place in (located.git_dir, located.common_dir):
        try:
            found = small_text(place / ref).strip()
        except (OSError, ValueError):
            continue
        if _HASH.fullmatch(found):
            return found
    packed = _text(located.common_dir / "packed-refs")
    match = re.search(rf"^({_HASH.pattern}) {re.escape(ref)}$", packed, re.MULTILINE)
    return match.group(1) if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
