"""TrustStore: the folders whose ``.vibe`` may be loaded, which needs trust because its content can run code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from vibe.core.config.layers import layer_of, shown_value
from vibe.core.config.paths import PROJECT_DIRECTORY, VibePaths, find_project_dir, is_empty, project_lineage, shown
from vibe.core.config.schema import written
from vibe.core.config.toml_source import TomlSource, read_toml
from vibe.core.config.writer import changing_document, put_settings
from vibe.system.errors import ConfigError
from vibe.system.plain_text import one_line

DOCS = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md")
"""Files with instructions for agents; in each folder the first one that exists and is not empty is read."""


KINDS = ("agents", "commands", "config.toml", "hooks.toml", "plans", "prompts", "skills", "tools")
"""The names in a ``.vibe`` folder that are read."""
TRUSTED, UNTRUSTED = "trusted", "untrusted"
POWERS: Mapping[str, str] = MappingProxyType({
    "calls run unasked": r'auto_approve|approved|planner\.auto_run|tools.*\.(permission|allowlist|read_\w+(?= = "a))',
    "the sandbox is off": r"sandbox\.mode",
    "commands reach more": r"sandbox\.(network|unix_sockets|writable|readable)",
    "programs run": r"enable_experimental_hooks|tool_paths|(worktree|cluster)\.setup|mcp_servers.*\.command",
    "servers hear of the work": r"(providers|mcp_servers).*\.(api_base|url)|telemetry\.otlp_endpoint|cluster\.address",
})
"""The powers that settings of a project give it, each with a pattern of their keys."""
TAKEN = r' = (?!(false|\[\]|""|"(ask|never|auto|required|loopback|readers)")$).*'
"""The pattern of a value, as JSON, that gives a power."""


class TrustStore:
    """The folders the user trusts, as listed in ``trusted_folders.toml``. It never asks the user.

    ``trusted = [...]`` lists absolute folders and covers everything below them; ``untrusted = [...]`` excludes a folder
    again. The nearest entry decides. Every method raises ConfigError if the file is not valid.
    """

    def __init__(self, home: Path, *, user_home: Path | None = None) -> None:
        self._home = home
        self._user_home = user_home or Path.home()
        self._file = VibePaths(home).trusted_file
        self._label = shown(self._file, self._user_home)

    def is_trusted(self, folder: Path) -> bool:
        """Return whether ``folder`` or an ancestor is trusted."""
        return self._verdict(folder) is True

    def undecided(self, workdir: Path) -> list[Path]:
        """Return the files of the project around ``workdir`` that are not loaded because trust is undecided."""
        return [path for path in self._files_needing_trust(workdir) if self._verdict(path.parent) is None]

    def _verdict(self, folder: Path) -> bool | None:
        """Return whether the nearest entry trusts a folder, or None if there is no entry."""
        trusted, untrusted = self._lists()
        start = folder.resolve()
        nearest = next((each for each in (start, *start.parents) if each in trusted or each in untrusted), None)
        return None if nearest is None else nearest not in untrusted

    def untrusted_reason(self, workdir: Path) -> str | None:
        """Return a sentence on the files around ``workdir`` that are not loaded, or None if all are."""
        left_out = [path for path in self._files_needing_trust(workdir) if not self.is_trusted(path.parent)]
        if not left_out:
            return None
        names = [f"{shown(path, self._user_home)}{_kinds_in(path)}" for path in left_out]
        folders = list(dict.fromkeys(shown(path.parent, self._user_home) for path in left_out))
        untrusted = " and ".join(folders) + (" are not trusted folders" if folders[1:] else " is not a trusted folder")
        return (
            f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not loaded: {untrusted}; run with --trust to "
            f"load {'it' if len(names) == 1 else 'them'} this time, or trust the folder with `vibe trust add`"
        )

    def _files_needing_trust(self, workdir: Path) -> list[Path]:
        """Return the project's files that are loaded only with trust; the folder that contains each must be trusted."""
        project = find_project_dir(workdir, home=self._home, user_home=self._user_home)
        lineage = project_lineage(workdir, self._user_home)
        named = [
            folder / name
            for folder in lineage
            for name in (*[name for name in DOCS if _has_content(folder / name)][:1], ".agents")
            if _has_content(folder / name)
        ]
        return [*([project] if project else []), *(path for path in named if path != self._home)]

    def _lists(self) -> list[dict[Path, str]]:
        """Return the trusted and the untrusted folders, each with its entry as it is written in the file."""
        source = read_toml(self._file, self._label)
        return [self._listed(source, key) if source else {} for key in (TRUSTED, UNTRUSTED)]

    def _listed(self, source: TomlSource, key: str) -> dict[Path, str]:
        folders: Any = source.data.get(key, [])
        if not isinstance(folders, list):
            raise ConfigError(source.where((key,)), key, 'must be a list of folders, such as ["/home/me/project"]')
        return {self._folder(source, key, index, item): item for index, item in enumerate(cast("list[Any]", folders))}

    def _folder(self, source: TomlSource, key: str, index: int, item: object) -> Path:
        if isinstance(item, str) and (path := self._expanded(item)).is_absolute():
            return path.resolve()
        raise ConfigError(source.where((key, index)), f"{key}[{index}]", f"must be an absolute path, not {item!r}")

    def _expanded(self, text: str) -> Path:
        return self._user_home / text[2:] if text.startswith("~/") else Path(text)

    def folders(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the trusted and the untrusted entries as they are written in the file."""
        trusted, untrusted = (tuple(listed.values()) for listed in self._lists())
        return trusted, untrusted

    def add(self, folder: Path) -> bool:
        """Trust a folder and everything below it. Return False if it was already trusted.

        Raises:
            EnvironmentFailure: the file can't be written, or another process is changing it.
        """
        with self._changing() as document:
            was_trusted = self.is_trusted(folder)
            if not was_trusted:
                self._put(document, TRUSTED, folder)
        return not was_trusted

    def remove(self, folder: Path) -> bool:
        """Stop trusting a folder, even if one above it is trusted. Return False if it was not trusted.

        Raises:
            EnvironmentFailure: the file can't be written, or another process is changing it.
        """
        with self._changing() as document:
            was_trusted = self.is_trusted(folder)
            if was_trusted:
                self._drop(document, TRUSTED, folder)
                if any(map(self.is_trusted, folder.resolve().parents[:1])):
                    self._put(document, UNTRUSTED, folder)
        return was_trusted

    def refuse(self, folder: Path) -> None:
        """Distrust a folder and everything below it, so that the user is not asked about it again.

        Raises:
            EnvironmentFailure: the file can't be written, or another process is changing it.
        """
        with self._changing() as document:
            self._put(document, UNTRUSTED, folder)

    def _changing(self) -> AbstractContextManager[Any]:
        """Open the file for a change."""
        self._lists()  # raises if the file is not valid
        return changing_document(self._file, self._label, partial(put_settings, self._file, self._label))

    def _drop(self, document: Any, key: str, folder: Path) -> None:
        """Remove all entries for a folder from one of the two lists."""
        listed: list[Any] = document.get(key, [])
        wanted = folder.resolve()
        for index in reversed(range(len(listed))):
            if self._expanded(str(listed[index])).resolve() == wanted:
                del listed[index]

    def _put(self, document: Any, key: str, folder: Path) -> None:
        """List a folder in one of the two lists, and in that alone."""
        import tomlkit

        for name in (TRUSTED, UNTRUSTED):
            self._drop(document, name, folder)
        cast("list[str]", document.setdefault(key, tomlkit.array())).append(str(folder.resolve()))
        document[key].multiline(multiline=True)


def powers(folders: Iterable[Path], user_home: Path) -> list[str]:
    """Return the powers that the settings and agents in the ``.vibe`` of the folders give, each with what gives it.

    Files that can't be read give none: whatever loads them refuses them.
    """
    found: dict[str, list[str]] = {power: [] for power in POWERS}
    places = [folder / PROJECT_DIRECTORY for folder in folders]
    for file in [file for place in places for file in (place / "config.toml", *sorted(place.glob("agents/*.toml")))]:
        source = None
        with suppress(ConfigError):
            source = read_toml(file, shown(file, user_home))
        settings = layer_of(source, user_home).settings
        given = [(f"{written(key)} = {shown_value(one.value)}", one.origin) for key, one in settings.items()]
        for power, keys in POWERS.items():
            found[power] += [f"{origin}: {text}" for text, origin in given if re.fullmatch(f"({keys}){TAKEN}", text)]
    return [f"{power} ({one_line(', '.join(sources), 400)})" for power, sources in found.items() if sources]


def trusting(home: Path, workdir: Path, user_home: Path, *, trust_workdir: bool) -> Callable[[Path], bool]:
    """Return a function that checks whether a resolved folder is trusted.

    It is if the user's list says so, or if it belongs to the project and ``trust_workdir`` trusts that this once.
    """
    store = TrustStore(home, user_home=user_home)
    lineage = project_lineage(workdir, user_home)
    top = lineage[-1] if lineage and trust_workdir else None

    def trusts(folder: Path) -> bool:
        return (top is not None and folder.is_relative_to(top)) or store.is_trusted(folder)

    return trusts


def _has_content(path: Path) -> bool:
    return os.path.exists(path) and not (os.path.isdir(path) and is_empty(path))


def _kinds_in(path: Path) -> str:
    """Return the names in a ``.vibe`` folder that are read, in brackets; empty for any other path."""
    found = [kind for kind in KINDS if os.path.exists(path / kind)] if path.name == PROJECT_DIRECTORY else []
    return f" ({', '.join(found)})" if found else ""
