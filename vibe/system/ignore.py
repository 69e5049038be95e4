"""Rules for what searches leave out: default names, ``.vibeignore``, ``.ignore``, ``.gitignore`` and git's own list."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from vibe.system.files import entries_of, folder_below, opened, text_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".vibeignore"
"""A file in the workspace's root with patterns for the whole workspace, written like ``.gitignore``."""

PER_FOLDER = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
"""Files with patterns for a folder. A rule of an earlier kind takes precedence, however far up it is."""
GIT_KINDS = frozenset(map(PER_FOLDER.index, (".gitignore", ".git/info/exclude")))
"""Kinds whose rules end where another repository begins."""
ALWAYS = (".git", ".hg", ".svn")
"""Names that are left out even if the settings replace ``DEFAULT_IGNORES``."""

DEFAULT_IGNORES = (
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache", ".eggs", "*.egg-info", "dist", "build", "target", ".next",
    ".idea", ".vscode", "coverage", "htmlcov", "*.pyc", "*.pyo", "*.so", "*.o", "*.class", "*.min.js", "*.map",
    ".DS_Store",
)  # fmt: skip


class Ignores(Struct, frozen=True, kw_only=True):
    """Rules besides ``.gitignore`` and the like: ``names``, and the patterns in the workspace's ``file``."""

    names: tuple[str, ...] = DEFAULT_IGNORES
    file: str = IGNORE_FILE

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs of names to leave out. One with ``/`` is a path below the root."""
        return tuple(dict.fromkeys(name.rstrip("/") for name in (*self.names, *ALWAYS)))


class _Rules(Struct, frozen=True, kw_only=True):
    """Patterns relative to a folder. The rules of a lower ``kind`` take precedence."""

    base: Path
    spec: GitIgnoreSpec
    kind: int

    def ignores(self, path: Path, *, is_folder: bool, inside: bool) -> bool | None:
        """Return whether the patterns ignore a path, or None if they don't decide.

        What they say only about a folder above it does not count: it was obeyed there, or another rule's word held. If
        ``inside``, neither do patterns that match the folder above it, too.
        """
        if not path.is_relative_to(self.base):
            return None
        # Some names can't be decoded.
        relative = path.relative_to(self.base).as_posix().encode(errors="replace").decode()
        name = f"{relative}/" if is_folder else relative
        at = self.spec.check_file(name).index
        if at is None:
            return None
        above = f"{relative.rpartition('/')[0]}/"
        # The library lets a pattern that names no folder win over one that does, so for a folder it may be any of them.
        patterns = (
            one for one in reversed(self.spec.patterns[: None if is_folder else at + 1]) if _is_about(one, name)
        )
        return next((one.include for one in patterns if not (inside and above != "/" and one.match_file(above))), None)


def _is_about(pattern: Any, name: str) -> bool:
    """Return whether a pattern matches a path itself, not only a folder above it.

    Of the library's expressions, those with a group match the slash after a name. The others match what is inside a
    folder (``a/**``), or anything.
    """
    found: Iterator[re.Match[str]] = pattern.regex.finditer(name) if pattern.regex else iter(())
    if not name.endswith("/"):
        return any(match.lastgroup is None for match in found)
    return any((match.end() == len(name)) == (match.lastgroup is not None) for match in found)


class Walk(Struct, frozen=True, kw_only=True):
    """The state of one walk.

    It holds the rules by kind, nearest first, the names and places to leave out, and whether the walk began in an
    ignored place.
    """

    rules: tuple[_Rules, ...] = ()
    names: re.Pattern[str] | None = None
    own: frozenset[Path] = frozenset()
    inside: bool = False

    def entering(self, folder: Path) -> Walk:
        """Return the state inside ``folder``, with the folder's own rules added."""
        if self.names is None:
            return self
        found = [rules for kind, name in enumerate(PER_FOLDER) for rules in _read_rules(folder, folder / name, kind)]
        above = self.rules
        if os.path.exists(folder / ".git"):
            above = tuple(rules for rules in above if rules.kind not in GIT_KINDS)
        return structs.replace(self, rules=tuple(sorted((*found, *above), key=lambda rules: rules.kind)))

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a path is skipped."""
        if path in self.own or (self.names is not None and self.names.match(path.name)):
            return True
        answers = (rules.ignores(path, is_folder=is_folder, inside=self.inside) for rules in self.rules)
        return next((answer for answer in answers if answer is not None), False)


def walk_files(
    root: Path, start: Path, *, use_ignores: bool, ignores: Ignores | None = None, own: Iterable[Path] = ()
) -> Iterator[Path]:
    """Yield the regular files at or below ``start``, which is resolved, sorted by name, without following links.

    ``start`` itself is never ignored, whatever the rules say about it or the folders above it. Files with patterns are
    obeyed as git and ripgrep do it, including those in folders above ``root``. ``own`` places are left out. Blocks.
    """
    if os.path.isfile(start):
        yield start
        return
    yield from _walk(start, start_walk(root, start, ignores, own, use_ignores=use_ignores))


def list_entries(root: Path, folder: Path, *, use_ignores: bool, own: Iterable[Path] = ()) -> list[Path]:
    """Return the entries of a folder, sorted by name, links and folders included, by the rules of ``walk_files``.

    Empty if the folder can't be read. Blocks.
    """
    walk = start_walk(root, folder, None, own, use_ignores=use_ignores).entering(folder)
    return [folder / entry.name for entry in _entries(folder, walk)]


def start_walk(root: Path, start: Path, ignores: Ignores | None, own: Iterable[Path], *, use_ignores: bool) -> Walk:
    """Return the state of a walk in the folder above ``start``."""
    if not use_ignores:
        return Walk(own=frozenset(own))
    known = ignores or Ignores()
    paths = [name for name in known.globs if "/" in name]
    listed = _rules(root, paths, kind=-1)
    rules = (*listed, *_read_rules(root, root / known.file, len(PER_FOLDER)))
    walk = Walk(rules=rules, names=_names(known), own=frozenset(own))
    for folder in reversed(start.parents):
        walk = walk.entering(folder)
    return structs.replace(walk, inside=any(rules.ignores(start, is_folder=True, inside=False) for rules in walk.rules))


def walk_of_listed(root: Path, own: Iterable[Path]) -> Walk:
    """Return the state of a walk over files that git itself lists, so that git's own rules are applied already."""
    files = (".ignore", IGNORE_FILE)
    rules = tuple(rules for kind, name in enumerate(files) for rules in _read_rules(root, root / name, kind))
    return Walk(rules=rules, names=_names(Ignores()), own=frozenset(own))


def _names(ignores: Ignores) -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for name in ignores.globs if "/" not in name))


def _entries(folder: Path, walk: Walk) -> Iterator[os.DirEntry[str]]:
    """Yield the entries that the rules leave; none if others have put a link on the way to the folder by now."""
    entries: list[os.DirEntry[str]] = []
    below = folder_below("/", folder.relative_to("/"))
    with suppress(OSError), below as (above, name), opened(name, os.O_DIRECTORY | os.O_NOFOLLOW, above) as descriptor:
        entries = sorted(entries_of(descriptor), key=lambda entry: entry.name.encode(errors="surrogateescape"))
        for entry in entries:
            entry.is_dir(follow_symlinks=False)  # some file systems have to be asked, and it is remembered
    for entry in entries:
        if not walk.leaves_out(folder / entry.name, is_folder=entry.is_dir(follow_symlinks=False)):
            yield entry


def _walk(folder: Path, above: Walk) -> Iterator[Path]:
    walk = above.entering(folder)
    for entry in _entries(folder, walk):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, walk)
        elif entry.is_file(follow_symlinks=False):
            yield folder / entry.name


def _read_rules(base: Path, file: Path, kind: int) -> list[_Rules]:
    return _rules(base, text_of(file).splitlines(), kind)


def _rules(base: Path, patterns: Sequence[str], kind: int) -> list[_Rules]:
    if not patterns:
        return []
    from pathspec import GitIgnoreSpec

    return [_Rules(base=base, spec=GitIgnoreSpec.from_lines(patterns), kind=kind)]
