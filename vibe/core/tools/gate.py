"""Gate: lets a call pass, asks whoever can be asked, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from anyio import Lock, move_on_after, to_thread

from ipc.events import ApprovalDecisionEvent, ApprovalRequestEvent, WarningEvent
from ipc.sink import EventSink
from vibe.core.errors import VibeError
from vibe.core.sandbox.confinement import Confinement
from vibe.core.tools.approvals import ALL_EDITS, Approvals
from vibe.core.tools.facts import CallSubject, gather
from vibe.core.tools.permissions import EDIT_TOOLS, READ_ONLY_RULE, ApprovalMode, PermissionDecision, Ruling, decide
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest, ApprovalScope, Approver
from vibe.core.tools.workspace import Workspace

JUDGING_SECONDS = 5
"""How long the rules may take for one call: they read the file system, and what they judge comes from a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuestion:
    """A call as a person is asked about it; ``preview`` makes a diff of what it would change, and reads files for that."""

    tool_call_id: str
    arguments: dict[str, Any]
    summary: str
    preview: Callable[[CallSubject], str] = lambda _: ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call may not be. ``by``: ``rule``, ``headless`` or ``user``."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A call may be; ``read_only``: where it can only read, as nobody was asked."""

    read_only: bool = False


class Gate:
    """Decides about the calls of one agent; questions and their answers are announced."""

    def __init__(
        self, workspace: Workspace, approvals: Approvals, sink: EventSink, confinement: Confinement | None = None
    ) -> None:
        self._workspace = workspace
        self._approvals = approvals
        self._sink = sink
        self._confinement = confinement
        self._judging = Lock()

    def decision(self, subject: CallSubject) -> PermissionDecision:
        """What the rules say about a call, before anybody is asked. Reads the file system."""
        return decide(gather(subject, self._workspace, self._approvals, self._confinement))

    async def admit(self, subject: CallSubject, question: ApprovalQuestion) -> Refusal | Admission:
        """Whether the call may be. Waits for a person where the decision is to ask and somebody is there."""
        decision = await self._decide_in_time(subject)
        if decision.ruling is Ruling.ALLOW:
            return Admission(read_only=decision.rule == READ_ONLY_RULE)
        if decision.ruling is Ruling.DENY:
            return Refusal(by="rule", reason=decision.reason)
        return await self._put(subject, question, decision)

    async def admit_in_full(
        self, subject: CallSubject, question: ApprovalQuestion, lacking: str
    ) -> Refusal | Admission:
        """The same for a call that was tried in a read-only sandbox; ``lacking``: what came of it."""
        reason = f"in a read-only sandbox {lacking}"
        return await self._put(
            subject, question, PermissionDecision(ruling=Ruling.ASK, rule="permission", reason=reason)
        )

    async def _put(
        self, subject: CallSubject, question: ApprovalQuestion, decision: PermissionDecision
    ) -> Refusal | Admission:
        """Ask whoever can be asked."""
        if self._approvals.approver is None:
            reason = f"{decision.reason}, and this run can ask no one"
            # Where everything is approved that can be, what is still refused is refused by the rules, person or not.
            by = "rule" if self._approvals.mode is ApprovalMode.ALL else "headless"
            self._sink.publish(ApprovalDecisionEvent(request_id=uuid4().hex, decision="deny", reason=reason))
            return Refusal(by=by, reason=reason)
        async with self._approvals.queue:
            if self._approvals.remembers(subject.keys) or self._edits_pass(subject, decision):
                return Admission()
            diff = await to_thread.run_sync(question.preview, subject)
            request = _request(subject, question, decision, diff)
            return await self._ask(self._approvals.approver, request) or Admission()

    def _edits_pass(self, subject: CallSubject, decision: PermissionDecision) -> bool:
        """Whether all edits were approved while this call waited for its turn."""
        is_edit = subject.tool.get_name() in EDIT_TOOLS and decision.rule == "permission"
        return is_edit and self._approvals.mode is not ApprovalMode.ASK

    async def _decide_in_time(self, subject: CallSubject) -> PermissionDecision:
        """The decision, made off the event loop; what takes too long to judge is asked about, whatever the mode.

        One at a time, first come first served, so that questions come in the order of the calls.
        """
        async with self._judging:
            with move_on_after(JUDGING_SECONDS):
                return await to_thread.run_sync(self.decision, subject, abandon_on_cancel=True)
        reason = f"it could not be judged within {JUDGING_SECONDS} s"
        return PermissionDecision(ruling=Ruling.ASK, rule="each_time", reason=reason)

    async def _ask(self, approver: Approver, request: ApprovalRequest) -> Refusal | None:
        self._sink.publish(
            ApprovalRequestEvent(
                request_id=request.request_id,
                tool_call_id=request.tool_call_id,
                tool=request.tool,
                arguments=request.arguments,
                rule=request.rule,
                reason=request.reason,
                diff=request.diff,
            )
        )
        answer = ApprovalAnswer(allow=False, reason="the question was withdrawn", by="nobody")
        try:
            answer = await approver.approve(request)
        finally:
            self._sink.publish(
                ApprovalDecisionEvent(
                    request_id=request.request_id,
                    decision="allow" if answer.allow else "deny",
                    scope=answer.scope.value,
                    reason=answer.reason,
                    by=answer.by,
                )
            )
        if not answer.allow:
            return Refusal(by="user", reason=answer.reason or "the user said no")
        if answer.scope is ApprovalScope.EDITS:
            self._approvals.remember([ALL_EDITS])
        elif answer.scope is not ApprovalScope.ONCE:
            self._approvals.remember(request.covers)
        if answer.scope is ApprovalScope.ALWAYS:
            await self._keep(request.covers)
        return None

    async def _keep(self, keys: Sequence[str]) -> None:
        try:
            await to_thread.run_sync(self._approvals.keep, keys)
        except VibeError as error:
            message = f"the yes holds for this run only: {error}"
            self._sink.publish(WarningEvent(code="approval.not_kept", message=message))


def _request(
    subject: CallSubject, question: ApprovalQuestion, decision: PermissionDecision, diff: str
) -> ApprovalRequest:
    return ApprovalRequest(
        request_id=uuid4().hex,
        tool_call_id=question.tool_call_id,
        tool=subject.tool.get_name(),
        arguments=question.arguments,
        summary=question.summary,
        rule=decision.rule,
        reason=decision.reason,
        covers=subject.keys,
        diff=diff,
    )
