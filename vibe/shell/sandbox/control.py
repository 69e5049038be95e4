"""Finds control files: files that are later read as settings, or run, outside the sandbox.

No confined program may write or create them.
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
"""Control folders in a workspace."""
FILES = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md")
"""Control files in a workspace, which are read as instructions."""
WORKTREE_FILES = ("commondir", "gitdir")
"""Files in a repository's folder for a worktree. Without them it is none."""
REPOSITORY_FILES = ("config", "config.worktree", "hooks", "info/attributes", *WORKTREE_FILES)
"""Control files in the folder of a repository, or in that of one of its worktrees or modules."""
MOST_ENTRIES = 50_000
"""Maximum number of entries searched for repositories below the workspace."""
CONFIG_BYTES = 256 * 1024
MOST_SETTINGS = 50
"""Maximum number of settings files read that name one another."""
PATH_KEYS = ("path", "hookspath", "attributesfile")
"""Keys of git's settings whose value is a path."""
SECTIONS_WITHOUT_PROGRAMS = ("alias", "blame", "branch", "commit", "remote", "submodule", "url")
"""Sections of git's settings whose words aren't taken for programs: they are names, or called by hand."""
BETWEEN_WORDS = re.compile(r"[\s\"'\\;|&<>()$`=,!]+")
WORKTREE_CONFIG = re.compile(r"^\s*worktreeconfig\s*=\s*(?:true|yes|on|1)\s*$", re.IGNORECASE | re.MULTILINE)


def inner_repositories(root: Path) -> Iterator[Path]:
    """Yield the ``.git`` of each repository below ``root``, without its own. Reads the file system."""
    folders, seen = [str(root)], 0
    while folders and seen < MOST_ENTRIES:
        folder = folders.pop()
        entries = entries_of(folder)
        seen += len(entries)
        for entry in entries:
            if entry.name == ".git":
                yield from [Path(entry.path)] if folder != str(root) else []
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)


def settings_of_user(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files with git's settings for all repositories, whether they exist or not."""
    home = user_home_of(environ)
    named = environ.get("GIT_CONFIG_GLOBAL")
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return (*([Path(named)] if named else []), home / ".gitconfig", folder / "git" / "config")


def control_paths(root: Path, inner: Iterable[Path] = (), settings: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield all control files at ``root``, whether they exist or not, and those of the repositories ``inner``.

    ``settings`` are the user's own settings of git. Hooks that they name by a relative path are those of any
    repository. Reads the file system.
    """
    yield from (root / name for name in (*FOLDERS, *FILES))
    for file in settings:
        yield Path(os.path.realpath(file))
        yield from _named_paths(file, [root])
    for link in (root / ".git", *inner):
        if os.path.isfile(link):
            yield link
            yield from _named_paths(_repository_of_link(link) / "config", [link.parent])
        elif os.path.isdir(link):
            yield from of_repository(link)


def of_repository(folder: Path) -> Iterator[Path]:
    """Yield the control files of a repository's folder, and of its worktrees and modules. Reads the file system."""
    for part in (folder, *_worktrees_and_modules(folder)):
        yield from (part / name for name in REPOSITORY_FILES)
        for name in ("config", "config.worktree"):
            yield from _named_paths(part / name, [folder.parent])


def _named_paths(settings: Path, tops: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths a settings file names: included settings, hooks, and programs among the files at ``tops``."""
    files, seen = [settings], set[Path]()
    while files and len(seen) < MOST_SETTINGS:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        for section, _, key, value in _settings(file):
            if key in PATH_KEYS:
                expanded = os.path.expanduser(value)  # noqa: PTH111  as git does
                # Settings are named relative to the file that names them, hooks relative to the top of the work tree.
                places = [Path(os.path.normpath(base / expanded)) for base in (file.parent, *tops)]
                yield from places
                files += places if key == "path" else []
            elif section not in SECTIONS_WITHOUT_PROGRAMS:
                words = [word for word in BETWEEN_WORDS.split(value) if word]
                found = [Path(os.path.normpath(top / word)) for top in tops for word in words]
                yield from (path for path in found if os.path.isfile(path))


def _settings(file: Path) -> Iterator[GitSetting]:
    with suppress(GitConfigError):  # git refuses it too
        yield from read_settings(text_of(file, CONFIG_BYTES))


def _repository_of_link(link: Path) -> Path:
    """Return the repository's folder that the ``.git`` file of a worktree or module names. It need not exist."""
    own = Path(os.path.normpath(link.parent / text_of(link, CONFIG_BYTES).removeprefix("gitdir:").strip()))
    return Path(os.path.normpath(own / text_of(own / "commondir", CONFIG_BYTES).strip()))


def _worktrees_and_modules(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for part in (folder / "worktrees").iterdir():
            # A worktree that git is just making lacks these files. What appears in it during a command isn't the
            # command's doing.
            if all(os.path.exists(part / name) for name in WORKTREE_FILES):
                yield part
    with suppress(OSError):
        yield from (config.parent for config in (folder / "modules").glob("**/config"))


def placeholder_paths_in_repository(folder: Path) -> list[Path]:
    """Return the files that placeholders may occupy in a repository's folder, whether they exist or not.

    These are the settings of worktrees, if the repository uses such settings. Reads the file system.
    """
    if not WORKTREE_CONFIG.search(text_of(folder / "config", CONFIG_BYTES)):
        return []
    return [part / "config.worktree" for part in (folder, *_worktrees_and_modules(folder))]
