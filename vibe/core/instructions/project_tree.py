"""Draws the folders and files of a project within a room: upper levels first, every folder with its share."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from vibe.core.system.ignore import DEFAULT_IGNORES, IGNORE_FILE

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_ENTRIES_READ = 10_000
"""Of one folder."""
CUT = "[... more is left out ...]"
MORE = "... {} more"
LEAST_ROOM = 200
"""Characters of one folder's share, if there are as many left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """``chars`` of text, ``files`` in all, ``folders`` of a folder, ``depth`` in levels, ``seconds`` for the disk."""

    chars: int
    files: int
    folders: int
    depth: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """A drawn tree, and whether something was left out."""

    text: str
    cut: bool


@dataclass(slots=True)
class _Folder:
    """``inside``: what is known to be in it, files as None. ``on_disk``: nobody listed it, so the disk is looked at."""

    inside: dict[str, _Folder | None] = field(default_factory=dict[str, "_Folder | None"])
    on_disk: bool = False
    drawn: tuple[str, ...] = ()
    more: int = 0


def draw_tree(root: Path, listed: Iterable[str] | None, limits: TreeLimits, own: Collection[Path] = ()) -> ProjectTree:
    """A line an entry, two spaces a level; folders end with a slash. Blocks.

    ``listed`` are the project's files if they are known, relative to ``root``; a folder among them ends with a
    slash and is read from disk. What is in ``own`` places is not drawn.
    """
    hidden = frozenset(place.relative_to(os.path.realpath(root)).as_posix() for place in own)
    rules = _Rules.of(root, top=True)
    top = _Folder(on_disk=True) if listed is None else _of_paths(listed, rules, limits.depth, hidden)
    return _Drawing(root, limits, hidden).draw(top)


def _of_paths(listed: Iterable[str], rules: _Rules, depth: int, hidden: frozenset[str]) -> _Folder:
    top = _Folder()

    @cache
    def is_left_out(path: str, name: str, *, is_folder: bool) -> bool:
        return path in hidden or _is_generated(name) or rules.ignores(path, is_folder=is_folder)

    for path in listed:
        names = path.rstrip("/").split("/", depth)
        folder, last = top, len(names) - 1
        for level, name in enumerate(names[:depth]):
            is_folder = level < last or path.endswith("/")
            if is_left_out("/".join(names[: level + 1]), name, is_folder=is_folder):
                break
            if not is_folder:
                folder.inside.setdefault(name, None)
                break
            inner = folder.inside.get(name)
            if inner is None:
                inner = folder.inside[name] = _Folder()
            inner.on_disk = inner.on_disk or level == last
            folder = inner
    return top


class _Drawing:
    def __init__(self, root: Path, limits: TreeLimits, hidden: frozenset[str]) -> None:
        self._root = root
        self._hidden = hidden
        self._limits = limits
        self._room = max(limits.chars, 0)
        self._files = limits.files
        self._deadline = time.monotonic() + limits.seconds
        self._cut = False

    def draw(self, top: _Folder) -> ProjectTree:
        """Choose level by level what fits, then write it down."""
        waiting = deque([(top, self._root, 0, _Rules(()))])
        while waiting:
            folder, path, depth, above = waiting.popleft()
            rules = self._read(folder, path, above) if folder.on_disk else above
            self._choose(folder, depth, max(self._room // (len(waiting) + 1), min(self._room, LEAST_ROOM)))
            if depth + 1 < self._limits.depth:
                inner = ((folder.inside[name], path / name) for name in folder.drawn)
                waiting += [(one, place, depth + 1, rules) for one, place in inner if one is not None]
        lines = list(_lines(top, 0))
        return ProjectTree("\n".join([*lines, *([CUT] if self._cut else [])]) or "(no files)", self._cut)

    def _choose(self, folder: _Folder, depth: int, room: int) -> None:
        """The part of a folder that is drawn: its folders first, since they tell more."""
        names = sorted(folder.inside, key=lambda name: (folder.inside[name] is None, name))
        chosen: list[str] = []
        folders = 0
        if sum(2 * depth + len(name) + 2 for name in names) > room:
            room -= 2 * depth + len(MORE)
            self._room -= 2 * depth + len(MORE)
        for name in names:
            is_folder = folder.inside[name] is not None
            cost = 2 * depth + len(name) + is_folder + 1
            if cost > room or (folders >= self._limits.folders if is_folder else self._files <= 0):
                continue
            room -= cost
            self._room -= cost
            folders += is_folder
            self._files -= not is_folder
            chosen.append(name)
        folder.drawn = tuple(sorted(chosen))
        folder.more = len(names) - len(chosen)
        self._cut = self._cut or folder.more > 0

    def _read(self, folder: _Folder, path: Path, above: _Rules) -> _Rules:
        """Fill in what is on disk; links are never folders."""
        if time.monotonic() > self._deadline:
            self._cut = True
            return above
        rules = (above if above.specs else self._rules_above(path)).within(path, top=path == self._root)
        try:
            with os.scandir(path) as entries:
                found = {entry.name: entry.is_dir(follow_symlinks=False) for entry in islice(entries, MAX_ENTRIES_READ)}
        except OSError:
            return rules
        for name, is_folder in found.items():
            if (path / name).relative_to(self._root).as_posix() in self._hidden:
                continue
            if not _is_generated(name) and not rules.ignores_path(path / name, is_folder=is_folder):
                folder.inside.setdefault(name, _Folder(on_disk=True) if is_folder else None)
        return rules

    def _rules_above(self, path: Path) -> _Rules:
        rules = _Rules(())
        for folder in reversed([place for place in path.parents if place.is_relative_to(self._root)]):
            rules = rules.within(folder, top=folder == self._root)
        return rules


def _lines(folder: _Folder, depth: int) -> Iterable[str]:
    for name in folder.drawn:
        inner = folder.inside[name]
        plain = "".join(char if char.isprintable() else "?" for char in name)
        yield "  " * depth + plain + "/" * (inner is not None)
        if inner is not None:
            yield from _lines(inner, depth + 1)
    if folder.more:
        yield "  " * depth + MORE.format(folder.more)


@cache
def _is_generated(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DEFAULT_IGNORES)


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of ignore files, the innermost first, each with its folder."""

    specs: tuple[tuple[Path, GitIgnoreSpec], ...]

    @classmethod
    def of(cls, folder: Path, *, top: bool) -> _Rules:
        """The files of one folder that git does not go by."""
        return cls(()).within(folder, top=top, names=(".ignore",))

    def within(self, folder: Path, *, top: bool, names: tuple[str, ...] = (".gitignore", ".ignore")) -> _Rules:
        """These, and the ones of a folder below."""
        own: list[tuple[Path, GitIgnoreSpec]] = []
        for name in (*names, *((IGNORE_FILE,) if top else ())):
            try:
                text = (folder / name).read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            from pathspec import GitIgnoreSpec

            own.append((folder, GitIgnoreSpec.from_lines(text.splitlines())))
        return _Rules((*own, *self.specs)) if own else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is left out that is relative to the one folder whose files these are."""
        word = f"{path}/" if is_folder else path
        return any(spec.check_file(word).include for _, spec in self.specs)

    def ignores_path(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a path is left out; the innermost file that speaks of it counts."""
        for base, spec in self.specs:
            relative = path.relative_to(base).as_posix()
            found = spec.check_file(f"{relative}/" if is_folder else relative).include
            if found is not None:
                return found
        return False
