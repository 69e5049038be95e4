"""Write turns of runs that share a folder for their notes."""

from __future__ import annotations

from pathlib import Path

from vibe.core.session.write_turn import WriteTurn
from vibe.system.files import FolderLocks
from vibe.system.own_places import WRITERS_VARIABLE


def turn_in(
    *folders: Path,
    locks: Path,
    name: str = "run",
    above: str = "",
    patience: float | None = None,
    process: FolderLocks | None = None,
) -> WriteTurn:
    """Return the write turn of a run.

    ``above`` holds the notes of the runs that started it, separated by colons. Without ``process``, the run has its own
    locks.
    """
    note = str(locks / f"{name}.writer")
    environ = {WRITERS_VARIABLE: f"{above}:{note}" if above else note}
    return WriteTurn(folders, name, environ, patience, process)
