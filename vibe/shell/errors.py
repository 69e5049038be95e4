"""Errors raised when running commands.

VibeError
└── CommandStartError          a command could not be started
"""

from __future__ import annotations

from pathlib import Path

from vibe.system.errors import VibeError


class CommandStartError(VibeError):
    """A command could not be started."""

    def __init__(self, cwd: Path, problem: str, advice: str = "") -> None:
        super().__init__(f"can't start a command in {str(cwd)!r}: {'; '.join(filter(None, (problem, advice)))}")
        self.cwd, self.problem = cwd, problem
