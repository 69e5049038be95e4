"""Trusted folders: whose ``.vibe`` may be loaded, since what is in it can run code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vibe.core.config.paths import VibePaths, find_project_dir, is_empty, shown
from vibe.core.config.project_files import nested_folders, project_lineage
from vibe.core.config.toml_source import TomlSource, read_toml
from vibe.core.errors import ConfigError

TEACHING = ("AGENTS.override.md", "AGENTS.md", ".agents")
"""Files that instruct agents besides ``.vibe``."""


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
        """Return whether ``folder`` or an ancestor is trusted.

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
        """Return why the settings of the project around ``workdir`` are not loaded; None if nothing needs explaining.

        Raises:
            ConfigError: The list is not valid.
        """
        left_out = [path for path in self._teaching(workdir) if not self.is_trusted(path.parent)]
        if not left_out:
            return None
        names = [shown(path, self._user_home) for path in left_out]
        *others, last = dict.fromkeys(shown(path.parent, self._user_home) for path in left_out)
        untrusted = (
            f"{', '.join(others)} and {last} are not trusted folders" if others else f"{last} is not a trusted folder"
        )
        return (
            f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not loaded: {untrusted}; run with --trust to "
            f"load {'it' if len(names) == 1 else 'them'} this time, or trust the folder with `vibe trust add`"
        )

    def _teaching(self, workdir: Path) -> list[Path]:
        """Return the files of the project that trust would load: each lies in the folder whose trust decides."""
        project = find_project_dir(workdir, home=self._home, user_home=self._user_home)
        lineage = project_lineage(workdir, self._user_home)
        named = [folder / name for folder in lineage for name in TEACHING if _teaches(folder / name)]
        return [*([project] if project else []), *(path for path in named if path != self._home)]

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
        raise ConfigError(source.where((key, index)), f"{key}[{index}]", f"must be an absolute path, not {item!r}")


def trusting(home: Path, workdir: Path, user_home: Path, *, trust_workdir: bool) -> Callable[[Path], bool]:
    """Return whether a resolved folder is trusted: by the user's list, or as the project trusted this once."""
    store = TrustStore(home, user_home=user_home)
    lineage = project_lineage(workdir, user_home)
    top = lineage[-1] if lineage and trust_workdir else None

    def trusts(folder: Path) -> bool:
        return (top is not None and folder.is_relative_to(top)) or store.is_trusted(folder)

    return trusts


def nested_projects(home: Path, workdir: Path, user_home: Path, *, trust_workdir: bool) -> tuple[Path, ...]:
    """The folders below a trusted workspace that teach those who work in it; the user's home is nobody's project."""
    if not project_lineage(workdir, user_home):
        return ()
    return nested_folders(workdir, trusting(home, workdir, user_home, trust_workdir=trust_workdir))


def _teaches(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and is_empty(path))
