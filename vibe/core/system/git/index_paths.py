"""Tells which paths an index loses and which it gets, so that ``git update-index`` takes them as ``git add`` would."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path


def gone_and_there(top: Path, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of paths below ``top``, those where no file and no link is now, and the others."""

    @cache
    def is_reached(parent: Path) -> bool:
        """Return whether the way there leads through folders alone."""
        return parent == top or (is_reached(parent.parent) and not parent.is_symlink())

    gone: list[str] = []
    there: list[str] = []
    for path in paths:
        file = top / path
        kept = is_reached(file.parent) and _is_file(file)
        (there if kept else gone).append(path)
    return gone, there


def stdin_of(paths: Iterable[str]) -> bytes:
    """Paths for ``-z --stdin``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _is_file(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
