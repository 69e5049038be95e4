"""The settings as ``vibe config`` shows and changes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs
from pydantic import BaseModel

from vibe.app.engine.host import Host
from vibe.core.config.layers import InvalidConfigError
from vibe.core.config.loader import ConfigRequest, LoadedConfig, load_config
from vibe.core.config.paths import CONFIG_FILE, PROJECT_DIRECTORY, VibePaths, find_project_dir, shown
from vibe.core.config.schema import TOOLS, Key, UnknownSettingError, leaves, parse_key, parse_word, type_of, written
from vibe.core.config.writer import ConfigWriter
from vibe.system.errors import ConfigError, UsageError
from vibe.system.own_places import user_home_of
from vibe.system.redaction import MASK, redact

_SECRET_KEY = re.compile(r"(?i)(api[_-]?key|token|secret|passw(or)?d|credential|authorization)")
_NAMES_A_VARIABLE = frozenset({"api_key_env_var", "api_key_env", "api_key_header", "api_key_format"})


class ShownSetting(Struct, frozen=True, kw_only=True):
    """A setting with its value and origin."""

    key: str
    """Dotted name."""
    value: Any
    """JSON value, with a secret masked."""
    origin: str
    """The file, variable or flag that sets it, or ``default``."""


class Settings:
    """The settings that apply in one folder. With ``trust``, as if its project were trusted. Blocks."""

    def __init__(self, host: Host, workdir: Path, *, trust: bool = False) -> None:
        self._host = host
        self._workdir = workdir
        self._user_home = user_home_of(host.environ)
        self._request = ConfigRequest(
            home=host.home, workdir=workdir, environ=host.environ, given=host.given, trust_workdir=trust
        )

    def load(self, drafts: Mapping[Path, Path] | None = None) -> LoadedConfig:
        """Return the settings, with ``drafts`` in place of files.

        Raises:
            ConfigError: they are wrong.
        """
        return load_config(structs.replace(self._request, drafts=drafts or {}))

    def path(self, *, project: bool) -> Path:
        """Return the path of the user's settings file, or the project's. It need not exist."""
        if not project:
            return VibePaths(self._host.home).config_file
        found = find_project_dir(self._workdir, home=self._host.home, user_home=self._user_home)
        return (found or self._workdir / PROJECT_DIRECTORY) / CONFIG_FILE

    def label(self, path: Path) -> str:
        """Return a path as people read it."""
        return shown(path, self._user_home)

    def writer(self, *, project: bool, key: str = "") -> ConfigWriter:
        """Return the writer of one of the files. It refuses an invalid draft.

        ``key`` is the setting about to be changed. Existing faults that don't concern it are tolerated.
        """
        path = self.path(project=project)
        trusting = Settings(self._host, self._workdir, trust=True) if project else self

        def check(draft: Path) -> None:
            found = trusting.problems({path: draft})
            if found and key and trusting.problems():
                # A problem with the key, its table or the file as a whole.
                found = tuple(p for p in found if not p.key or p.key.startswith(key) or key.startswith(p.key))
            if found:
                raise InvalidConfigError(found)

        return ConfigWriter(path, self.label(path), check)

    def overruling(self, key: str, *, project: bool) -> str:
        """Return what overrides a setting of one of the files; empty if nothing does, or other settings are wrong.

        It is "default" if the file is that of a project that is not trusted.
        """
        try:
            loaded = self.load()
        except ConfigError:
            return ""  # the fault was there before, and every other command reports it
        origin = "default" if project and loaded.project_dir is None else loaded.origins.get(key, "")
        return "" if self.label(self.path(project=project)) in origin else origin

    def problems(self, drafts: Mapping[Path, Path] | None = None) -> tuple[ConfigError, ...]:
        """Return everything that is wrong with the settings, including those of tools."""
        try:
            loaded = self.load(drafts)
            if loaded.config.tools:
                from vibe.core.tools.discovery import ToolSources  # noqa: PLC0415  imports all tools
                from vibe.core.tools.manager import ToolManager  # noqa: PLC0415  imports all tools

                # The user's own modules must not run here: the tables of their tools are checked when those are loaded.
                sources = ToolSources(root=self._workdir, places=loaded.origins)
                ToolManager(sources, loaded.config.model_copy(update={"tool_paths": ()}))
        except ConfigError as error:
            return error.problems
        return ()

    def value_of(self, key: str, word: str) -> Any:
        """Return the value that a word on the command line means for a setting.

        Raises:
            ConfigError: there is no such setting.
        """
        parsed = parse_key(key)
        annotation, is_entry = type_of(parsed), len(parsed) == 3 and parsed[1].startswith("[")
        if annotation is None or not (is_entry or parsed in set(leaves()) or parsed[0] == TOOLS):
            raise UnknownSettingError(parsed)
        return parse_word(word, annotation)

    def get(self, key: str) -> tuple[ShownSetting, ...]:
        """Return the setting of a name, or all settings of a table, with secrets masked.

        Raises:
            ConfigError: there is no such setting.
        """
        parsed = parse_key(key)
        name = written(parsed)
        inner = (f"{name}.", f"{name}[")
        found = tuple(setting for setting in self.shown() if setting.key == name or setting.key.startswith(inner))
        if not found and parsed[0] != TOOLS:
            raise UnknownSettingError(parsed)
        if not found and len(parsed) > 1:
            raise UsageError(f"{name!r} is not set: `vibe tools list` shows what holds without it")
        return found

    def shown(self) -> Iterator[ShownSetting]:
        """Yield every setting in the order of the reference, with secrets masked."""
        loaded = self.load()
        for key, value in _flat(loaded.config, ()):
            names = (written(key[:n]) for n in range(len(key), 0, -1))
            origin = next((loaded.origins[name] for name in names if name in loaded.origins), "default")
            yield ShownSetting(key=written(key), value=_masked(key, value, loaded.environ), origin=origin)


def _flat(section: BaseModel, prefix: Key) -> Iterator[tuple[Key, Any]]:
    for name in type(section).model_fields:
        value: Any = getattr(section, name)
        key = (*prefix, name)
        items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
        if isinstance(value, BaseModel):
            yield from _flat(value, key)
        elif items and all(isinstance(item, BaseModel) for item in items):
            for item in items:
                entry = (*key, f"[{getattr(item, 'key', None) or item.name}]")
                yield from _flat(item, entry)
        elif name == "tools":
            yield from _plain(value, key)
        else:
            yield key, section.model_dump(mode="json", include={name})[name]


def _plain(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if not isinstance(value, dict):
        yield key, value
        return
    for name, inner in cast("dict[str, Any]", value).items():
        yield from _plain(inner, (*key, name))


def _masked(key: Key, value: Any, environ: Mapping[str, str]) -> Any:
    """Return the value, with a mask in place of what looks like a secret by its key or by itself."""
    if isinstance(value, dict):
        return {name: _masked((*key, name), inner, environ) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_masked(key, inner, environ) for inner in cast("list[Any]", value)]
    if not isinstance(value, str) or not value:
        return value
    if key[-1] not in _NAMES_A_VARIABLE and _SECRET_KEY.search(key[-1]) and not value.startswith("${"):
        return MASK
    return redact(value, environ)
