"""Worktrees of merged steps, used again: what differs from what git checked out is thrown away, and git does the rest.

Nothing but files is kept of one: git forgets it, and its folder has a name that says it is to be deleted, so that whoever
comes after a killed process deletes it. Whatever is out of the ordinary has a fresh worktree made instead.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from subagents.worktree_admin import make_admin_folder
from subagents.worktree_errors import WorktreeError
from subagents.worktree_folder import WRITTEN, WorktreeFolder, date_ahead, remove_folder
from subagents.worktree_index import Entry, read_index, stamp_of
from subagents.worktree_repository import Base, Repository

MOST_SPARES = 8
"""How many are kept at a time."""

UNSURE_NS = 20_000_000
"""A clock that dates files may stand still for so long: what was written this shortly before the end is written again."""

PLAIN = frozenset({"HEAD", "ORIG_HEAD", "commondir", "gitdir", "index", "logs", WRITTEN})
"""What git puts into its folder of a worktree, if there is nothing to say of that alone."""

ATTRIBUTES = ".gitattributes"
"""Files that tell how others are checked out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What git wrote: its ``index`` as it was then, ``written_ns``, each folder's mode, and what it went by."""

    index: bytes
    written_ns: int
    folder_mode: int
    settings: tuple[object, ...]
    attributes: frozenset[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """A worktree that was put away, at ``path``."""

    path: Path
    checkout: Checkout


class Spares:
    """The worktrees of one run that wait to be used again. Only with the repository's lock held."""

    def __init__(self) -> None:
        self._waiting: list[Spare] = []

    def keep(self, spare: Spare) -> bool:
        """Keep one, unless there are enough."""
        if len(self._waiting) >= MOST_SPARES:
            return False
        self._waiting.append(spare)
        return True

    def create(self, folder: WorktreeFolder, base: Base) -> Checkout | None:
        """Make a worktree, of a spare one if there is any that will do; what is to be known to use it again, if it can be.

        Raises:
            WorktreeError: git or the disk refuses.
        """
        while self._waiting:
            spare = self._waiting.pop()
            try:
                return _take_over(spare, folder, base)
            except (_OddError, OSError, WorktreeError):
                remove_folder(spare.path)
        folder.create(base)
        return note_checkout(folder)

    def give_up(self) -> list[Path]:
        """Keep none any longer; their folders are to be deleted."""
        paths = [spare.path for spare in self._waiting]
        self._waiting.clear()
        return paths


class _OddError(Exception):
    """A worktree that is not to be used again."""


def note_checkout(folder: WorktreeFolder) -> Checkout | None:
    """What a worktree just made has to be compared with when it is used again; None if it must not be."""
    admin, written_ns = folder.admin_folder(), folder.written_ns()
    if admin is None or written_ns == 0 or not sys.platform.startswith("linux"):
        return None  # elsewhere it can't be told who still works in it
    try:
        if not {path.name for path in admin.iterdir()} <= PLAIN:
            return None  # settings or a sparse checkout of its own, or refs that are no files
        index, folder_mode = (admin / "index").read_bytes(), folder.path.stat().st_mode
    except OSError:
        return None
    entries = read_index(index, folder.repository.hash_name)
    if entries is None or ".gitmodules" in entries or not _is_dated_finely(entries):
        return None
    return Checkout(
        index=index,
        written_ns=written_ns,
        folder_mode=folder_mode,
        settings=_settings(folder.repository),
        attributes=frozenset((p, e.oid) for p, e in entries.items() if p.rpartition("/")[2] == ATTRIBUTES),
    )


def _take_over(spare: Spare, folder: WorktreeFolder, base: Base) -> Checkout:
    """Make a spare worktree that of ``folder``.

    Raises:
        _OddError, OSError, WorktreeError: it can't be, or had better not be; nothing is left of it but its files.
    """
    repository, checkout = folder.repository, spare.checkout
    entries = read_index(checkout.index, repository.hash_name)
    if entries is None or _settings(repository) != checkout.settings:
        raise _OddError
    strip(spare.path, checkout, entries)
    if os.path.lexists(folder.path):
        folder.remove()
    # First: whoever finds the folder looks for what git knows of it, but not the other way.
    spare.path.rename(folder.path)
    try:
        return _equip(folder, base, checkout)
    except BaseException:
        folder.remove()
        raise


def _equip(folder: WorktreeFolder, base: Base, checkout: Checkout) -> Checkout:
    """Have git know the folder as a worktree, and write what differs in ``base``."""
    admin = make_admin_folder(folder.repository, folder.path, base.commit, checkout.index)
    date_ahead(admin / "index")  # every file was looked at just now
    folder.check_out(base)
    taken = note_checkout(folder)
    if taken is None or taken.attributes != checkout.attributes:
        raise _OddError
    return taken


def strip(folder: Path, checkout: Checkout, entries: Mapping[str, Entry]) -> None:
    """Take out of a folder all that is not just as git put it there.

    Raises:
        OSError: something can't be taken out.
    """
    if folder.stat().st_mode != checkout.folder_mode:
        folder.chmod(checkout.folder_mode & 0o7777)
    _Stripping(checkout, entries).strip(str(folder), "")


class _Stripping:
    def __init__(self, checkout: Checkout, entries: Mapping[str, Entry]) -> None:
        self._mode = checkout.folder_mode
        self._sure_ns = checkout.written_ns - UNSURE_NS
        self._entries = entries
        self._folders = {path[:end] for path in entries for end, letter in enumerate(path) if letter == "/"}

    def strip(self, folder: str, prefix: str) -> None:
        with os.scandir(folder) as found:
            inside = list(found)
        for entry in inside:
            path = prefix + entry.name
            if not entry.is_dir(follow_symlinks=False):
                if not self._is_untouched(path, entry):
                    os.unlink(entry.path)  # noqa: PTH108  text: thousands of them
            elif path not in self._folders:
                shutil.rmtree(entry.path)
            else:
                if entry.stat(follow_symlinks=False).st_mode != self._mode:
                    os.chmod(entry.path, self._mode & 0o7777)  # noqa: PTH101  as above
                self.strip(entry.path, f"{path}/")

    def _is_untouched(self, path: str, file: os.DirEntry[str]) -> bool:
        entry = self._entries.get(path)
        if entry is None or entry.changed_ns >= self._sure_ns:
            return False
        return stamp_of(file.stat(follow_symlinks=False)) == entry.stamp


def _is_dated_finely(entries: Mapping[str, Entry]) -> bool:
    """Whether the disk dates files more finely than by the second."""
    return any(entry.changed_ns % 1_000_000_000 for entry in entries.values())


def _settings(repository: Repository) -> tuple[object, ...]:
    """What tells whether somebody changed how git checks files out."""
    environ = repository.git.environ
    home = Path(environ.get("HOME", "/"))
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    everywhere = Path(environ.get("GIT_CONFIG_GLOBAL") or home / ".gitconfig")
    files = [repository.common_dir / name for name in ("config", "config.worktree", "info/attributes")]
    files += [
        everywhere,
        own / "config",
        own / "attributes",
        Path("/etc/gitconfig"),
        Path("/etc/gitattributes"),
    ]
    found: list[object] = []
    for file in files:
        seen = None
        with suppress(OSError):
            seen = file.stat()
        found.append(None if seen is None else (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size))
    return tuple(found)
