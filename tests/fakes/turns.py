"""Turns to write, of runs that share a folder for their notes."""

from __future__ import annotations

from pathlib import Path

from vibe.core.session.write_turn import WRITERS_VARIABLE, WriteTurn
from vibe.system.files import FolderLocks


def turn_in(
    *folders: Path,
    locks: Path,
    name: str = "run",
    above: str = "",
    patience: float | None = None,
    process: FolderLocks | None = None,
) -> WriteTurn:
    """The turn of a run of this name; ``above`` are the notes of those that started it, ``process`` None: its own."""
    note = str(locks / f"{name}.writer")
    environ = {WRITERS_VARIABLE: f"{above}:{note}" if above else note}
    return WriteTurn(folders, name, environ, patience, process)
