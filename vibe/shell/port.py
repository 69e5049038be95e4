"""Needs of a command line's judge and of a shell, as who runs the line meets them: folders, and a ruling."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Protocol


class ToolPermission(StrEnum):
    """Level of a tool, or of one call: it runs, is refused or is asked about."""

    ALWAYS = "always"
    NEVER = "never"
    ASK = "ask"


class Roots(Protocol):
    """The folders in which lines run, and what of the file system is inside."""

    @property
    def root(self) -> Path:
        """The folder lines begin in, without links."""
        ...

    def resolve(self, path: str) -> Path:
        """Return where ``path``, relative to ``root``, leads: inside or not.

        Raises:
            VibeError: it leads nowhere.
        """
        ...

    def contains(self, resolved: Path, *, write: bool = False) -> bool:
        """Return whether a resolved path may be read, or written."""
        ...

    def relative(self, path: Path) -> str:
        """The path as people name it: relative to ``root`` if it is below, else whole."""
        ...
