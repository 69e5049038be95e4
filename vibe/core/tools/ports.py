"""Needs of tools from above: somebody who can say yes, and somebody who starts subagents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from vibe.core.outcome import Outcome
from vibe.core.tools.permissions import Denial


class ApprovalScope(StrEnum):
    """Reach of a yes."""

    ONCE = "once"
    SESSION = "session"
    EDITS = "edits"
    """To every edit of files that no rule closes, as long as the run lasts."""
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that waits for a yes; ``covers`` is what a lasting yes would allow from then on.

    ``diff`` is what it would change in a file, as far as that can be shown; ``is_edit``: a yes to all edits covers it.
    """

    request_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str
    rule: str
    reason: str
    covers: tuple[str, ...] = ()
    diff: str = ""
    is_edit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """Yes or no; ``reason`` is for the model, ``by`` says who it was (see ``approval.decided``)."""

    allow: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    reason: str = ""
    by: str = "user"


class Approver(Protocol):
    """Asks a person. Cancelling the call withdraws the question."""

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer. Asked one question at a time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentOrder:
    """Work that a call has for a subagent of the profile ``agent``."""

    task: str
    agent: str
    tool_call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentReport:
    """Report on a subagent's work.

    ``reason`` is a stable word and ``detail`` a sentence for why it did not complete; ``denied`` are the calls it was
    not allowed, ``transcript`` is where its conversation is kept.
    """

    agent: str
    subagent_id: str
    outcome: Outcome
    reason: str | None
    detail: str
    response: str
    turns: int
    denied: tuple[Denial, ...] = ()
    files_changed: tuple[str, ...] = ()
    transcript: Path | None = None


class SubagentSpawner(Protocol):
    """Starts subagents for one agent, with no more rights than it has itself.

    Cancelling the call ends the subagent and everything it started before it returns.
    """

    async def spawn(self, order: SubagentOrder) -> SubagentReport:
        """Have something done; calls may run side by side. A subagent that fails is a report.

        Raises:
            ToolError: none can be started; the message is for the model.
        """
        ...
