"""Workspaces: who in this process works in which folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from vibe.core.session.lock import lock_workspace
from vibe.core.system.locks import FileLock


@dataclass(slots=True, eq=False)
class Hold:
    """A folder held by a conversation or a plan, until ``release``. ``name`` is what people call the holder."""

    workspaces: Workspaces
    folder: Path
    name: str
    writing: bool = False
    """It is at work there now."""

    def others(self) -> tuple[str, ...]:
        """Return the names of the others that are writing in the folder now."""
        return self.workspaces.writing_in(self.folder, besides=self)

    def release(self) -> None:
        """Leave the folder; the last to leave lets other processes in. A second call does nothing."""
        self.workspaces.leave(self)


@dataclass(slots=True)
class _Folder:
    holds: list[Hold] = field(default_factory=list[Hold])
    lock: FileLock | None = None


class Workspaces:
    """The held folders of a process. Any number of its runs may hold one; another process none of them. Thread-safe."""

    def __init__(self) -> None:
        self._folders: dict[Path, _Folder] = {}
        self._lock = Lock()

    def hold(self, workspace: Path, name: str, locks: Path) -> Hold:
        """Hold a folder, to write in it; ``locks`` is the folder of the lock files. Blocks.

        Raises:
            WorkspaceLockedError: another process holds it.
            SessionFolderError: the lock can't be made.
        """
        folder = workspace.resolve()
        with self._lock:
            held = self._folders.get(folder) or _Folder()
            if held.lock is None:
                held.lock = lock_workspace(locks, folder)
            self._folders[folder] = held
            return self._enter(folder, name)

    def note(self, workspace: Path, name: str) -> Hold:
        """Say that a run works in a folder which it does not keep from other processes. Blocks."""
        folder = workspace.resolve()
        with self._lock:
            self._folders.setdefault(folder, _Folder())
            return self._enter(folder, name)

    def leave(self, hold: Hold) -> None:
        """See ``Hold.release``."""
        with self._lock:
            held = self._folders.get(hold.folder)
            if held is None or hold not in held.holds:
                return
            held.holds.remove(hold)
            if not held.holds:
                del self._folders[hold.folder]
                if held.lock is not None:
                    held.lock.release()

    def writing_in(self, folder: Path, *, besides: Hold) -> tuple[str, ...]:
        """Return the names of those that are writing in a folder, but for one."""
        with self._lock:
            held = self._folders.get(folder)
            return tuple(hold.name for hold in held.holds if hold.writing and hold is not besides) if held else ()

    def _enter(self, folder: Path, name: str) -> Hold:
        hold = Hold(self, folder, name)
        self._folders[folder].holds.append(hold)
        return hold
