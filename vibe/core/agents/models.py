"""AgentProfile: who an agent is and what it may do; the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from vibe.core.config.toml_source import TomlSource

BUILTIN_SOURCE = "built-in"
DELEGATED_SETTINGS = frozenset({"auto_compact_threshold", "context_warnings", "memory_soft_limit_ratio"})
"""Settings that any profile may have for itself."""


class AgentSafety(StrEnum):
    """Damage an agent could do unasked; a ``safe`` one has no tool that writes or reaches the network."""

    SAFE = "safe"
    NEUTRAL = "neutral"
    DESTRUCTIVE = "destructive"
    YOLO = "yolo"


class AgentType(StrEnum):
    """Kind of agent: a person talks to it, or another agent delegates to it."""

    AGENT = "agent"
    SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """A named set of rights, laid over the configuration.

    ``enabled_tools`` and ``disabled_tools`` are patterns of what exists for it; ``tool_tables`` are laid over the
    user's ``[tools.*]`` tables. ``active_model`` and ``system_prompt_id`` None: the configuration's. ``settings`` is
    what else of the configuration it sets, as its file has it. ``file`` is where it was read from.
    """

    name: str
    display_name: str
    description: str
    safety: AgentSafety = AgentSafety.NEUTRAL
    agent_type: AgentType = AgentType.AGENT
    active_model: str | None = None
    system_prompt_id: str | None = None
    enabled_tools: tuple[str, ...] = ("*",)
    disabled_tools: tuple[str, ...] = ()
    auto_approve: bool = False
    tool_tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    file: TomlSource | None = None

    @property
    def source(self) -> str:
        """Origin of the profile, for people."""
        return self.file.label if self.file else BUILTIN_SOURCE

    @property
    def personal(self) -> tuple[str, ...]:
        """Settings that count only where a person chose the profile: they could widen its rights."""
        return tuple(key for key in self.settings if key not in DELEGATED_SETTINGS)

    def where(self, *key: str | int) -> str:
        """``file:line`` of one of its keys."""
        return self.file.where(key) if self.file else f"agent {self.name!r}"


_ALLOWED: Mapping[str, Any] = MappingProxyType({"permission": "always"})

BUILTIN_AGENTS: Mapping[str, AgentProfile] = MappingProxyType({
    profile.name: profile
    for profile in (
        AgentProfile(
            name="default",
            display_name="Default",
            description="Asks before it changes files or runs commands.",
        ),
        AgentProfile(
            name="plan",
            display_name="Plan",
            description="Explores and plans; changes nothing.",
            safety=AgentSafety.SAFE,
        ),
        AgentProfile(
            name="accept-edits",
            display_name="Accept edits",
            description="Edits files in the workspace without asking; asks for everything else.",
            safety=AgentSafety.DESTRUCTIVE,
            tool_tables=MappingProxyType({"write_file": _ALLOWED, "search_replace": _ALLOWED}),
        ),
        AgentProfile(
            name="auto-approve",
            display_name="Auto-approve",
            description="Runs everything that no rule denies, without asking.",
            safety=AgentSafety.YOLO,
            auto_approve=True,
        ),
        AgentProfile(
            name="chat",
            display_name="Chat",
            description="Discusses the project and looks things up; changes nothing.",
            safety=AgentSafety.SAFE,
            system_prompt_id="chat",
        ),
        AgentProfile(
            name="lean",
            display_name="Lean",
            description="Writes and checks proofs in Lean 4; asks like default.",
            system_prompt_id="lean",
        ),
        AgentProfile(
            name="explore",
            display_name="Explore",
            description="Read-only subagent that finds its way through a codebase.",
            safety=AgentSafety.SAFE,
            system_prompt_id="explore",
            agent_type=AgentType.SUBAGENT,
        ),
    )
})
