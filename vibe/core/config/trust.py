"""Trusted folders: whose ``.vibe`` may be loaded, since what is in it can run code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vibe.core.config.paths import VibePaths, find_project_dir, shown
from vibe.core.config.toml_source import TomlSource, read_toml
from vibe.core.errors import ConfigError


class TrustStore:
    """The folders the user trusts, as ``trusted_folders.toml`` lists them; it never asks and never writes.

    ``trusted = [...]`` holds absolute folders and goes for everything below them; ``untrusted = [...]`` takes a folder
    out again: the nearest entry decides.
    """

    def __init__(self, home: Path, *, user_home: Path | None = None) -> None:
        self._home = home
        self._user_home = user_home or Path.home()
        self._file = VibePaths(home).trusted_file

    def is_trusted(self, folder: Path) -> bool:
        """Whether ``folder`` or an ancestor is trusted.

        Raises:
            ConfigError: The list is not valid.
        """
        source = read_toml(self._file, shown(self._file, self._user_home))
        if source is None:
            return False
        trusted, untrusted = self._listed(source, "trusted"), self._listed(source, "untrusted")
        start = folder.resolve()
        for candidate in (start, *start.parents):
            if candidate in untrusted:
                return False
            if candidate in trusted:
                return True
        return False

    def untrusted_reason(self, workdir: Path) -> str | None:
        """Why the settings of the project around ``workdir`` are not loaded; None if there is nothing to explain.

        Raises:
            ConfigError: The list is not valid.
        """
        project = find_project_dir(workdir, home=self._home, user_home=self._user_home)
        if project is None or self.is_trusted(project.parent):
            return None
        return (
            f"{shown(project, self._user_home)} was not loaded: {shown(project.parent, self._user_home)} is not a "
            f"trusted folder; run with --trust to load it this time, or list the folder as trusted in "
            f"{shown(self._file, self._user_home)}"
        )

    def _listed(self, source: TomlSource, key: str) -> frozenset[Path]:
        folders: Any = source.data.get(key, [])
        if not isinstance(folders, list):
            raise ConfigError(source.where((key,)), key, 'must be a list of folders, such as ["/home/me/project"]')
        return frozenset(self._folder(source, key, index, item) for index, item in enumerate(folders))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  TOML lists hold anything

    def _folder(self, source: TomlSource, key: str, index: int, item: object) -> Path:
        if isinstance(item, str):
            path = self._user_home / item[2:] if item.startswith("~/") else Path(item)
            if path.is_absolute():
                return path.resolve()
        raise ConfigError(source.where((key, index)), f"{key}[{index}]", f"must be an absolute folder, not {item!r}")
