"""Rules of what searches leave out: default excludes, ``.vibeignore``, ``.ignore``, ``.gitignore`` and git's list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from vibe.system.files import text_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".vibeignore"
"""Patterns for the whole workspace, in the root, written like ``.gitignore``."""

PER_FOLDER = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
"""The files of patterns in each folder: a rule of an earlier kind counts, however far up it stands."""
GIT_KINDS = (".gitignore", ".git/info/exclude")
"""The kinds that end where another repository begins."""
ALWAYS = (".git", ".hg", ".svn")
"""Names that are left out whatever the settings list in place of ``DEFAULT_IGNORES``."""

DEFAULT_IGNORES = (
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache", ".eggs", "*.egg-info", "dist", "build", "target", ".next",
    ".idea", ".vscode", "coverage", "htmlcov", "*.pyc", "*.pyo", "*.so", "*.o", "*.class", "*.min.js", "*.map",
    ".DS_Store",
)  # fmt: skip


class Ignores(Struct, frozen=True, kw_only=True):
    """Rules besides those of ``.gitignore`` and its like: ``names``, and what the workspace's ``file`` lists."""

    names: tuple[str, ...] = DEFAULT_IGNORES
    file: str = IGNORE_FILE

    @property
    def globs(self) -> tuple[str, ...]:
        """The names that are left out; one with ``/`` is a path below the root."""
        return tuple(dict.fromkeys(name.rstrip("/") for name in (*self.names, *ALWAYS)))


class _Rules(Struct, frozen=True, kw_only=True):
    """Patterns relative to a folder; of two ``kind``s the lower one counts."""

    base: Path
    spec: GitIgnoreSpec
    kind: int

    def ignores(self, path: Path, *, is_folder: bool, inside: bool) -> bool | None:
        """Return whether the patterns ignore a path; ``inside``: what they say of a folder above it does not count."""
        if not path.is_relative_to(self.base):
            return None
        relative = path.relative_to(self.base).as_posix().encode(errors="replace").decode()  # some names are no text
        name = f"{relative}/" if is_folder else relative
        if not inside:
            return self.spec.check_file(name).include
        above = relative.rpartition("/")[0]
        patterns = (one for one in reversed(self.spec.patterns) if one.include is not None and one.match_file(name))
        return next((one.include for one in patterns if not above or not one.match_file(f"{above}/")), None)


class Look(Struct, frozen=True, kw_only=True):
    """One walk: its rules by kind, nearest first, the names it leaves out, and whether it began in an ignored place."""

    rules: tuple[_Rules, ...] = ()
    names: re.Pattern[str] | None = None
    own: frozenset[Path] = frozenset()
    inside: bool = False

    def into(self, folder: Path) -> Look:
        """The look at a folder, with its own rules."""
        if self.names is None:
            return self
        found = [rules for kind, name in enumerate(PER_FOLDER) for rules in _read_rules(folder, folder / name, kind)]
        above = self.rules
        if (folder / ".git").exists():
            above = tuple(rules for rules in above if rules.kind >= len(PER_FOLDER) or not _is_gits(rules))
        return replace(self, rules=tuple(sorted((*found, *above), key=lambda rules: rules.kind)))

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a path is passed over."""
        if path in self.own or (self.names is not None and self.names.match(path.name)):
            return True
        answers = (rules.ignores(path, is_folder=is_folder, inside=self.inside) for rules in self.rules)
        return next((answer for answer in answers if answer is not None), False)


def walk_files(
    root: Path, start: Path, *, use_ignores: bool, ignores: Ignores | None = None, own: Iterable[Path] = ()
) -> Iterator[Path]:
    """Regular files at or below ``start``, sorted by name, links not followed; a file named outright always counts.

    So does a folder, whatever is said of it or of those above. Files of patterns are obeyed as git and ripgrep do it,
    those in folders above ``root`` too. ``own`` places are left out. Blocks.
    """
    if start.is_file():
        yield start
        return
    yield from _walk(start, look_at(root, start, ignores, own, use_ignores=use_ignores))


def list_entries(root: Path, folder: Path, *, use_ignores: bool, own: Iterable[Path] = ()) -> list[Path]:
    """Return what stands in a folder, folders and links too, sorted by name, by the rules of ``walk_files``. Blocks.

    Raises:
        OSError: the folder can't be read.
    """
    look = look_at(root, folder, None, own, use_ignores=use_ignores).into(folder)
    return [entry for entry, _ in _entries(folder, look)]


def look_at(root: Path, start: Path, ignores: Ignores | None, own: Iterable[Path], *, use_ignores: bool) -> Look:
    """The look at the folder above ``start``."""
    if not use_ignores:
        return Look(own=frozenset(own))
    known = ignores or Ignores()
    paths = [name for name in known.globs if "/" in name]
    listed = _rules(root, paths, kind=-1)
    rules = (*listed, *_read_rules(root, root / known.file, len(PER_FOLDER)))
    look = Look(rules=rules, names=_names(known), own=frozenset(own))
    for folder in reversed(start.parents):
        look = look.into(folder)
    return replace(look, inside=any(rules.ignores(start, is_folder=True, inside=False) for rules in look.rules))


def look_at_listed(root: Path, own: Iterable[Path]) -> Look:
    """The look at files that git lists: its own rules are done with."""
    files = (".ignore", IGNORE_FILE)
    rules = tuple(rules for kind, name in enumerate(files) for rules in _read_rules(root, root / name, kind))
    return Look(rules=rules, names=_names(Ignores()), own=frozenset(own))


def _names(ignores: Ignores) -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for name in ignores.globs if "/" not in name))


def _entries(folder: Path, look: Look) -> Iterator[tuple[Path, bool]]:
    """The entries the rules leave, and whether each is a folder of its own."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name.encode(errors="surrogateescape")):
        is_folder = entry.is_dir() and not entry.is_symlink()
        if not look.leaves_out(entry, is_folder=is_folder):
            yield entry, is_folder


def _walk(folder: Path, above: Look) -> Iterator[Path]:
    look = above.into(folder)
    try:
        entries = list(_entries(folder, look))
    except OSError:
        return
    for entry, is_folder in entries:
        if is_folder:
            yield from _walk(entry, look)
        elif entry.is_file() and not entry.is_symlink():
            yield entry


def _is_gits(rules: _Rules) -> bool:
    return rules.kind >= 0 and PER_FOLDER[rules.kind] in GIT_KINDS


def _read_rules(base: Path, file: Path, kind: int) -> list[_Rules]:
    return _rules(base, text_of(file).splitlines(), kind)


def _rules(base: Path, patterns: Sequence[str], kind: int) -> list[_Rules]:
    if not patterns:
        return []
    from pathspec import GitIgnoreSpec

    return [_Rules(base=base, spec=GitIgnoreSpec.from_lines(patterns), kind=kind)]
