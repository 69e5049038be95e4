"""Ports through which tools reach other layers: approvals, subagents and files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from ipc.commands import ApprovalScope
from ipc.events import ApprovalRequestEvent, Display
from vibe.core.messages import Denial, Outcome


class CallOutlook(Struct, frozen=True, kw_only=True):
    """The expected effects and the place of a call that has not run yet."""

    display: Display | None = None
    """Its effects, as data. None if its arguments say enough."""
    cwd: str = ""
    confined: bool | None = None
    """True if its command would run in a sandbox. None if it runs no command."""
    diff: str = ""
    """The change it would make, as a diff."""


UNANSWERED = frozenset({"timeout", "nobody"})
"""Values of an answer's ``by`` that mean nobody gave it."""


class ApprovalAnswer(Struct, frozen=True, kw_only=True):
    """Yes or no to a request. ``reason`` is for the model; ``by`` says who answered (see ``approval.decided``)."""

    allow: bool
    scope: ApprovalScope = "once"
    reason: str = ""
    by: str = "user"


class Approver(Protocol):
    """Asks a person for approval. Cancelling the call withdraws the question."""

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer. Asked one question at a time."""
        ...


class SubagentOrder(Struct, frozen=True, kw_only=True):
    """Work that a call gives to a subagent with the profile ``agent``."""

    task: str
    agent: str
    tool_call_id: str


class SubagentReport(Struct, frozen=True, kw_only=True):
    """The report on a subagent's work.

    If it did not complete, ``reason`` is a stable word and ``detail`` a sentence for why. ``denied`` are the calls that
    were not allowed, and ``transcript`` is the file that keeps its conversation.
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
    """Starts subagents for one agent, with no more rights than that agent has.

    If the call is cancelled, the subagent and everything it started have ended before it returns.
    """

    async def spawn(self, order: SubagentOrder) -> SubagentReport:
        """Start a subagent and return its report. Calls may run concurrently.

        A subagent that fails also returns a report.

        Raises:
            ToolError: no subagent can be started; the message is for the model.
        """
        ...


class Files(Protocol):
    """The files that tools read and write: on disk, or in an editor, unsaved changes included.

    Each ``path`` is resolved and the caller is allowed to use it; errors call it ``name``. Methods are called in worker
    threads. Searches and commands only see the disk, so what is written is on disk, too, when the call returns. An
    editor holds text in UTF-8; files that are no text are left to the disk.
    """

    def exists(self, path: Path) -> bool:
        """Return whether anything exists at a path, saved or not."""
        ...

    def read(self, path: Path, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading its bytes as they are now.

        Raises:
            ToolError: it is missing, not a file, or not readable.
        """
        ...

    def create(self, path: Path, name: str, data: bytes) -> None:
        """Create a file, whole or not at all, and any missing folders.

        Raises:
            ToolError: something exists there already, or it can't be written.
        """

    def replace(self, path: Path, name: str, data: bytes, *, previous: bytes) -> None:
        """Replace the whole content of a file at once.

        Raises:
            ToolError: its bytes are no longer ``previous``, or it can't be written; nothing has changed.
        """
