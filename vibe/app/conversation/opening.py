"""The terms of a conversation: how it opens, who watches and answers it, and how prompts are limited and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, field, structs

from subagents.agent.budget import Limits
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.request_board import Company
from vibe.app.engine.result_record import RunRecord, exit_code_of
from vibe.core.agent_loop import ActResult
from vibe.core.config.models import McpServerConfig, Thinking
from vibe.core.hooks.runner import Hook
from vibe.core.messages import Outcome, Usage
from vibe.core.tools.base import ToolClass
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Files
from vibe.shell.process.port import Commands
from vibe.system.errors import UsageError

TITLE_LENGTH = 80


class AgentChange(Struct, frozen=True, kw_only=True):
    """A change to an open conversation. None leaves a setting as it is.

    A prompt at work keeps the old settings to its end, except for the approvals.
    """

    agent: str | None = None
    model: str | None = None
    thinking: Thinking | None = None
    approvals: ApprovalMode | None = None


class Opening(AgentChange, frozen=True, kw_only=True):
    """The choices with which a conversation is opened. None means as configured."""

    workdir: Path
    extra_roots: tuple[Path, ...] = ()
    priced: bool = False
    """Prompts will have a price limit, so the model's prices must be known."""
    prompt: str = ""
    """The first prompt, if it is known already. It is checked before anything is written, and becomes the session's
    title."""
    resume: str | None = None
    """The session to continue, as ``SessionLoader.find`` knows it. None means a new session."""
    fork: bool = False
    """Leave the resumed session as it is, and continue in a new one."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values from the command line, by dotted configuration key."""
    trust: bool = False
    key_may_come_later: bool = False
    """Open without a key for the model. Prompts are refused until there is one."""
    wait_for_servers: bool = False
    """Let the first prompt wait for the MCP servers. It fails if a required one is missing."""
    servers: tuple[McpServerConfig, ...] = ()
    """MCP servers that the front end brings in addition to the configured ones, which win if they have the same name.
    """
    observe: bool = False
    """Let the agent and those it starts only look, whatever else they may do: nothing is written, no network is used.
    """
    tools: tuple[ToolClass, ...] = ()
    """Tools that the program brings, for the agent and those it starts."""
    hooks: tuple[Hook, ...] = ()
    """Hooks that the program brings, for the agent and those it starts."""

    @property
    def title(self) -> str:
        """The session's title; empty if its first prompt will become it."""
        return self.prompt[:TITLE_LENGTH]


class Seat(Company, frozen=True, kw_only=True):
    """Those who watch and answer a conversation."""

    prompted: Callable[[str], object] | None = None
    """Takes prompts that others give over the control address."""
    files: Files | None = None
    """Serves the agents' files, including unsaved changes. None means the files on disk."""
    commands: Commands | None = None
    """Runs the agents' commands. None means processes of our own."""
    proposing: ToolClass | None = None
    """The tool by which the conversation's own agent proposes plans. None if nobody would answer a proposal."""


class PromptLimits(Limits, frozen=True, kw_only=True):
    """Limits of one prompt, counted from when it is sent, with what its subagents use. None means no limit."""

    time_limit: float | None = None
    """In seconds."""


NO_LIMITS = PromptLimits()


class PromptResult(Struct, frozen=True, kw_only=True):
    """The end of a prompt, whether it succeeded or not. Usage and cost count all agents that worked on it."""

    acted: ActResult
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None if it is unknown."""
    duration_s: float = 0.0
    agents: tuple[AgentUsage, ...] = ()
    """The usage of each agent by itself: the conversation's own agent first, then those it started."""
    value: Any = UNSET
    """The value that was handed in; None if none was, or if it is null; unset if none was wanted."""

    def record(self, session_id: str, channel: Publishing, warnings: Sequence[str]) -> RunRecord:
        """Return the record that commands print. An agent without an id is the session's own. Blocks."""
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
            agents=[(None, structs.replace(agent, agent_id=agent.agent_id or session_id)) for agent in self.agents],
            usage=self.usage,
            cost_usd=self.cost_usd,
            duration_s=self.duration_s,
            denied=acted.denied,
            warnings=channel.warnings(warnings),
            value=self.value,
        )


def named_folder(given: str, named: str, wanted: str = "a folder") -> Path:
    """Return a folder that a client gave; ``named`` is what messages call it. Reads the file system.

    Raises:
        UsageError: the path is relative, or no folder is there.
    """
    if not Path(given).is_absolute():
        raise UsageError(f"{named} is relative: give the absolute path of {wanted}")
    try:
        folder = Path(given).resolve()
        is_there = folder.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{named} can't be used: give the path of a folder") from error
    if not is_there:
        raise UsageError(f"{named} is not a folder: create it, or name one that exists")
    return folder
