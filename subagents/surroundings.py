"""What the agents of one run share, and how an agent starts others: the ports of the spawner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ipc.sink import EventSink
from subagents.budget import Account
from subagents.executor import AgentUsage
from subagents.host_commands import VERIFY_SECONDS
from vibe.core.agents.manager import AgentManager
from vibe.core.config.models import Network
from vibe.core.guidance import Guidance
from vibe.core.llm.factory import ModelCatalog
from vibe.core.sandbox.confinement import Confinement
from vibe.core.stop import StopSignal
from vibe.core.tools.approvals import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.ports import SubagentSpawner
from vibe.core.tools.questions import UserInput
from vibe.core.tools.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all subagents of a run share.

    ``default_model`` is for those that name none (None: the configured one). ``account`` is the plan's; ``environ`` is
    for the processes they start. ``agents`` are the profiles there are; ``spawning`` None: none of them may start others;
    ``confinement`` None: nothing confines commands; ``network`` None: those it confines reach what the settings let them.
    ``guidance`` is what the user and the project teach them. ``user_input`` asks a person (None: nobody is there).
    ``accepted_writes`` are globs of files that steps which claim to write them may edit unasked.
    """

    models: ModelCatalog
    default_model: str | None = None
    tools: ToolManager
    workspace: Workspace
    approvals: Approvals
    sink: EventSink
    account: Account
    base_prompt: str
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    clock: Callable[[], float] = time.monotonic
    agents: AgentManager | None = None
    spawning: Spawning | None = None
    confinement: Confinement | None = None
    network: Network | None = None
    guidance: Guidance = field(default_factory=Guidance)
    verify_seconds: float = VERIFY_SECONDS
    user_input: UserInput | None = None
    accepted_writes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """An agent that may start others: they get its ``surroundings``, and a folder each in ``folder``."""

    agent_id: str
    surroundings: Surroundings
    folder: Path


class Brood(SubagentSpawner, Protocol):
    """Starts the subagents of one agent. ``stop`` reaches them; ``agents`` is what each has used."""

    stop: StopSignal

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """What each subagent has used."""
        ...


class Spawning(Protocol):
    """Lets the agents of one run start subagents."""

    def below(self, parent: Parent) -> Brood:
        """Who starts the subagents of one agent; reads files."""
        ...

    def earlier(self, folder: Path) -> tuple[AgentUsage, ...]:
        """What the subagents in a folder used, in an earlier run; reads files."""
        ...
