"""Types the policy and the shell share with their callers: the folders a line may use, and the levels of permission."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Protocol


class ToolPermission(StrEnum):
    """The permission of a tool or of one call: it always runs, is never run, or needs the user's approval."""

    ALWAYS = "always"
    NEVER = "never"
    ASK = "ask"


class Roots(Protocol):
    """The folder in which lines run, and which paths they may read or write."""

    @property
    def root(self) -> Path:
        """The folder in which lines begin, with links resolved."""
        ...

    def resolve(self, path: str) -> Path:
        """Return the path that ``path``, relative to ``root``, leads to, inside the allowed folders or not.

        Raises:
            VibeError: the path can't be resolved.
        """
        ...

    def contains(self, resolved: Path, *, write: bool = False) -> bool:
        """Return whether a resolved path may be read, or written if ``write`` is set."""
        ...

    def relative(self, path: Path) -> str:
        """Return the path as people write it: relative to ``root`` if it is below it, absolute otherwise."""
        ...
