"""What tools need from above: somebody who can say yes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class ApprovalScope(StrEnum):
    """How far a yes reaches."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that waits for a yes; ``covers`` is what a lasting yes would allow from then on."""

    request_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str
    rule: str
    reason: str
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """Yes or no; ``reason`` is what the person wants the model to know."""

    allow: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    reason: str = ""


class Approver(Protocol):
    """Asks a person. Cancelling the call withdraws the question."""

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer. Asked one question at a time."""
        ...
