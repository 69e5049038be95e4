"""Restoration: puts the files of a workspace back to a snapshot, but only those an agent changed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Snapshots

SET_ASIDE = "set-aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileConflict:
    """A file that others changed since, too; ``saved_as`` is a copy of what it held."""

    path: str
    saved_as: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """Changes since the snapshot: ``mine`` go back, kept aside first where they are of ``others``, too."""

    mine: AbstractSet[str]
    others: AbstractSet[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Changes made to the files. Paths are relative to ``Snapshots.top``.

    ``skipped`` could not be restored because a git filter stands before them.
    """

    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[FileConflict, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A way back, worked out before anything is touched. Everything here blocks: call it in a thread."""

    snapshots: Snapshots
    tree: str
    restored: tuple[str, ...]
    deleted: tuple[str, ...]
    skipped: tuple[str, ...]
    changed_by_others: frozenset[str]
    aside: Path

    @classmethod
    def prepare(cls, snapshots: Snapshots, current: str, tree: str, blame: Blame, aside: Path) -> Restoration:
        """The way from the ``current`` tree to ``tree``; what is set aside goes into the folder ``aside``.

        Raises:
            SnapshotError: git refuses.
        """
        changes = [change for change in snapshots.changes(current, tree) if change.path in blame.mine]
        wanted = [change.path for change in changes if change.status != "D"]
        filtered = snapshots.filtered_paths(wanted) if wanted else set[str]()
        return cls(
            snapshots=snapshots,
            tree=tree,
            restored=tuple(path for path in wanted if path not in filtered),
            deleted=tuple(change.path for change in changes if change.status == "D"),
            skipped=tuple(sorted(filtered)),
            changed_by_others=frozenset(blame.others),
            aside=aside,
        )

    def carry_out(self) -> Restored:
        """Go it.

        Raises:
            SnapshotError: a file can't be put back, or git refuses.
        """
        top = self.snapshots.top
        try:
            conflicts = tuple(
                FileConflict(path=path, saved_as=_set_aside(top / path, self.aside / path))
                for path in (*self.restored, *self.deleted)
                if path in self.changed_by_others and _exists(top / path)
            )
            for path in self.deleted:
                _remove(top / path, self.snapshots.workspace)
        except OSError as error:
            raise SnapshotError(
                f"{error.filename}: can't be restored ({error.strerror}); fix that and rewind again"
            ) from error
        if self.restored:
            self.snapshots.write_files(self.tree, self.restored)
        return Restored(restored=self.restored, deleted=self.deleted, conflicts=conflicts, skipped=self.skipped)


def aside_folder(folder: Path, now: float) -> Path:
    """Return where what others wrote is kept by a way back that is gone now (unix seconds)."""
    return folder / SET_ASIDE / time.strftime("%Y%m%d-%H%M%S", time.localtime(now))


def _set_aside(path: Path, copy: Path) -> Path:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy, follow_symlinks=False)
    return copy


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _remove(path: Path, workspace: Path) -> None:
    """Remove a file, and the folders it leaves empty."""
    path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == workspace or not parent.is_relative_to(workspace) or any(parent.iterdir()):
            return
        parent.rmdir()
