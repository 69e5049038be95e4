"""What decides what is read as settings, or run, outside the sandbox later: no confined program may write or make it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

FOLDERS = (".vibe", ".agents")
"""Of the workspace."""
FILES = ("AGENTS.md", "AGENTS.override.md")
"""Of the workspace, read as instructions."""
OF_GIT = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "gitdir")
"""Of a repository's folder, a worktree's or a module's."""
MOST_ENTRIES = 50_000
"""How much is looked through for repositories below the workspace."""
CONFIG_BYTES = 256 * 1024
NAMED = re.compile(r"^\s*(?:path|hookspath|attributesfile)\s*=\s*\"?(.+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)
WORKTREE_CONFIG = re.compile(r"^\s*worktreeconfig\s*=\s*(?:true|yes|on|1)\s*$", re.IGNORECASE | re.MULTILINE)


def inner_repositories(root: Path) -> tuple[Path, ...]:
    """The ``.git`` of each repository below ``root``, not its own. Reads the file system."""
    found: list[Path] = []
    folders, seen = [str(root)], 0
    while folders and seen < MOST_ENTRIES:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        seen += len(entries)
        for entry in entries:
            if entry.name == ".git":
                found += [Path(entry.path)] if folder != str(root) else []
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return tuple(found)


def control_paths(root: Path, inner: Iterable[Path] = ()) -> Iterator[Path]:
    """All of it at ``root``, whether it is there or not, and that of the repositories ``inner``. Reads the file system."""
    yield from (root / name for name in (*FOLDERS, *FILES))
    for link in (root / ".git", *inner):
        if link.is_file():
            yield link
        elif link.is_dir():
            yield from of_repository(link)


def of_repository(folder: Path) -> Iterator[Path]:
    """The same of a repository's folder, with the worktrees and modules it has. Reads the file system."""
    for part in (folder, *_parts(folder)):
        yield from (part / name for name in OF_GIT)
        text = _text(part / "config")
        for named in NAMED.findall(text):
            expanded = os.path.expanduser(named)  # noqa: PTH111  as git does
            # A file of settings is named from where it is named, a folder of hooks from the top of the files.
            yield from (Path(os.path.normpath(base / expanded)) for base in (part, folder.parent))


def _parts(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for part in (folder / "worktrees").iterdir():
            # One that git is making still lacks these: what comes to it during a command is not the command's doing.
            if (part / "gitdir").exists() and (part / "commondir").exists():
                yield part
    for config in (folder / "modules").glob("**/config"):
        yield config.parent


def fillable(root: Path) -> list[Path]:
    """What can stand there empty, so as to be frozen, whether it is there or not."""
    return [root / name for name in FOLDERS]


def fillable_of_repository(folder: Path) -> list[Path]:
    """The same of a repository's folder: settings of its worktrees, where it heeds such. Reads the file system."""
    if not WORKTREE_CONFIG.search(_text(folder / "config")):
        return []
    return [part / "config.worktree" for part in (folder, *_parts(folder))]


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(CONFIG_BYTES)
    except OSError:
        return ""
