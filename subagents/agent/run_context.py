"""The context all agents of a run share, that of one of them, and the ports by which it starts others."""

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
"""Seconds a check may take, unless the settings say otherwise."""


class RunContext(Struct, frozen=True, kw_only=True):
    """The context that is the same for all agents of a run."""

    base_prompt: str
    confinement: Confinement | None = None
    """None: nothing confines commands."""
    commands: Commands | None = None
    """Runs the commands of agents, as an editor does; None: they are processes of our own."""
    accepted_writes: frozenset[str] = frozenset()
    """Globs of files that steps which claim to write them may edit unasked."""
    verify_seconds: float = VERIFY_SECONDS
    """The time a check may take."""
    clock: Callable[[], float] = time.monotonic
    steering: Steering = field(default_factory=Steering)
    """Says things to agents of steps at work."""
    turns: Turns | None = None
    """The run's turns to write in its folders; None: no other process writes there."""


class AgentContext(Struct, frozen=True, kw_only=True):
    """The context of one agent, and the most that an agent which it starts can have."""

    run: RunContext
    models: ModelCatalog
    default_model: str | None = None
    """For an agent that names none; None: the configured one."""
    tools: ToolManager
    agents: AgentManager | None = None
    """The profiles there are."""
    guidance: Guidance = field(default_factory=Guidance)
    """The instructions of the user and the project."""
    workspace: Workspace
    approvals: Approvals
    user_input: UserInput | None = None
    """Asks the user; None: no user is there."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """For the processes it starts."""
    network: Network | None = None
    """The reach of its confined commands; None: as the settings let them."""
    sink: EventSink
    account: Account
    """The account it is charged to."""
    spawning: Spawning | None = None
    """Returns who starts the subagents of an agent; None: it may not start others."""


class ChildSpawner(SubagentSpawner, Protocol):
    """Starts the subagents of one agent. ``stop`` reaches them; ``agents`` is what each has used."""

    stop: StopSignal

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """The usage of each subagent."""
        ...


Spawning: TypeAlias = Callable[[str, AgentContext, Path], ChildSpawner]
"""Takes an agent's id, the context that its subagents get, and a folder for theirs; reads files."""
