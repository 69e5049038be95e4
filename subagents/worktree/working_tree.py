"""Disk: what is in the user's working tree, seen as entries of git's; never follows a link."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from subagents.worktree.errors import StaleTreeError
from subagents.worktree.repository import ABSENT, Change, Repository

EXECUTABLE = "100755"
LINK = "120000"


class Disk:
    """Compares files with entries. Most are stored as they are; of the others git is asked, at once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git
        self._stored_as: dict[str, str] = {}

    def due(self, changes: Sequence[Change]) -> list[Change]:
        """The changes still to be made.

        Raises:
            StaleTreeError: a path is neither what it was to be nor what it is to become.
        """
        goes = {change.path for change in changes if change.new_mode == ABSENT}
        unsure = [change for change in changes if not self._is_before(change, goes) and not self._is_after(change)]
        self._ask([change.path for change in unsure])
        stale = [change.path for change in unsure if not self._is_before(change, goes) and not self._is_after(change)]
        if stale:
            raise StaleTreeError(stale)
        return [change for change in changes if self._is_before(change, goes)]

    def all_done(self, changes: Sequence[Change]) -> bool:
        """Return whether all of them have been made."""
        self._ask([change.path for change in changes if not self._is_after(change)])
        return all(self._is_after(change) for change in changes)

    def _is_before(self, change: Change, goes: AbstractSet[str]) -> bool:
        if not self._is_reachable(change.path, goes):
            return False
        if change.old_mode == ABSENT and change.new_mode != ABSENT and (self._repository.top / change.path).is_dir():
            return self._is_emptied(change.path, goes)
        # Whether it may be run does not count: not every file system can tell.
        return self._is_at(change.path, change.old_mode, change.old, exactly=False)

    def _is_after(self, change: Change) -> bool:
        return self._is_at(change.path, change.new_mode, change.new, exactly=True)

    def _is_reachable(self, path: str, goes: AbstractSet[str]) -> bool:
        """Return whether the folders on the way are folders, or missing, or files that go."""
        for parent in reversed(Path(path).parents[:-1]):
            found = _stat(self._repository.top / parent)
            if found is None:
                return True
            if not stat.S_ISDIR(found.st_mode):
                return parent.as_posix() in goes
        return True

    def _is_emptied(self, path: str, goes: AbstractSet[str]) -> bool:
        """Return whether all that a folder holds goes."""
        top = self._repository.top
        files = (Path(folder, name) for folder, _, names in os.walk(top / path) for name in names)
        return all(file.relative_to(top).as_posix() in goes for file in files)

    def _is_at(self, path: str, mode: str, oid: str, *, exactly: bool) -> bool:
        file = self._repository.top / path
        found = _stat(file) if self._is_reachable(path, frozenset()) else None
        if mode == ABSENT or found is None or stat.S_ISDIR(found.st_mode):
            return mode == ABSENT and found is None
        if stat.S_ISLNK(found.st_mode) != (mode == LINK):
            return False
        if exactly and (mode == EXECUTABLE) != bool(found.st_mode & stat.S_IXUSR) and mode != LINK:
            return False
        try:
            data = os.fsencode(file.readlink()) if mode == LINK else file.read_bytes()
        except OSError:
            return False
        return oid in (self._oid(data), self._stored_as.get(path))

    def _ask(self, paths: Sequence[str]) -> None:
        """Have git say how it would store files: line ends may differ, large files be kept elsewhere."""
        top = self._repository.top
        plain = [path for path in paths if (top / path).is_file() and not (top / path).is_symlink()]
        listed = [path for path in plain if "\n" not in path and '"' not in path]
        asked = self._git.ask("hash-object", "--stdin-paths", stdin=_lines(listed)) if listed else None
        if asked is not None and asked.code == 0:
            self._stored_as.update(zip(listed, asked.text.splitlines(), strict=True))

    def _oid(self, data: bytes) -> str:
        digest = hashlib.new(self._repository.hash_name, usedforsecurity=False)
        digest.update(b"blob %d\0" % len(data))
        digest.update(data)
        return digest.hexdigest()


def _lines(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\n" for path in paths)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
