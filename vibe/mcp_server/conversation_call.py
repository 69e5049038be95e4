"""ConversationCall: one prompt for one client, in a conversation that begins and ends with the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from anyio import CancelScope, move_on_after

from vibe.app.conversation.conversation import Conversation, prompt_record
from vibe.app.conversation.opening import Opening, PromptLimits, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.result_record import RunRecord
from vibe.core.outcome import Outcome
from vibe.core.system.process import kill_marked
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.process.runner import OwnProcesses
from vibe.mcp_server.client_prompter import ClientPrompter
from vibe.mcp_server.progress import CallProgress, with_progress
from vibe.mcp_server.tool import Caller

PATIENCE_SECONDS = 0.3
"""Between TERM and KILL: the client has been told that all is over."""
KILL_SECONDS = 2.0
CALL_MARK = "_VIBE_CALL"
"""The variable of what a call starts, by which daemons of commands that have ended are found."""
TIMEOUT_REASON = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCall:
    """The end of a call. ``status`` is a stable word, ``problem`` the sentence where it did not complete."""

    status: str
    response: str
    problem: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCall:
    """A prompt as a client wants it answered."""

    prompt: str
    workdir: Path
    agent: str | None
    observe: bool
    seconds: float
    auto_approve: bool

    async def run(self, runtime: Runtime, caller: Caller) -> EndedCall:
        """Have it answered; cancelling this ends the agent and all it started.

        Raises:
            UsageError: the agent or the configuration is wrong.
            EnvironmentFailure, ipc.errors.IpcError: key, disk, lock or bus.
        """
        progress, mark = CallProgress(), uuid4().hex
        asks = caller.can_be_asked and not self.auto_approve
        seat = Seat(
            listeners=[progress],
            approver=ClientPrompter(caller) if asks else None,
            commands=OwnProcesses(PATIENCE_SECONDS, (CALL_MARK, mark)),
        )
        conversation = await runtime.open_conversation(self._opening(), seat)
        outcome, exit_code = Outcome.INTERRUPTED, 0
        try:
            answer = await with_progress(progress, caller, partial(self._answer, conversation))
            record = prompt_record(conversation, answer)
            outcome, exit_code = record.outcome, record.exit_code
        finally:
            with CancelScope(shield=True):
                await conversation.aclose(outcome, exit_code)
                if outcome is not Outcome.COMPLETED:
                    await _kill_all(mark)
        return self._ended(record)

    async def _answer(self, conversation: Conversation) -> PromptResult:
        return await conversation.send(self.prompt, limits=PromptLimits(time_limit=self.seconds))

    def _opening(self) -> Opening:
        return Opening(
            prompt=self.prompt,
            workdir=self.workdir,
            agent=self.agent,
            approvals=ApprovalMode.ALL if self.auto_approve else None,
            wait_for_servers=True,
            observe=self.observe,
        )

    def _ended(self, record: RunRecord) -> EndedCall:
        document = record.as_document()
        kept = ("session_id", "usage", "cost_usd", "duration_s", "denied", "warnings")
        metadata = {name: document[name] for name in kept if document.get(name)}
        timed_out = record.reason == TIMEOUT_REASON and record.outcome is Outcome.LIMIT
        return EndedCall(
            status="timed_out" if timed_out else record.outcome.value,
            response=record.result,
            problem=self._problem(record, timed_out=timed_out),
            metadata=metadata,
        )

    def _problem(self, record: RunRecord, *, timed_out: bool) -> str:
        if timed_out:
            return (
                f"vibe timed out after {self.seconds * 1000:g} ms and was stopped with all it had started: give a "
                f"larger timeout_ms, or a smaller task; `vibe --resume {record.session_id}` goes on with it"
            )
        if record.exit_code == 0:
            return ""
        why = record.detail or record.reason or "; ".join(record.warnings) or "no reason given"
        return f"vibe {record.outcome.value}: {why}"


async def _kill_all(mark: str) -> None:
    """Kill what commands of a call left behind."""
    with move_on_after(KILL_SECONDS):
        await kill_marked(CALL_MARK, mark)
