"""The context that all agents of a run share, the context of one agent, and the port by which it starts others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from ipc.sink import EventSink
from subagents.agent.budget import Account
from subagents.agent.steering import Steering
from subagents.step_result import AgentUsage
from vibe.core.agents.manager import AgentManager
from vibe.core.guidance import Guidance
from vibe.core.llm.factory import ModelCatalog
from vibe.core.messages import StopSignal
from vibe.core.session.write_turn import Turns
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.ports import SubagentSpawner
from vibe.core.tools.questions import UserInput
from vibe.core.tools.workspace import Workspace
from vibe.shell.process.port import Commands
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import Network

VERIFY_SECONDS = 600.0
"""Seconds that a check may take, unless the settings say otherwise."""


class RunContext(Struct, frozen=True, kw_only=True):
    """The context that all agents of a run share."""

    base_prompt: str
    confinement: Confinement | None = None
    """Confines commands; None if nothing does."""
    commands: Commands | None = None
    """Runs the agents' commands, as an editor does; None if they are processes of our own."""
    accepted_writes: frozenset[str] = frozenset()
    """Globs of files that a step which claims to write them may edit without asking."""
    verify_seconds: float = VERIFY_SECONDS
    """Seconds that a check may take."""
    clock: Callable[[], float] = time.monotonic
    steering: Steering = field(default_factory=Steering)
    """Passes messages to the agents of running steps."""
    turns: Turns | None = None
    """The turns that the run takes to write in its folders; None if no other process writes there."""


class AgentContext(Struct, frozen=True, kw_only=True):
    """The context of one agent, and the most that an agent it starts can have."""

    run: RunContext
    models: ModelCatalog
    default_model: str | None = None
    """The model of an agent that names none; None for the configured one."""
    tools: ToolManager
    agents: AgentManager | None = None
    """The profiles that exist."""
    guidance: Guidance = field(default_factory=Guidance)
    """The instructions of the user and the project."""
    workspace: Workspace
    approvals: Approvals
    user_input: UserInput | None = None
    """Asks the user; None if no user is there."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment of the processes it starts."""
    network: Network | None = None
    """The reach of its confined commands; None for what the settings allow."""
    sink: EventSink
    account: Account
    """The account it is charged to."""
    spawning: Spawning | None = None
    """Makes the spawner of an agent's subagents; None if the agent may not start any."""


class ChildSpawner(SubagentSpawner, Protocol):
    """Starts the subagents of one agent. ``stop`` stops them, too; ``agents`` is what each has used."""

    stop: StopSignal

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """The usage of each subagent."""
        ...


Spawning: TypeAlias = Callable[[str, AgentContext, Path], ChildSpawner]
"""Takes an agent's id, the context that its subagents get, and a folder for their folders. Reads files."""
