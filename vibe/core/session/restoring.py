"""Restoration: restores the files of a workspace to an earlier point, but only those changed by whom it undoes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from vibe.core.config.paths import in_utf8
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import MOST_BYTES, NAMES_SHOWN, PathState, Point, Snapshots, files_after, parents
from vibe.system.files import PRIVATE, folder_below, opened, overwrite, put_entry
from vibe.system.grouping import by_key
from vibe.system.plain_text import some_of

SET_ASIDE = "set-aside"
NOT_KEPT = "it could not be read, or was over 10 MB, when the files were recorded"
NOT_THERE = "its copy is gone"
ACCESSIBLE = stat.S_IRWXU
"""The permissions a folder needs while files in it are restored."""


class FileConflict(Struct, frozen=True, kw_only=True):
    """A restored file that others had changed, too; ``saved_as`` is a copy of its content before."""

    path: str
    saved_as: Path


class Blame(Struct, frozen=True, kw_only=True):
    """The paths changed since a point: ``mine`` are restored, after a copy is set aside if ``others`` changed them."""

    mine: AbstractSet[str]
    others: AbstractSet[str]


class FileBack(Struct, frozen=True, kw_only=True):
    """A file that would be restored, with its text then and now.

    A text is None if there is no such file, and empty if the content is not text. ``by_others`` is true if others
    changed the file, too.
    """

    path: str
    before: str | None
    now: str | None
    by_others: bool = False


class RestoredFiles(Struct, frozen=True, kw_only=True):
    """The changes made to files; paths are printable and relative to the workspace.

    ``skipped`` are the files that could not be restored, each with the reason.
    """

    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[FileConflict, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict["str", "str"])


class Restoration:
    """Restores the files from the last of ``points``, which shows them as they are, to the point at ``start``.

    Everything is planned before any file is touched. ``blame`` gets all points from ``start`` on and says whose
    changes they are. Copies are set aside in the folder ``aside``. All methods block: call them in a thread.

    Raises:
        SnapshotError: there are files to restore, but none of them can be.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        points: Sequence[Point],
        start: int,
        blame: Callable[[Sequence[Point]], Blame],
        aside: Path,
    ) -> None:
        self._top, self._store, self._aside = snapshots.workspace, snapshots.store, aside
        self._before, now, blamed = files_after(points[: start + 1]), files_after(points), blame(points[start:])
        self._changed_by_others = blamed.others
        self._wanted: dict[str, PathState | None] = {}
        """The state each path should get; None if it should be gone."""
        for path in sorted(blamed.mine):
            kept, found = self._before.get(path), now.get(path)
            if not (kept is found if kept is None else kept.is_like(found)):
                self._wanted[path] = kept
        if self._wanted and all(kept is not None and not kept.is_whole for kept in self._wanted.values()):
            names = some_of(map(repr, self._wanted), NAMES_SHOWN)
            raise SnapshotError(f"nothing was put back: {names}: {NOT_KEPT}")
        self._skipped = {path: NOT_KEPT for path, kept in self._wanted.items() if kept and not kept.is_whole}
        self._conflicts: list[FileConflict] = []
        self._kept_folders: set[str] = set()
        """Folders that should be gone but stay, since they contain unrecorded files."""
        self._modes: dict[str, int] = {}
        """The permissions that folders get at the end."""

    def carry_out(self) -> RestoredFiles:
        """Restore the files. Those that can't be restored are left as they are and listed in the result."""
        wanted = self._wanted
        self._each(wanted, self._set_aside)
        self._each(sorted(wanted, reverse=True), self._make_room)
        self._each((path for path, kept in wanted.items() if kept and kept.is_folder), self._make_folder)
        self._write_files({path: kept for path, kept in wanted.items() if kept and kept.blob})
        for folder in sorted(self._modes, reverse=True):
            with suppress(OSError):
                (self._top / folder).chmod(self._modes[folder])
        done = [path for path in wanted if path not in self._skipped and path not in self._kept_folders]
        folders = {parent for path in done for parent in parents(path)}
        shown = [(path, wanted[path]) for path in done if path not in folders]
        return RestoredFiles(
            restored=tuple(in_utf8(path or ".") for path, kept in shown if kept is not None),
            deleted=tuple(in_utf8(path) for path, kept in shown if kept is None),
            conflicts=tuple(self._conflicts),
            skipped={in_utf8(path): reason for path, reason in sorted(self._skipped.items())},
        )

    def outlook(self) -> list[FileBack]:
        """Return the files that would be restored, without touching any.

        Raises:
            SnapshotError: git can't be run.
        """
        wanted = {path: kept for path, kept in self._wanted.items() if path not in self._skipped}
        blobs = dict(self._store.get({kept.blob: kept.size for kept in wanted.values() if kept and kept.blob}))
        then = {
            path: None if kept is None else _as_text(blobs.get(kept.blob, b""))
            for path, kept in wanted.items()
            if kept is None or kept.blob
        }
        others = self._changed_by_others
        files = (
            FileBack(path=in_utf8(path), before=before, now=self._text(path), by_others=path in others)
            for path, before in then.items()
        )
        return [file for file in files if file.before is not None or file.now is not None]

    def _text(self, path: str) -> str | None:
        """Return the text of a file, or None if there is no such file."""
        found = self._status(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        return _as_text((self._top / path).read_bytes()) if found.st_size <= MOST_BYTES else ""

    def _each(self, paths: Iterable[str], act: Callable[[str], None]) -> None:
        """Call ``act`` for each path; a path for which that fails is skipped from then on."""
        for path in paths:
            if path in self._skipped:
                continue
            try:
                act(path)
            except OSError as error:
                self._skipped[path] = error.strerror or str(error)

    def _set_aside(self, path: str) -> None:
        """Copy a file that others changed."""
        file, copy = self._top / path, self._aside / path
        found = self._status(path) if path in self._changed_by_others else None
        if found is None or stat.S_ISDIR(found.st_mode):
            return
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            raise OSError(errno.EINVAL, "what others put there can't be copied")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy, follow_symlinks=False)
        self._conflicts.append(FileConflict(path=in_utf8(path), saved_as=copy))

    def _make_room(self, path: str) -> None:
        """Remove a path that should be gone or become another kind of file; folders with other files in them stay."""
        kept, found = self._wanted[path], self._status(path)
        if found is None or (kept and stat.S_IFMT(kept.mode) == stat.S_IFMT(found.st_mode)):
            return
        self._make_accessible(path)
        if not stat.S_ISDIR(found.st_mode):
            with folder_below(self._top, path) as (folder, name):
                os.unlink(name, dir_fd=folder)
            return
        try:
            (self._top / path).rmdir()
        except OSError as error:
            if kept is not None or error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            self._kept_folders.add(path)
        else:
            self._modes.pop(path, None)

    def _make_folder(self, path: str) -> None:
        self._make_accessible(path)
        with suppress(FileExistsError):
            (self._top / path).mkdir()
        self._modes[path] = stat.S_IMODE(self._before[path].mode)

    def _write_files(self, files: Mapping[str, PathState]) -> None:
        paths = by_key((kept.blob, path) for path, kept in files.items())
        sizes = {kept.blob: kept.size for kept in files.values()}
        for blob, data in self._store.get(sizes):
            self._each(paths.pop(blob, ()), partial(self._write, data=data))
        self._skipped.update({path: NOT_THERE for left in paths.values() for path in left if path not in self._skipped})

    def _write(self, path: str, data: bytes) -> None:
        """Write a file or a link with its content and mode at the point."""
        self._make_accessible(path)
        mode, found = self._before[path].mode, self._status(path)
        with folder_below(self._top, path) as (folder, name):
            if found is None or found.st_nlink > 1 or stat.S_ISLNK(mode):  # in place, its other names would change too
                put_entry(folder, name, data, mode)
                return
            if found.st_mode & PRIVATE != PRIVATE:
                os.chmod(name, stat.S_IMODE(found.st_mode) | PRIVATE, dir_fd=folder)
            overwrite(folder, name, data, sync=False)
            with opened(name, os.O_NOFOLLOW, folder) as file:
                os.fchmod(file, stat.S_IMODE(mode))

    def _make_accessible(self, path: str) -> None:
        """Create the folders above a path, and make them accessible until the restoration is done.

        Raises:
            OSError: something else is in their place, or they belong to another user.
        """
        for folder in reversed(list(parents(path))):
            place = self._top / folder
            with suppress(FileExistsError):
                place.mkdir()
                if folder in self._before:
                    self._modes[folder] = stat.S_IMODE(self._before[folder].mode)
            mode = place.lstat().st_mode
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError(errno.ENOTDIR, f"{folder!r} is not a folder any more")
            if mode & ACCESSIBLE != ACCESSIBLE:
                self._modes.setdefault(folder, stat.S_IMODE(mode))
                place.chmod(stat.S_IMODE(mode) | ACCESSIBLE)

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of a path, or None if nothing is there or the path leads through a link."""
        with suppress(FileNotFoundError, NotADirectoryError), folder_below(self._top, path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        return None


def _as_text(data: bytes) -> str:
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def aside_folder(folder: Path, now: float) -> Path:
    """Return the folder in which a restoration at the time ``now`` (unix seconds) sets files aside."""
    return folder / SET_ASIDE / time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
