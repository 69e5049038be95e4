"""Ports of tools to the layers above: approvals, questions put to a person and their answers, subagents, and files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from ipc.events import ApprovalRequestEvent, Display
from vibe.core.messages import Denial, Outcome


class ApprovalScope(StrEnum):
    """Reach of a yes."""

    ONCE = "once"
    SESSION = "session"
    EDITS = "edits"
    """To every edit of files that no rule closes, as long as the run lasts."""
    ALWAYS = "always"


class CallOutlook(Struct, frozen=True, kw_only=True):
    """A call that was not made yet: what it would do as data (None: its arguments say it), and where.

    ``confined`` says whether its command would run in a sandbox (None: it runs none), ``diff`` what it would change.
    """

    display: Display | None = None
    cwd: str = ""
    confined: bool | None = None
    diff: str = ""


UNANSWERED = frozenset({"timeout", "nobody"})
"""Values of ``by`` of an answer that nobody gave."""


class ApprovalAnswer(Struct, frozen=True, kw_only=True):
    """Yes or no; ``reason`` is for the model, ``by`` says who it was (see ``approval.decided``)."""

    allow: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    reason: str = ""
    by: str = "user"


class Approver(Protocol):
    """Asks a person. Cancelling the call withdraws the question."""

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """The person's answer. Asked one question at a time."""
        ...


class SubagentOrder(Struct, frozen=True, kw_only=True):
    """Work that a call has for a subagent of the profile ``agent``."""

    task: str
    agent: str
    tool_call_id: str


class SubagentReport(Struct, frozen=True, kw_only=True):
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


class Files(Protocol):
    """The files that tools read and write: those on disk, or an editor's with what is not saved yet.

    ``path`` is resolved, and the caller is allowed there; errors call it ``name``. Called in worker threads.
    Searches and commands see the disk, so what is written stands there, too, when the call returns. An editor has its
    text in UTF-8, and leaves to the disk what it has no text of.
    """

    def exists(self, path: Path) -> bool:
        """Return whether there is anything at a path, saved or not."""
        ...

    def read(self, path: Path, name: str) -> AbstractContextManager[BinaryIO]:
        """The bytes of a file as they are now.

        Raises:
            ToolError: missing, no file, or not readable.
        """
        ...

    def create(self, path: Path, name: str, data: bytes) -> None:
        """Put a new file at a path, whole or not at all; missing folders are made.

        Raises:
            ToolError: something is there, or it can't be written.
        """
        ...

    def replace(self, path: Path, name: str, data: bytes, *, previous: bytes) -> None:
        """Replace all of a file in one go.

        Raises:
            ToolError: its bytes are no longer ``previous``, or it can't be written; nothing has changed.
        """
        ...
