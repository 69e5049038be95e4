"""AgentManager: the profiles there are, built-in and from files, and who may be asked for where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from vibe.core.agents.errors import (
    AgentTypeError,
    BrokenAgentError,
    DisabledAgentError,
    PersonalAgentError,
    UnknownAgentError,
)
from vibe.core.agents.files import read_agent_file
from vibe.core.agents.models import BUILTIN_AGENTS, AgentProfile, AgentType
from vibe.core.config.paths import shown
from vibe.core.config.patterns import left_out
from vibe.core.errors import ConfigError

FIRST = ("default", "plan", "accept-edits", "auto-approve")
"""The agents that are listed before the others, the most careful first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSources:
    """Folders that profiles come from besides the built-in ones.

    ``folders`` in order: the configured ones, the trusted project's, the user's. ``enabled`` and ``disabled`` are
    patterns over names; ``disabled`` counts only while ``enabled`` is empty. ``places`` says where those are set.
    """

    user_home: Path
    folders: Sequence[Path] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict[str, str])


class AgentManager:
    """The profiles of one configuration.

    A file replaces the built-in profile of its name; among files the first found stays; both are warned about. A file
    that is wrong makes its name unusable, whatever else is called so: using it is an error, never a looser agent.

    Construction reads files: do it before the event loop or in a thread.
    """

    def __init__(self, sources: AgentSources) -> None:
        self._sources = sources
        self._profiles: dict[str, AgentProfile] = dict(BUILTIN_AGENTS)
        self._broken: dict[str, BrokenAgentError] = {}
        self._warnings: list[str] = []
        for path in _files(sources.folders, self._warnings):
            self._load(path)
        known = (*self._profiles, *self._broken)
        self._left_out = left_out("agent", known, sources.enabled, sources.disabled, self._warnings, sources.places)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about files and patterns."""
        return tuple(self._warnings)

    @property
    def broken(self) -> Mapping[str, BrokenAgentError]:
        """The names that can't be used because of a file, and why."""
        return MappingProxyType(self._broken)

    @property
    def profiles(self) -> Mapping[str, AgentProfile]:
        """The profiles that can be used, by name."""
        names = sorted(self._profiles, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        usable = (name for name in names if name not in self._broken and name not in self._left_out)
        return MappingProxyType({name: self._profiles[name] for name in usable})

    def get(self, name: str) -> AgentProfile:
        """The profile of that name.

        Raises:
            UnknownAgentError, DisabledAgentError, BrokenAgentError: there is none that can be used.
        """
        if name in self._broken:
            raise BrokenAgentError(name, self._broken[name].problems)
        if name in self._left_out:
            key = self._left_out[name]
            raise DisabledAgentError(name, key, self._sources.places.get(key, "the configuration"))
        if name not in self._profiles:
            raise UnknownAgentError(name, self.profiles)
        return self._profiles[name]

    get_agent = get
    """The same as Mistral Vibe calls it."""

    def main(self, name: str) -> AgentProfile:
        """The profile of an agent a person talks to.

        Raises:
            AgentTypeError: it is a subagent.
            AgentError: as ``get``.
        """
        return self._of_type(name, AgentType.AGENT)

    def delegated(self, name: str) -> AgentProfile:
        """The profile of an agent that a plan's step names.

        Raises:
            PersonalAgentError: it sets what only a person may.
            AgentError: as ``get``.
        """
        profile = self.get(name)
        for key in profile.personal:
            raise PersonalAgentError(name, key, profile.where(key))
        return profile

    def subagent(self, name: str) -> AgentProfile:
        """The profile of an agent that another one starts.

        Raises:
            AgentTypeError: it is no subagent.
            AgentError: as ``get``.
        """
        return self._of_type(name, AgentType.SUBAGENT)

    def subagents(self) -> tuple[AgentProfile, ...]:
        """The profiles ``subagent`` would return, by name."""
        return tuple(profile for profile in self.profiles.values() if profile.agent_type is AgentType.SUBAGENT)

    def _of_type(self, name: str, kind: AgentType) -> AgentProfile:
        profile = self.get(name)
        if profile.agent_type is not kind:
            others = [other.name for other in self.profiles.values() if other.agent_type is kind]
            raise AgentTypeError(name, is_subagent=kind is AgentType.AGENT, others=others)
        return profile

    def _load(self, path: Path) -> None:
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
        self._broken[path.stem] = BrokenAgentError(path.stem, problems)
        self._warnings.extend(f"{problem} (the agent {path.stem!r} can't be used)" for problem in problems)


def _files(folders: Sequence[Path], warnings: list[str]) -> Iterator[Path]:
    """Every agent file, a folder after the other; one that is reached twice comes once."""
    seen: set[Path] = set()
    for folder in folders:
        if folder.is_file() and folder.suffix == ".toml":
            found = [folder]
        else:
            try:
                found = sorted(path for path in folder.iterdir() if path.suffix == ".toml" and path.is_file())
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                warnings.append(f"{folder}: agents can't be read ({error.strerror}), correct its permissions")
                continue
        for path in found:
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield path
