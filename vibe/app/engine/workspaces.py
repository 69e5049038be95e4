"""Workspaces: who in this process is in which folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from vibe.core.system.locks import FolderLocks


@dataclass(slots=True, eq=False)
class Hold:
    """A conversation or a plan that is in a folder, until ``release``. ``name`` is what people call it."""

    workspaces: Workspaces
    folder: Path
    name: str
    writing: bool = False
    """It is at work there now."""

    def others(self) -> tuple[str, ...]:
        """Return the names of the others that are writing in the folder now."""
        return self.workspaces.writing_in(self.folder, besides=self)

    def release(self) -> None:
        """Leave the folder. A second call does nothing."""
        self.workspaces.leave(self)


class Workspaces:
    """The folders in which runs of a process are. Any number of them may be in one. Thread-safe."""

    def __init__(self) -> None:
        self.locks = FolderLocks()
        """Those of this process on folders it writes in."""
        self._holds: list[Hold] = []
        self._lock = Lock()

    def enter(self, workspace: Path, name: str) -> Hold:
        """Say that a run is in a folder. Blocks."""
        hold = Hold(self, workspace.resolve(), name)
        with self._lock:
            self._holds.append(hold)
        return hold

    def leave(self, hold: Hold) -> None:
        """See ``Hold.release``."""
        with self._lock, suppress(ValueError):
            self._holds.remove(hold)

    def writing_in(self, folder: Path, *, besides: Hold) -> tuple[str, ...]:
        """Return the names of those that are writing in a folder, but for one."""
        with self._lock:
            return tuple(one.name for one in self._holds if one.writing and one.folder == folder and one is not besides)
