"""Tells which paths an index loses and which it gets, so that ``git update-index`` takes them as ``git add`` would."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

EFFECTIVE = os.access in os.supports_effective_ids


@dataclass(frozen=True, slots=True)
class SortedPaths:
    """Paths at which no file and no link is now, those at which one is, and those that can't be read."""

    gone: list[str] = field(default_factory=list[str])
    there: list[str] = field(default_factory=list[str])
    closed: list[str] = field(default_factory=list[str])


def sort_paths(top: Path, paths: Iterable[str]) -> SortedPaths:
    """Look at what is at paths below ``top``."""

    @cache
    def is_reached(parent: Path) -> bool:
        """Return whether the way there leads through folders alone."""
        return parent == top or (is_reached(parent.parent) and not parent.is_symlink())

    found = SortedPaths()
    for path in paths:
        file = top / path
        try:
            mode = file.lstat().st_mode if is_reached(file.parent) else 0
        except (FileNotFoundError, NotADirectoryError):
            mode = 0
        except OSError:
            found.closed.append(path)
            continue
        if stat.S_ISREG(mode) and not os.access(file, os.R_OK, effective_ids=EFFECTIVE):
            found.closed.append(path)
        else:
            (found.there if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else found.gone).append(path)
    return found


def stdin_of(paths: Iterable[str]) -> bytes:
    """Paths for ``-z --stdin``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
