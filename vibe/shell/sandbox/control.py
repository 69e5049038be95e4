"""Files that decide what is later read as settings, or run, outside the sandbox.

No confined program may write or make them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vibe.system.files import entries_of, text_of
from vibe.system.git.config_file import GitConfigError, GitSetting, read_settings
from vibe.system.own_places import user_home_of

FOLDERS = (".vibe", ".agents")
"""Of the workspace."""
FILES = ("AGENTS.md", "AGENTS.override.md")
"""Of the workspace, read as instructions."""
OF_WORKTREE = ("commondir", "gitdir")
"""Of a worktree's folder in a repository, which is one only with them."""
OF_GIT = ("config", "config.worktree", "hooks", "info/attributes", *OF_WORKTREE)
"""Of a repository's folder, a worktree's or a module's."""
MOST_ENTRIES = 50_000
"""The most entries that are looked through for repositories below the workspace."""
CONFIG_BYTES = 256 * 1024
MOST_SETTINGS = 50
"""How many files of settings that name each other are read."""
OF_PLACES = ("path", "hookspath", "attributesfile")
OF_NO_PROGRAM = ("alias", "blame", "branch", "commit", "remote", "submodule", "url")
"""Sections whose words are not taken for programs: names, and what a person calls by hand."""
BETWEEN_WORDS = re.compile(r"[\s\"'\\;|&<>()$`=,!]+")
WORKTREE_CONFIG = re.compile(r"^\s*worktreeconfig\s*=\s*(?:true|yes|on|1)\s*$", re.IGNORECASE | re.MULTILINE)


def inner_repositories(root: Path) -> tuple[Path, ...]:
    """The ``.git`` of each repository below ``root``, not its own. Reads the file system."""
    found: list[Path] = []
    folders, seen = [str(root)], 0
    while folders and seen < MOST_ENTRIES:
        folder = folders.pop()
        entries = entries_of(folder)
        seen += len(entries)
        for entry in entries:
            if entry.name == ".git":
                found += [Path(entry.path)] if folder != str(root) else []
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return tuple(found)


def settings_of_user(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of git's settings that count in all repositories, there or not."""
    home = user_home_of(environ)
    named = [environ[name] for name in ("GIT_CONFIG_GLOBAL",) if environ.get(name)]
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return (*map(Path, named), home / ".gitconfig", folder / "git" / "config")


def control_paths(root: Path, inner: Iterable[Path] = (), settings: Iterable[Path] = ()) -> Iterator[Path]:
    """All of it at ``root``, whether it is there or not, and that of the repositories ``inner``.

    Reads the file system. ``settings`` are the user's own of git: hooks that they name by a name are those of any
    repository.
    """
    yield from (root / name for name in (*FOLDERS, *FILES))
    for file in settings:
        yield Path(os.path.realpath(file))
        yield from _named(file, [root])
    for link in (root / ".git", *inner):
        if link.is_file():
            yield link
            yield from _named(_common_of(link) / "config", [link.parent])
        elif link.is_dir():
            yield from of_repository(link)


def of_repository(folder: Path) -> Iterator[Path]:
    """The same of a repository's folder, with the worktrees and modules it has. Reads the file system."""
    for part in (folder, *_parts(folder)):
        yield from (part / name for name in OF_GIT)
        for name in ("config", "config.worktree"):
            yield from _named(part / name, [folder.parent])


def _named(settings: Path, tops: Sequence[Path]) -> Iterator[Path]:
    """Yield what a settings file names: included settings, hooks, and programs among the files at ``tops``."""
    files, seen = [settings], set[Path]()
    while files and len(seen) < MOST_SETTINGS:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        for section, _, key, value in _settings(file):
            if key in OF_PLACES:
                expanded = os.path.expanduser(value)  # noqa: PTH111  as git does
                # A file of settings is named from where it is named, a folder of hooks from the top of the files.
                places = [Path(os.path.normpath(base / expanded)) for base in (file.parent, *tops)]
                yield from places
                files += places if key == "path" else []
            elif section not in OF_NO_PROGRAM:
                words = [word for word in BETWEEN_WORDS.split(value) if word]
                found = [Path(os.path.normpath(top / word)) for top in tops for word in words]
                yield from (path for path in found if path.is_file())


def _settings(file: Path) -> Iterator[GitSetting]:
    with suppress(GitConfigError):  # git refuses it, too
        yield from read_settings(text_of(file, CONFIG_BYTES))


def _common_of(link: Path) -> Path:
    """The folder of the repository that a worktree's or module's ``.git`` file leads to; it need not be there."""
    own = Path(os.path.normpath(link.parent / text_of(link, CONFIG_BYTES).removeprefix("gitdir:").strip()))
    return Path(os.path.normpath(own / text_of(own / "commondir", CONFIG_BYTES).strip()))


def _parts(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for part in (folder / "worktrees").iterdir():
            # One that git is making still lacks these: what comes to it during a command is not the command's doing.
            if all((part / name).exists() for name in OF_WORKTREE):
                yield part
    for config in (folder / "modules").glob("**/config"):
        yield config.parent


def fillable_of_repository(folder: Path) -> list[Path]:
    """The files that can stand empty in a repository's folder, to be frozen: settings of worktrees, if it heeds such.

    Whether it is there or not. Reads the file system.
    """
    if not WORKTREE_CONFIG.search(text_of(folder / "config", CONFIG_BYTES)):
        return []
    return [part / "config.worktree" for part in (folder, *_parts(folder))]
