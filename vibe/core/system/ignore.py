"""Rules of what searches leave out: default excludes, ``.vibeignore``, ``.ignore`` and ``.gitignore``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["DEFAULT_IGNORES", "IGNORE_FILE", "Ignores", "list_entries", "walk_files"]

IGNORE_FILE = ".vibeignore"
"""Patterns for the whole workspace, in the root, written like ``.gitignore``."""

PER_FOLDER = (".ignore", ".gitignore")

DEFAULT_IGNORES = (
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache", ".eggs", "*.egg-info", "dist", "build", "target", ".next",
    ".idea", ".vscode", "coverage", "htmlcov", "*.pyc", "*.pyo", "*.so", "*.o", "*.class", "*.min.js", "*.map",
    ".DS_Store",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignores:
    """Rules besides those of ``.gitignore`` and its like: ``names``, and what the workspace's ``file`` lists."""

    names: tuple[str, ...] = DEFAULT_IGNORES
    file: str = IGNORE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Patterns relative to a folder."""

    base: Path
    spec: GitIgnoreSpec

    def ignores(self, path: Path, *, is_folder: bool) -> bool | None:
        relative = path.relative_to(self.base).as_posix()
        return self.spec.check_file(f"{relative}/" if is_folder else relative).include


def walk_files(root: Path, start: Path, *, use_ignores: bool, ignores: Ignores | None = None) -> Iterator[Path]:
    """Regular files at or below ``start``, sorted by name, links not followed; a file named outright always counts.

    Ignore files from ``root`` down are obeyed. Blocks.
    """
    if start.is_file():
        yield start
        return
    known = (ignores or Ignores()) if use_ignores else None
    yield from _walk(start, _rules_above(root, start, known) if known else [], known)


def list_entries(root: Path, folder: Path, *, use_ignores: bool) -> list[Path]:
    """Return what stands in a folder, folders and links too, sorted by name, by the rules of ``walk_files``. Blocks.

    Raises:
        OSError: the folder can't be read.
    """
    known = Ignores() if use_ignores else None
    rules = [*_folder_rules(folder), *_rules_above(root, folder, known)] if known else []
    return [entry for entry, _ in _entries(folder, rules, known)]


def _rules_above(root: Path, start: Path, ignores: Ignores) -> list[_Rules]:
    """The rules of the folders from ``root`` down to the one above ``start``, nearest first."""
    above = _read_rules(root, root / ignores.file)
    if start.is_relative_to(root):
        for folder in [*reversed(start.relative_to(root).parents)][: len(start.relative_to(root).parts)]:
            above = [*_folder_rules(root / folder), *above]
    return above


def _entries(folder: Path, rules: list[_Rules], ignores: Ignores | None) -> Iterator[tuple[Path, bool]]:
    """The entries the rules leave, and whether each is a folder of its own."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name.encode(errors="surrogateescape")):
        is_folder = entry.is_dir() and not entry.is_symlink()
        if ignores and (_excluded(entry.name, ignores) or _ignored(entry, rules, is_folder=is_folder)):
            continue
        yield entry, is_folder


def _walk(folder: Path, above: list[_Rules], ignores: Ignores | None) -> Iterator[Path]:
    rules = [*_folder_rules(folder), *above] if ignores else above
    try:
        entries = list(_entries(folder, rules, ignores))
    except OSError:
        return
    for entry, is_folder in entries:
        if is_folder:
            yield from _walk(entry, rules, ignores)
        elif entry.is_file() and not entry.is_symlink():
            yield entry


def _excluded(name: str, ignores: Ignores) -> bool:
    return any(fnmatchcase(name, pattern.rstrip("/")) for pattern in ignores.names)


def _ignored(path: Path, rules: list[_Rules], *, is_folder: bool) -> bool:
    for rule in rules:
        found = rule.ignores(path, is_folder=is_folder)
        if found is not None:
            return found
    return False


def _folder_rules(folder: Path) -> list[_Rules]:
    return [rules for name in PER_FOLDER for rules in _read_rules(folder, folder / name)]


def _read_rules(base: Path, file: Path) -> list[_Rules]:
    try:
        if not file.is_file():  # a named pipe would be waited for
            return []
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    from pathspec import GitIgnoreSpec

    return [_Rules(base=base, spec=GitIgnoreSpec.from_lines(text.splitlines()))]
