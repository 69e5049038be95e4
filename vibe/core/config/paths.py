"""Paths of the user's files, and how a path is shown to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vibe.core.config.project_files import project_lineage

PROJECT_DIRECTORY = ".vibe"
CONFIG_FILE = "config.toml"


@dataclass(frozen=True, slots=True)
class VibePaths:
    """The files below the user's vibe folder ``home``; none of them need exist."""

    home: Path

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.home / CONFIG_FILE

    @property
    def plans(self) -> Path:
        """A folder a plan."""
        return self.home / "plans"

    @property
    def run(self) -> Path:
        """Folder of the registry of publishers."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """Log files."""
        return self.home / "logs"

    @property
    def log_file(self) -> Path:
        """Log file of internal errors."""
        return self.logs / "vibe.log"

    @property
    def sessions(self) -> Path:
        """A folder a session."""
        return self.logs / "session"

    @property
    def unlogged(self) -> Path:
        """A folder a session that is not to be kept, while it lasts."""
        return self.run / "unlogged"

    @property
    def locks(self) -> Path:
        """Which process works in which workspace."""
        return self.home / "locks"

    @property
    def tools(self) -> Path:
        """The user's own tools."""
        return self.home / "tools"

    @property
    def agents(self) -> Path:
        """The user's own agents."""
        return self.home / "agents"

    @property
    def prompts(self) -> Path:
        """The user's own system prompts."""
        return self.home / "prompts"

    @property
    def trusted_file(self) -> Path:
        """The folders whose settings may be loaded."""
        return self.home / "trusted_folders.toml"

    @property
    def sign_ins(self) -> Path:
        """The user's sign-ins to MCP servers."""
        return self.home / "mcp_sign_ins.json"

    @property
    def update_check(self) -> Path:
        """The result of the last look for a newer version."""
        return self.home / "update_check.json"

    @property
    def env_file(self) -> Path:
        """The user's variables, keys above all."""
        return self.home / ".env"


def user_home_of(environ: Mapping[str, str]) -> Path:
    """The user's home directory as ``environ`` has it, else as the system has it."""
    chosen = environ.get("HOME")
    return Path(chosen) if chosen else Path.home()


def shown(path: Path, user_home: Path) -> str:
    """``path`` for a reader: with ``~`` for the user's home directory."""
    return f"~/{path.relative_to(user_home).as_posix()}" if path.is_relative_to(user_home) else str(path)


def in_utf8(path: Path | str) -> str:
    """A path as text that can be printed and written down: bytes of its name that are not UTF-8 are spelled out."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def absolute(text: str, base: Path, user_home: Path) -> str:
    """The path a setting means: ``~`` is the user's home, everything else is relative to ``base``."""
    if text == "~" or text.startswith("~/"):
        return str(user_home / text[2:])
    return str(base / text)


def find_project_dir(workdir: Path, *, home: Path, user_home: Path) -> Path | None:
    """The ``.vibe`` folder of ``workdir`` or of its nearest ancestor inside the same git repository or home.

    The user's own vibe folder is nobody's project. Outside a repository and the home directory only ``workdir`` itself
    is looked at: what lies above belongs to others. An empty one configures nothing; one stands wherever commands run.
    """
    start, own = workdir.resolve(), home.resolve()
    for folder in project_lineage(start, user_home):
        candidate = folder / PROJECT_DIRECTORY
        if candidate.is_dir() and candidate.resolve() != own and not is_empty(candidate):
            return candidate
    return None


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing; one that can't be read may hold anything."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False
