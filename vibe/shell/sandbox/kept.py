"""Restores files that a command must not create or change, after it has ended, if its sandbox can't protect them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from vibe.shell.sandbox.control import WORKTREE_FILES
from vibe.system.files import entries_of

MOST_BYTES = 1024 * 1024
"""Maximum size in bytes of a file that is put back."""
MOST_FILES = 2_000
"""Maximum number of files whose contents are kept."""
FEW_PATHS = 100
"""Number of paths that can be looked at in less time than a thread takes to start."""


class KeptPaths:
    """The state of some paths below ``root`` before a command: absent, links, or, for ``contents``, files and folders.

    No confined program may run any more when they are put back. Whatever is in their place then is renamed, not lost.
    """

    def __init__(self, root: Path, paths: Iterable[Path], contents: Iterable[Path] = ()) -> None:
        self._root = root
        self._absent = _absent(paths)
        self._links = {path: str(path.readlink()) for path in paths if os.path.islink(path)}
        self._files: dict[Path, tuple[int, bytes]] = {}
        """The mode and the contents of each file."""
        self._folders: dict[Path, tuple[int, int]] = {}
        self._closed: list[Path] = []
        for path in contents:
            if os.path.lexists(path) and not os.path.islink(path):
                self._keep(path)

    def is_as_it_was(self) -> bool:
        """Return whether nothing has changed. False too if finding out takes many looks or reading files."""
        if self._files or self._folders or len(self._absent) + len(self._links) > FEW_PATHS:
            return False
        return not any(map(os.path.lexists, self._absent)) and not any(map(self._is_other, self._links))

    def put_back(self) -> str:
        """Put everything back, and return notes about what was changed, usually ""."""
        made = filter(os.path.lexists, self._absent)  # looked at once no link is in the place of a folder
        notes = [*self._restore_folders(), *(self._move_aside(path, "make") for path in made)]
        for path, target in self._links.items():
            if self._is_other(path):
                notes.append(self._move_aside(path, "change"))
                with suppress(OSError):
                    path.symlink_to(target)
        notes += self._restore_files()
        for folder in self._closed:
            new = [path for path in _entries(folder) if path not in self._files and path not in self._folders]
            notes += [self._move_aside(path, "make") for path in new if path not in self._links]
        return "\n".join(filter(None, notes))

    def written(self) -> dict[str, Any]:
        """Return the state as plain data for JSON. ``read`` is the inverse."""
        return {
            "root": str(self._root),
            "absent": [*map(str, self._absent)],
            "links": {str(path): target for path, target in self._links.items()},
            "files": {str(path): [mode, data.decode("latin-1")] for path, (mode, data) in self._files.items()},
            "folders": {str(path): number for path, number in self._folders.items()},
            "closed": [*map(str, self._closed)],
        }

    @classmethod
    def read(cls, written: dict[str, Any]) -> KeptPaths:
        """Restore the state from what ``written`` returned."""
        kept = cls(Path(written["root"]), ())
        kept._absent = [*map(Path, written["absent"])]
        kept._links = {Path(path): target for path, target in written["links"].items()}
        kept._files = {Path(path): (mode, data.encode("latin-1")) for path, (mode, data) in written["files"].items()}
        kept._folders = {Path(path): (device, number) for path, (device, number) in written["folders"].items()}
        kept._closed = [*map(Path, written["closed"])]
        return kept

    def _is_other(self, link: Path) -> bool:
        return not os.path.islink(link) or str(link.readlink()) != self._links[link]

    def _keep(self, path: Path) -> None:
        for parent in path.parents:
            if parent == self._root or not parent.is_relative_to(self._root):
                break
            self._note_folder(parent)
        if os.path.isdir(path):
            self._note_folder(path)
            self._closed.append(path)
            for entry in _entries(path):
                if not entry.is_symlink() and len(self._files) < MOST_FILES:
                    self._keep(entry)
        elif os.path.isfile(path) and path.stat().st_size <= MOST_BYTES:
            with suppress(OSError):
                self._files[path] = stat.S_IMODE(path.stat().st_mode), path.read_bytes()

    def _note_folder(self, path: Path) -> None:
        found = path.lstat()
        self._folders[path] = (found.st_dev, found.st_ino)

    def _restore_folders(self) -> Iterator[str]:
        for path in sorted(self._folders):
            if self._is_same_folder(path):
                continue
            if os.path.lexists(path):
                yield self._move_aside(path, "change")
            moved = next((entry for entry in _entries(path.parent) if self._is_same_folder(entry, path)), None)
            if moved is not None:
                with suppress(OSError):
                    moved.rename(path)
            elif path in self._closed:
                with suppress(OSError):
                    path.mkdir()
                    self._note_folder(path)

    def _restore_files(self) -> Iterator[str]:
        for path, (mode, data) in self._files.items():
            is_elsewhere = path.parent != self._root and not self._is_same_folder(path.parent)
            if is_elsewhere or _is_unchanged(path, mode, data):
                continue
            if os.path.lexists(path):
                yield self._move_aside(path, "change")
            with suppress(OSError):
                descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, mode)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                path.chmod(mode)

    def _is_same_folder(self, path: Path, was: Path | None = None) -> bool:
        with suppress(OSError):
            found = path.lstat()
            return stat.S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) == self._folders.get(was or path)
        return False

    def _move_aside(self, path: Path, what: str) -> str:
        """Rename what is at ``path`` and return a note. It is moved out of folders in which any file counts."""
        aside = path.with_name(f"{path.name}-{uuid4().hex[:8]}")
        if any(folder in path.parents for folder in self._closed):
            aside = self._root / aside.name
        try:
            path.rename(aside)
        except OSError as error:
            return f"[{path.name} decides what runs later, and could not be moved aside: {error.strerror}]"
        shown = aside.relative_to(self._root) if aside.is_relative_to(self._root) else aside
        return f"[{path.name} decides what runs later, so commands can't {what} it: it is {shown} now]"


def _absent(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that don't exist, except those of a git worktree that has been removed since they were named.

    Whoever removes a worktree may make it again under the same name, and no command could have made it.
    """
    absent = [path for path in paths if not os.path.lexists(path)]
    removed = {path.parent for path in absent if path.name in WORKTREE_FILES and path.parent.parent.name == "worktrees"}
    return [path for path in absent if removed.isdisjoint(path.parents)] if removed else absent


def _is_unchanged(path: Path, mode: int, data: bytes) -> bool:
    with suppress(OSError):
        found = path.lstat()
        alike = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
        return alike and found.st_size == len(data) and path.read_bytes() == data
    return False


def _entries(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in entries_of(folder))
