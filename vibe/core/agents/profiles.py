"""AgentProfile and the built-in profiles."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from vibe.core.errors import UsageError
from vibe.core.modes import READ_TOOLS, WRITE_TOOLS


class AgentSafety(StrEnum):
    """How much damage an agent could do unasked."""

    SAFE = "safe"
    NEUTRAL = "neutral"
    DESTRUCTIVE = "destructive"
    YOLO = "yolo"


class AgentType(StrEnum):
    """Whether a person talks to it or another agent delegates to it."""

    AGENT = "agent"
    SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """A named set of rights. ``tools`` are patterns of what exists for it; ``approved`` of what needs no yes."""

    name: str
    display_name: str
    description: str
    safety: AgentSafety
    agent_type: AgentType = AgentType.AGENT
    tools: tuple[str, ...] = ("*",)
    approved: tuple[str, ...] = ()


class UnknownAgentError(UsageError):
    """No such profile."""

    def __init__(self, name: str, known: Mapping[str, AgentProfile]) -> None:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
        super().__init__(f"unknown agent {name!r}: {hint}")
        self.name = name


BUILTIN_PROFILES: Mapping[str, AgentProfile] = MappingProxyType({
    profile.name: profile
    for profile in (
        AgentProfile(
            name="default",
            display_name="Default",
            description="Asks before it changes files or runs commands.",
            safety=AgentSafety.NEUTRAL,
        ),
        AgentProfile(
            name="plan",
            display_name="Plan",
            description="Explores and plans; has no tool that changes anything.",
            safety=AgentSafety.SAFE,
            tools=READ_TOOLS,
        ),
        AgentProfile(
            name="accept-edits",
            display_name="Accept edits",
            description="Edits files in the workspace without asking; asks for everything else.",
            safety=AgentSafety.DESTRUCTIVE,
            approved=WRITE_TOOLS,
        ),
        AgentProfile(
            name="auto-approve",
            display_name="Auto-approve",
            description="Does whatever no rule denies, without asking.",
            safety=AgentSafety.YOLO,
            approved=("*",),
        ),
        AgentProfile(
            name="explore",
            display_name="Explore",
            description="Read-only subagent that finds its way through a codebase.",
            safety=AgentSafety.SAFE,
            agent_type=AgentType.SUBAGENT,
            tools=READ_TOOLS,
        ),
    )
})


def agent_profile(name: str) -> AgentProfile:
    """The profile of that name.

    Raises:
        UnknownAgentError: there is none.
    """
    try:
        return BUILTIN_PROFILES[name]
    except KeyError:
        raise UnknownAgentError(name, BUILTIN_PROFILES) from None
