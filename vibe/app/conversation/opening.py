"""The terms of a conversation: how it is opened, who is at the other end, and how a prompt is limited and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from subagents.agent.budget import Limits
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.request_board import Company
from vibe.app.engine.result_record import RunRecord, exit_code_of
from vibe.core.agent_loop import ActResult
from vibe.core.config.models import McpServerConfig, Thinking
from vibe.core.hooks.runner import Hook
from vibe.core.messages import Outcome, Usage
from vibe.core.tools.manager import ToolClass
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Files
from vibe.shell.process.port import Commands
from vibe.system.errors import UsageError

TITLE_LENGTH = 80


class Opening(Struct, frozen=True, kw_only=True):
    """A conversation as it is opened; None: as configured."""

    workdir: Path
    extra_roots: tuple[Path, ...] = ()
    agent: str | None = None
    model: str | None = None
    thinking: Thinking | None = None
    approvals: ApprovalMode | None = None
    priced: bool = False
    """Prompts will be limited in price, so the model's prices must be known."""
    prompt: str = ""
    """The first prompt, where it is known already: checked before anything is written, and the session's title."""
    resume: str | None = None
    """The session to continue: its id or the beginning of it. Empty: the workspace's last; None: a new one."""
    fork: bool = False
    """Leave the session that is resumed as it is, and continue in a new one."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of the command line by dotted configuration key."""
    trust: bool = False
    key_may_come_later: bool = False
    """It opens without the key of its model; a prompt is refused until there is one."""
    wait_for_servers: bool = False
    """The first prompt waits for the MCP servers, and fails without one that is required."""
    servers: tuple[McpServerConfig, ...] = ()
    """MCP servers that the front end brings, beside those that are configured; one of the same name is passed over."""
    observe: bool = False
    """Whatever the agent may do, it and those it starts only look: nothing is written and no network is reached."""
    tools: tuple[ToolClass, ...] = ()
    """Those that the program brings, for the agent and those it starts."""
    hooks: tuple[Hook, ...] = ()
    """Those that the program brings, for the same."""

    @property
    def title(self) -> str:
        """The session's title; blank: its first prompt will be."""
        return self.prompt[:TITLE_LENGTH]


class Seat(Company, frozen=True, kw_only=True):
    """Those who watch and answer a conversation."""

    prompted: Callable[[str], object] | None = None
    """Takes the prompts that others give over the control address."""
    files: Files | None = None
    """Serves the files of the agents, with what is not saved yet; None: those on disk."""
    commands: Commands | None = None
    """Runs the agents' commands; None: they are processes of our own."""
    proposing: ToolClass | None = None
    """The tool by which the conversation's own agent proposes plans; None: nobody would answer."""


class PromptLimits(Limits, frozen=True, kw_only=True):
    """Limits of one prompt, counted from its sending on; None: no limit."""

    max_turns: int | None = None
    time_limit: float | None = None
    """In seconds."""


NO_LIMITS = PromptLimits()


class PromptResult(Struct, frozen=True, kw_only=True):
    """The end of a prompt, good or bad: usage and cost are of all agents that worked on it."""

    acted: ActResult
    usage: Usage
    cost_usd: float | None
    """None: unknown."""
    duration_s: float
    agents: tuple[AgentUsage, ...] = ()
    """The usage of each alone: the conversation's own agent first, then those it started."""
    value: Any = UNSET
    """The value that was handed in; None: none was, or it is null; unset: none was wanted."""

    def record(self, session_id: str, channel: Publishing, warnings: Sequence[str]) -> RunRecord:
        """Return it as commands print it; an agent without an id is that of the session."""
        acted = self.acted
        refused = acted.error is not None and acted.error.halts and acted.outcome is Outcome.FAILED
        unserved = refused or channel.bus.failed or acted.reason == ENVIRONMENT_REASON
        return RunRecord(
            outcome=acted.outcome,
            exit_code=exit_code_of(acted.outcome, unserved=unserved),
            reason=acted.reason,
            session_id=session_id,
            result=acted.text,
            detail=acted.detail,
            agents=[(None, replace(agent, agent_id=agent.agent_id or session_id)) for agent in self.agents],
            usage=self.usage,
            cost_usd=self.cost_usd,
            duration_s=self.duration_s,
            denied=acted.denied,
            warnings=channel.warnings(warnings),
            value=self.value,
        )


class AgentChange(Struct, frozen=True, kw_only=True):
    """A change of a conversation under way; None: as it is. A prompt at work ends as it began, but for approvals."""

    agent: str | None = None
    model: str | None = None
    thinking: Thinking | None = None
    approvals: ApprovalMode | None = None


def named_folder(given: str, named: str, wanted: str = "a folder") -> Path:
    """Return the folder that a client ``named`` so; reads the file system.

    Raises:
        UsageError: it is relative or missing.
    """
    if not Path(given).is_absolute():
        raise UsageError(f"{named} is relative: give the absolute path of {wanted}")
    try:
        folder = Path(given).resolve()
        is_there = folder.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{named} can't be used: give the path of a folder") from error
    if not is_there:
        raise UsageError(f"{named} is no folder: create it, or give one that is there")
    return folder
