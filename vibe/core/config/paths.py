"""Paths of the user's files, how paths are displayed, and the folders in which a project's own files may be.

Those folders are the workspace, its parents up to the root of its repository, and the folders below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vibe.system.errors import ConfigError
from vibe.system.files import entries_of, is_open

PROJECT_DIRECTORY = ".vibe"
CONFIG_FILE = "config.toml"


class _Below:
    """A descriptor that gives a path below the ``home`` of its instance."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, paths: VibePaths, _: type[VibePaths]) -> Path:
        return paths.home.joinpath(*self._names)


class VibePaths(Struct, frozen=True):
    """The files below the user's vibe folder ``home``; none of them has to exist."""

    home: Path

    config_file = _Below(CONFIG_FILE)
    """The user's settings."""
    plans = _Below("plans")
    """One folder per plan."""
    library = _Below("library")
    """The user's own plans, which are run by name."""
    run = _Below("run")
    """The registry of publishers."""
    logs = _Below("logs")
    """The log files."""
    log_file = _Below("logs", "vibe.log")
    """The log file of internal errors."""
    planning_log = _Below("logs", "planning.jsonl")
    """One line per run in which a model planned, with what that used."""
    sessions = _Below("logs", "session")
    """One folder per session."""
    unlogged = _Below("run", "unlogged")
    """One folder per session that is not kept, for as long as it lasts."""
    locks = _Below("locks")
    """Lock files and notes on which run writes in which folder."""
    tools = _Below("tools")
    """The user's own tools."""
    prompts = _Below("prompts")
    """The user's own system prompts."""
    trusted_file = _Below("trusted_folders.toml")
    """The list of folders whose settings may be loaded."""
    sign_ins = _Below("mcp_sign_ins.json")
    """The user's sign-ins to MCP servers."""
    update_check = _Below("update_check.json")
    """The result of the last check for a newer version."""
    env_file = _Below(".env")
    """The user's environment variables, mostly keys."""


def shown(path: Path, user_home: Path) -> str:
    """Return ``path`` for display, with ``~`` for the user's home directory."""
    return f"~/{path.relative_to(user_home).as_posix()}" if path.is_relative_to(user_home) else str(path)


def in_utf8(path: Path | str) -> str:
    """Return a path as text that can be printed and stored, with bytes that are not UTF-8 escaped."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def absolute(text: str, base: Path, user_home: Path) -> str:
    """Return the absolute path a setting means: ``~`` is the user's home, other paths are relative to ``base``."""
    if text == "~" or text.startswith("~/"):
        return str(user_home / text[2:])
    return str(base / text)


def find_project_dir(workdir: Path, *, home: Path, user_home: Path) -> Path | None:
    """Return the ``.vibe`` folder of ``workdir`` or of its nearest ancestor inside the same git repository or home.

    The user's own vibe folder belongs to no project. Outside a repository and the home directory only ``workdir``
    itself counts, since the folders above belong to others. Empty folders are ignored, since commands create them
    wherever they run.
    """
    start, own = workdir.resolve(), home.resolve()
    for folder in project_lineage(start, user_home):
        candidate = folder / PROJECT_DIRECTORY
        if os.path.isdir(candidate) and candidate.resolve() != own and not is_empty(candidate):
            _check_open(candidate)
            return candidate
    return None


def is_empty(folder: Path) -> bool:
    """Return whether a folder is empty; one that can't be read does not count as empty."""
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is None
    return False


FOREIGN_FOLDERS = frozenset({
    ".git", ".tox", ".venv", "build", "dist", "node_modules", "site-packages", "target", "third_party", "vendor",
    "venv",
})  # fmt: skip
"""Folders that hold other projects or generated files, whose instructions are not for this project."""
TEACHING_FOLDERS = frozenset({".vibe", ".agents"})
"""Folders that hold instructions and skills for agents."""
MAX_DEPTH = 4
"""The levels of folders below a workspace that are searched for instructions."""
MAX_FOLDERS = 2_000
"""The most folders that are searched for instructions."""


def project_lineage(workdir: Path, user_home: Path) -> list[Path]:
    """Return ``workdir`` and the folders above it that belong to the same project, nearest first and resolved.

    A project ends at its git root. Outside a repository only ``workdir`` itself counts, since the folders above belong
    to others. The user's home directory is not a project.
    """
    start, home = workdir.resolve(), user_home.resolve()
    _check_open(start)
    lineage = [start, *start.parents]
    for depth, folder in enumerate(lineage):
        if folder == home:
            return lineage[:depth]
        if os.path.exists(folder / ".git"):
            return lineage[: depth + 1]
    return [start]


def _check_open(folder: Path) -> None:
    """Check that a folder, if it is there, can be entered.

    Raises:
        ConfigError: it can't.
    """
    if os.path.isdir(folder) and not is_open(folder, os.X_OK):
        raise ConfigError(str(folder), "", "can't be entered, correct its permissions")


def project_root(workdir: Path, user_home: Path) -> Path:
    """Return the root of the repository around ``workdir``, else ``workdir`` itself, resolved."""
    lineage = project_lineage(workdir, user_home)
    return lineage[-1] if lineage else workdir.resolve()


def nested_folders(workdir: Path, trusts: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the trusted folders below a trusted ``workdir`` that have a ``.vibe`` or ``.agents``, nearest first.

    This reads the file system up to ``MAX_DEPTH`` levels deep, skipping hidden folders, links and ``FOREIGN_FOLDERS``.
    """
    start = workdir.resolve()
    if not trusts(start):
        return
    level, seen = [start], 0
    for depth in range(MAX_DEPTH + 1):
        deeper: list[Path] = []
        for folder in level[: MAX_FOLDERS - seen]:
            names = sorted(entry.name for entry in entries_of(folder) if entry.is_dir(follow_symlinks=False))
            if depth and TEACHING_FOLDERS.intersection(names) and trusts(folder):
                yield folder
            deeper += [folder / name for name in names if not name.startswith(".") and name not in FOREIGN_FOLDERS]
        seen += len(level)
        level = deeper
