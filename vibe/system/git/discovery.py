"""Finds a folder's repository as git would, without starting git.

Layouts that git might read differently are refused.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from vibe.system.files import opened, text_of

MOST_BYTES = 4096
"""The most bytes of the small files that say where things are."""

BARE = "looks like a repository without a working tree"
"""The problem of a folder that git may take for a repository itself."""

_LINK = re.compile(r"gitdir: ([^\0\n\r]*[^\0\n\r\t ])\n?")
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_HEAD = re.compile(r"(?:ref: refs/[^\0\n\r\t ]+|[0-9a-f]{40}|[0-9a-f]{64})\n?")


class OddRepositoryError(ValueError):
    """A repository has a layout that git itself never makes."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{str(path)!r} {problem}")
        self.path = path
        self.problem = problem


class LocatedRepository(Struct, frozen=True, kw_only=True):
    """A working tree at ``top``, its git folder, and the folder it shares with other worktrees, usually the same."""

    top: Path
    git_dir: Path
    common_dir: Path

    def surroundings(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return variables for git commands that only read and start no programs.

        Git does not search for the repository.
        """
        where = {"GIT_DIR": self.git_dir, "GIT_COMMON_DIR": self.common_dir, "GIT_WORK_TREE": self.top}
        return {**environ, **{name: str(path) for name, path in where.items()}}


def locate(folder: Path) -> LocatedRepository | None:
    """Return the repository that a folder belongs to, or None. Reads the file system.

    Raises:
        OddRepositoryError: git might find another one, or fail.
        OSError: something can't be read.
    """
    start = Path(os.path.realpath(folder))
    for place in (start, *start.parents):
        found = located_at(place)
        if found is not None:
            return found
        if _looks_bare(place):
            raise OddRepositoryError(place, BARE)
    return None


def located_at(top: Path) -> LocatedRepository | None:
    """Return the repository whose working tree is ``top``, or None if that has no ``.git``.

    Raises:
        OddRepositoryError, OSError: as for ``locate``.
    """
    entry = top / ".git"
    mode = _mode(entry)
    if mode is None:
        if os.path.lexists(entry):
            raise OddRepositoryError(entry, "is a dangling link")
        return None
    if stat.S_ISDIR(mode):
        git_dir = Path(os.path.realpath(entry))
    elif stat.S_ISREG(mode):
        named = _LINK.fullmatch(small_text(entry))
        if named is None:
            raise OddRepositoryError(entry, "is a file that does not clearly name a repository")
        git_dir = Path(os.path.realpath(top / named[1]))
    else:
        raise OddRepositoryError(entry, "is neither a folder nor a file")
    common_dir = _common_dir(git_dir)
    _check(git_dir, common_dir)
    return LocatedRepository(top=top, git_dir=git_dir, common_dir=common_dir)


def small_text(path: Path) -> str:
    """Return the content of a small file.

    Raises:
        OddRepositoryError: it is not a regular file, or too large.
        OSError: it can't be read.
    """
    with opened(path, os.O_NONBLOCK) as descriptor:
        data = os.read(descriptor, MOST_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    if data is None or len(data) > MOST_BYTES:
        raise OddRepositoryError(path, "is not a small regular file")
    return os.fsdecode(data)


def _common_dir(git_dir: Path) -> Path:
    """Return the folder that worktrees share. For a linked one, only the place where git puts it is accepted."""
    link = git_dir / "commondir"
    if not os.path.lexists(link):
        return git_dir
    common = Path(os.path.realpath(git_dir / small_text(link).rstrip("\r\n")))
    if git_dir.parent != common / "worktrees" or not os.path.isfile(git_dir / "gitdir"):
        raise OddRepositoryError(link, "names a folder git would not use")
    return common


def _check(git_dir: Path, common_dir: Path) -> None:
    head = git_dir / "HEAD"
    if os.path.islink(head) or not os.path.isfile(head) or not _HEAD.fullmatch(small_text(head)):
        raise OddRepositoryError(head, "is not a valid HEAD")
    for name in ("objects", "refs"):
        if not os.path.isdir(common_dir / name):
            raise OddRepositoryError(common_dir, f"has no folder {name!r} but should be a repository")
    if not os.path.isfile(common_dir / "config"):
        raise OddRepositoryError(common_dir, "has no config but should be a repository")


def _looks_bare(place: Path) -> bool:
    """Return whether git may take the folder itself for a repository."""
    return os.path.lexists(place / "HEAD") and any(
        os.path.lexists(place / name) for name in ("objects", "refs", "commondir")
    )


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def git_head(folder: Path) -> tuple[str | None, str | None]:
    """Return the commit and the branch that a folder is at, without starting git.

    Either is None if there is no repository, no commit yet, or no branch.
    """
    try:
        located = locate(folder)
        head = small_text(located.git_dir / "HEAD").strip() if located is not None else ""
    except (OSError, ValueError):
        return None, None
    if located is None or not head.startswith("ref: "):
        return (head if _HASH.fullmatch(head) else None), None
    ref = head.removeprefix("ref: ")
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return _resolved(located, ref), branch


def _resolved(located: LocatedRepository, ref: str) -> str | None:
    for place in (located.git_dir, located.common_dir):
        try:
            found = small_text(place / ref).strip()
        except (OSError, ValueError):
            continue
        if _HASH.fullmatch(found):
            return found
    packed = text_of(located.common_dir / "packed-refs")
    match = re.search(rf"^({_HASH.pattern}) {re.escape(ref)}$", packed, re.MULTILINE)
    return match.group(1) if match else None
