"""Errors of asking for an agent.

UsageError
└── AgentError                 the agent can't be used
    ├── UnknownAgentError      no profile of that name
    ├── DisabledAgentError     ``enabled_agents`` or ``disabled_agents`` leave it out
    ├── BrokenAgentError       its file is wrong; every problem names file, line and key
    ├── PersonalAgentError     its settings count only where a person chose it
    └── AgentTypeError         a subagent where a person talks, or the other way round
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vibe.core.errors import ConfigError, UsageError
from vibe.core.plain_text import closest, did_you_mean


class AgentError(UsageError):
    """An agent that can't be used."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"agent {name!r} {problem}")
        self.name = name


class UnknownAgentError(AgentError):
    """No such profile."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        hint = did_you_mean(closest(name, names), f"choose from {', '.join(names)}")
        super().__init__(name, f"is unknown: {hint}")


class DisabledAgentError(AgentError):
    """A profile the configuration leaves out. ``key`` is the setting, ``where`` its place."""

    def __init__(self, name: str, key: str, where: str) -> None:
        super().__init__(name, f"is disabled by {key} ({where}): choose another or change that setting")
        self.key = key


class BrokenAgentError(AgentError):
    """A profile whose file is wrong; it is not used in part, for what was meant to restrain it may be what is wrong."""

    def __init__(self, name: str, problems: Sequence[ConfigError]) -> None:
        super().__init__(name, f"can't be used: {'; '.join(map(str, problems))}")
        self.problems = tuple(problems)


class PersonalAgentError(AgentError):
    """A profile with settings of the whole run, where a plan or another agent chose it."""

    def __init__(self, name: str, key: str, where: str) -> None:
        super().__init__(name, f"sets {key} ({where}), which works only for an agent chosen with --agent: remove it")
        self.key = key


class AgentTypeError(AgentError):
    """A profile in the wrong place."""

    def __init__(self, name: str, *, is_subagent: bool, others: Iterable[str]) -> None:
        names = ", ".join(sorted(others)) or "none"
        if is_subagent:
            problem = f"is a subagent, which only other agents can start: choose from {names}"
        else:
            problem = f"is not a subagent, and an agent can start only subagents: choose from {names}"
        super().__init__(name, problem)
