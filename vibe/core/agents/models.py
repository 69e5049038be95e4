"""AgentProfile: a named agent with its model, prompt, tools and rights; and the built-in profiles."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from vibe.core.config.models import ToolTable
from vibe.core.config.toml_source import TomlSource

BUILTIN_SOURCE = "built-in"
DELEGATED_SETTINGS = frozenset({"auto_compact_threshold", "context_warnings", "memory_soft_limit_ratio"})
"""Settings that every profile may have, also that of a subagent or a plan's step."""


class AgentSafety(StrEnum):
    """The damage an agent can do without asking; a ``safe`` one has no tool that writes or reaches the network."""

    SAFE = "safe"
    NEUTRAL = "neutral"
    DESTRUCTIVE = "destructive"
    YOLO = "yolo"


class AgentType(StrEnum):
    """The kind of an agent: a person talks to it, or other agents delegate to it."""

    AGENT = "agent"
    SUBAGENT = "subagent"


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Word = Annotated[str, Field(min_length=1)]


def _models(value: object) -> str | tuple[str, ...]:
    names = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    texts = tuple(name for name in names if isinstance(name, str) and name.strip())
    if not 1 <= len(names) <= 4 or len(texts) < len(names):
        raise PydanticCustomError("models", "must be the name of a model, or a list of 1 to 4 of them")
    return value if isinstance(value, str) else texts


Models = Annotated[str | tuple[str, ...], PlainValidator(_models)]


class AgentFile(BaseModel):
    """The content of an agent file, with its keys at the top level."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=NAME_PATTERN)] = ""
    """Its name for ``--agent`` and ``task``; not set: the name of the file."""
    display_name: str = ""
    """The name people see; not set: the name."""
    description: str = ""
    """Its purpose; other agents choose by it."""
    safety: AgentSafety = AgentSafety.NEUTRAL
    """`safe` agents have no tool that writes or reaches the network."""
    agent_type: AgentType = AgentType.AGENT
    """`subagent`: other agents delegate to it, and no person talks to it."""
    active_model: Models | None = None
    """Its model; not set: the configured one. Of a list, the first; in a plan's step each other takes over once one
    failed."""
    system_prompt_id: Word | None = None
    """Its system prompt; not set: the configured one."""
    enabled_tools: tuple[str, ...] = ("*",)
    """Patterns of the only tools it has; not set: all."""
    disabled_tools: tuple[str, ...] = ()
    """Patterns of tools it does not have."""
    auto_approve: bool = False
    """Run its calls without asking; needs `safety = "yolo"`."""
    tools: dict[str, ToolTable] = {}
    """One table per tool, such as `[tools.bash]`, which overrides that of the configuration."""


class AgentProfile(AgentFile):
    """A named agent, whose values override the configuration.

    ``enabled_tools`` and ``disabled_tools`` are patterns of the tools it has. ``tool_tables`` override the user's
    ``[tools.*]`` tables. ``settings`` are the other settings in its file, unchanged. ``file`` is where it was read
    from, None for a built-in profile.
    """

    name: str = ""
    tool_tables: Mapping[str, Mapping[str, Any]] = {}
    settings: Mapping[str, Any] = {}
    file: TomlSource | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The agent's models in order; empty if it uses the configured one."""
        return (self.active_model,) if isinstance(self.active_model, str) else self.active_model or ()

    @property
    def model(self) -> str | None:
        """The first of the agent's models; None if it uses the configured one."""
        return next(iter(self.models), None)

    @property
    def source(self) -> str:
        """The origin of the profile, for display."""
        return self.file.label if self.file else BUILTIN_SOURCE

    @property
    def personal(self) -> tuple[str, ...]:
        """Settings that count only if a person chose the profile, since they could extend its rights."""
        return tuple(key for key in self.settings if key not in DELEGATED_SETTINGS)

    def where(self, *key: str | int) -> str:
        """Return ``file:line`` of one of its keys."""
        return self.file.where(key) if self.file else f"agent {self.name!r}"


_ALLOWED: Mapping[str, Any] = MappingProxyType({"permission": "always"})

BUILTIN_AGENTS: Mapping[str, AgentProfile] = MappingProxyType({
    profile.name: profile
    for profile in (
        AgentProfile(
            name="default", display_name="Default", description="Asks before it changes files or runs commands."
        ),
        AgentProfile(
            name="plan",
            display_name="Plan",
            description="Explores, asks and proposes a plan; changes nothing.",
            safety=AgentSafety.SAFE,
            system_prompt_id="plan",
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
