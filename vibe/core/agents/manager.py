"""AgentManager: loads the built-in profiles and those in TOML files, and says which may be used where.

A file is used as a whole or not at all, and every problem in it is reported with its line.

UsageError
└── AgentError                 the agent can't be used, or not here
    └── BrokenAgentError       its file is wrong; every problem names file, line and key
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vibe.core.agents.models import BUILTIN_AGENTS, DELEGATED_SETTINGS, AgentFile, AgentProfile, AgentSafety, AgentType
from vibe.core.config.foreign_keys import is_foreign
from vibe.core.config.layers import InvalidConfigError, default_layer, merge, read_layer, shape_problems, wording
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import ToolTable, VibeConfig
from vibe.core.config.paths import PROJECT_DIRECTORY, shown
from vibe.core.config.patterns import NamePatterns, canonical_tool_name, left_out
from vibe.core.config.toml_source import RawPath, TomlSource, dotted, read_toml
from vibe.system.errors import ConfigError, UsageError, closest, did_you_mean


class AgentError(UsageError):
    """An agent that can't be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"agent {name!r} {problem}")


class BrokenAgentError(AgentError):
    """The file of a profile is wrong. No part of it is used, since the wrong part may be what should restrict it."""

    def __init__(self, name: str, problems: Sequence[ConfigError]) -> None:
        super().__init__(name, f"can't be used: {'; '.join(map(str, problems))}")
        self.problems = tuple(problems)


FIRST = ("default", "plan", "accept-edits", "auto-approve")
"""The agents that are listed before the others, ordered from ``default`` to the least careful."""


class AgentSources(Struct, frozen=True, kw_only=True):
    """The folders that profiles are loaded from, and the patterns that select them.

    ``folders`` are, in order, the configured ones, the trusted project's and the user's. ``enabled`` and ``disabled``
    are patterns of names; ``disabled`` counts only if ``enabled`` is empty. ``places`` says where those are set.
    """

    user_home: Path
    folders: Sequence[Path] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict[str, str])


class AgentManager:
    """The profiles of one configuration.

    A file replaces the built-in profile with its name, and among several files the first one counts; both cause
    warnings. A wrong file makes its name unusable, even if another profile has it: using it is an error, so that
    nobody gets a less restricted agent by mistake.

    Construction reads files: do it before the event loop starts or in a thread.
    """

    def __init__(self, sources: AgentSources) -> None:
        self._sources = sources
        self._profiles: dict[str, AgentProfile] = dict(BUILTIN_AGENTS)
        self.broken: dict[str, BrokenAgentError] = {}
        """The errors of wrong files, by the agent's name."""
        self._warnings: list[str] = []
        for path in _files(sources.folders, self._warnings):
            self._load(path)
        known = (*self._profiles, *self.broken)
        self._left_out = left_out("agent", known, sources.enabled, sources.disabled, self._warnings, sources.places)
        self.warnings = tuple(self._warnings)
        """Warnings about files and patterns."""

    @property
    def profiles(self) -> Mapping[str, AgentProfile]:
        """The usable profiles by name, those in ``FIRST`` before the others."""
        names = sorted(self._profiles, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        usable = (name for name in names if name not in self.broken and name not in self._left_out)
        return MappingProxyType({name: self._profiles[name] for name in usable})

    def get(self, name: str) -> AgentProfile:
        """Return the profile with this name.

        Raises:
            AgentError: there is none, or it can't be used.
        """
        if name in self.broken:
            raise BrokenAgentError(name, self.broken[name].problems)
        if name in self._left_out:
            key = self._left_out[name]
            where = self._sources.places.get(key, "the configuration")
            raise AgentError(name, f"is disabled by {key} ({where}): choose another or change that setting")
        if name not in self._profiles:
            names = sorted(self.profiles)
            hint = did_you_mean(closest(name, names), f"choose from {', '.join(names)}")
            raise AgentError(name, f"is unknown: {hint}")
        return self._profiles[name]

    get_agent = get
    """The name of ``get`` in Mistral Vibe."""

    def main(self, name: str) -> AgentProfile:
        """Return the profile of an agent that a person talks to.

        Raises:
            AgentError: as ``get``, or it is a subagent.
        """
        return self._of_type(name, AgentType.AGENT)

    def delegated(self, name: str) -> AgentProfile:
        """Return the profile of an agent that a plan's step names.

        Raises:
            AgentError: as ``get``, or it has settings that only an agent chosen by a person may have.
        """
        profile = self.get(name)
        for key in profile.personal:
            why = f"sets {key} ({profile.where(key)}), which works only for an agent chosen with --agent: remove it"
            raise AgentError(name, why)
        return profile

    def subagent(self, name: str) -> AgentProfile:
        """Return the profile of an agent that another agent starts.

        Raises:
            AgentError: as ``get``, or it is not a subagent.
        """
        return self._of_type(name, AgentType.SUBAGENT)

    def subagents(self) -> tuple[AgentProfile, ...]:
        """Return all profiles that other agents can start, by name."""
        return tuple(profile for profile in self.profiles.values() if profile.agent_type is AgentType.SUBAGENT)

    def _of_type(self, name: str, kind: AgentType) -> AgentProfile:
        profile = self.get(name)
        if profile.agent_type is not kind:
            others = sorted(other.name for other in self.profiles.values() if other.agent_type is kind)
            why = "is not a subagent, and an agent can start only subagents"
            if kind is AgentType.AGENT:
                why = "is a subagent, which only other agents can start"
            raise AgentError(name, f"{why}: choose from {', '.join(others) or 'none'}")
        return profile

    def _load(self, path: Path) -> None:
        """Add the profile of a file, or its error, and warn if it conflicts with another profile."""
        label = shown(path, self._sources.user_home)
        try:
            profile = read_agent_file(path, label)
        except ConfigError as error:
            self._refuse(path, error.problems)
            return
        holder = self._profiles.get(profile.name)
        if holder is not None and holder.file is None:
            self._warnings.append(f"{label}: replaces the built-in agent {profile.name!r}")
        elif holder is not None:
            used, dropped = holder.source, label
            self._warnings.append(f"two agents are called {profile.name!r}: {used} is used, {dropped} is not")
            return
        self._profiles[profile.name] = profile

    def _refuse(self, path: Path, problems: Sequence[ConfigError]) -> None:
        self.broken[path.stem] = BrokenAgentError(path.stem, problems)
        self._warnings.extend(f"{problem} (the agent {path.stem!r} can't be used)" for problem in problems)


def load_agents(loaded: LoadedConfig, nested: Sequence[Path] = ()) -> AgentManager:
    """Return the profiles of the configuration, the trusted project, its ``nested`` folders and the user.

    Reads files.
    """
    config, own = loaded.config, loaded.home.resolve()
    *project, user = loaded.own_folders
    below = (folder / PROJECT_DIRECTORY for folder in nested)
    folders = (*project, *(path for path in below if path.resolve() != own), user)
    sources = AgentSources(
        user_home=loaded.user_home,
        folders=[*map(Path, config.agent_paths), *(folder / "agents" for folder in folders)],
        enabled=config.enabled_agents,
        disabled=config.disabled_agents,
        places=loaded.origins,
    )
    return AgentManager(sources)


def _files(folders: Sequence[Path], warnings: list[str]) -> Iterator[Path]:
    """Yield every agent file, folder after folder; a file that is reached twice is yielded once."""
    seen: set[Path] = set()
    for folder in folders:
        try:
            entries = [folder] if folder.is_file() else sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            warnings.append(f"{folder}: agents can't be read ({error.strerror}), correct its permissions")
            continue
        found = [path for path in entries if path.suffix == ".toml" and os.path.isfile(path)]
        for path in found:
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield path


OWN_KEYS = frozenset(AgentFile.model_fields)
"""The keys of an agent file that are not settings of the configuration."""


def read_agent_file(path: Path, label: str) -> AgentProfile:
    """Read the profile in a file.

    Raises:
        ConfigError: the file can't be read or is not TOML.
        InvalidConfigError: keys or values are wrong; the error lists all of them.
    """
    source = read_toml(path, label)
    if source is None:
        raise ConfigError(label, "", "is missing, restore it")
    if not source.data:
        raise ConfigError(label, "", "is empty, give it at least a description and safety")
    try:
        parsed = _parse(source)
    except ValidationError as error:
        raise InvalidConfigError(
            tuple(_error_of(details, source) for details in error.errors(include_url=False))
        ) from error
    problems = (
        *_contradictions(parsed, source),
        *_bad_patterns(parsed, source),
        *_misspelled(parsed, source),
        *_setting_problems(source),
    )
    if problems:
        raise InvalidConfigError(problems)
    name = parsed.name or path.stem
    own: dict[str, Any] = {
        **dict(parsed),
        "name": name,
        "display_name": parsed.display_name or name,
        "tool_tables": {canonical_tool_name(tool): source.data["tools"][tool] for tool in parsed.tools},
    }
    return AgentProfile(**own, settings=_settings(source), file=source)


def _parse(source: TomlSource) -> AgentFile:
    # Validate JSON: only there does strict mode accept a list for a tuple and a string for an enum.
    settings = _settings(source)
    own = {key: value for key, value in source.data.items() if key not in settings and not is_foreign("", key)}
    return AgentFile.model_validate_json(json.dumps(own, default=str), strict=True)


def _settings(source: TomlSource) -> dict[str, Any]:
    """Return the settings of the configuration in the file, without the keys that every profile has."""
    return {key: source.data[key] for key in source.data if key in VibeConfig.model_fields and key not in OWN_KEYS}


def _setting_problems(source: TomlSource) -> list[ConfigError]:
    """Return the problems of the file's settings, each checked by itself; warnings count as problems here."""
    layer = read_layer(_settings(source), source.where, base=source.folder, user_home=source.folder)
    warned = [warning.partition(": ") for warning in layer.warnings]
    unknown = [ConfigError(where, "", what) for where, _, what in warned]
    return [*layer.problems, *unknown, *shape_problems(merge([default_layer(), layer]))]


def _problem(source: TomlSource, path: RawPath, problem: str) -> ConfigError:
    return ConfigError(source.where(path), dotted(path), problem)


def _error_of(details: ErrorDetails, source: TomlSource) -> ConfigError:
    path: RawPath = details["loc"]
    problem = wording(details)
    if details["type"] == "extra_forbidden":
        problem = _unknown(str(path[-1]), details["input"])
    elif details["type"] == "string_pattern_mismatch":
        problem = "may have letters, digits, '.', '_' and '-' and must start with a letter or digit"
    return _problem(source, path, problem)


def _unknown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return "is not a table of an agent file, write its keys at the top level and tools as [tools.<name>]"
    near = closest(name, {**AgentFile.model_fields, **VibeConfig.model_fields})
    known = ", ".join(AgentFile.model_fields)
    hint = did_you_mean(near, f"known keys: {known} and those of config.toml")
    return f"is not a key of an agent file, {hint}"


def _contradictions(parsed: AgentFile, source: TomlSource) -> Iterator[ConfigError]:
    """Yield the problems of keys that don't go together."""
    if parsed.auto_approve and parsed.safety is not AgentSafety.YOLO:
        yield _problem(source, ("auto_approve",), 'needs safety = "yolo", because it acts without asking')
    if parsed.agent_type is AgentType.SUBAGENT:
        for key in [key for key in _settings(source) if key not in DELEGATED_SETTINGS]:
            yield _problem(source, (key,), "works only for an agent the user chooses: remove it from a subagent")
    seen: dict[str, str] = {}
    for name in parsed.tools:
        tool = canonical_tool_name(name)
        if tool in seen:
            problem = f"is the same tool as tools.{seen[tool]}, put both tables into [tools.{tool}]"
            yield _problem(source, ("tools", name), problem)
        seen[tool] = name


def _bad_patterns(parsed: AgentFile, source: TomlSource) -> Iterator[ConfigError]:
    for key, patterns in (("enabled_tools", parsed.enabled_tools), ("disabled_tools", parsed.disabled_tools)):
        try:
            NamePatterns(patterns, where=source.where((key,)), key=key)
        except ConfigError as error:
            yield error


def _misspelled(parsed: AgentFile, source: TomlSource) -> Iterator[ConfigError]:
    """Yield keys of tool tables that look like misspelled common keys; all other keys are left to the tool."""
    for name, table in parsed.tools.items():
        for key in table.model_extra or {}:
            near = closest(key, ToolTable.model_fields, cutoff=0.8)
            if near:
                yield _problem(source, ("tools", name, key), did_you_mean(near))
