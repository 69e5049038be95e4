"""Gate: lets a call pass, asks the user if there is one, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from anyio import Lock, move_on_after, to_thread
from msgspec import Struct, structs
from msgspec.structs import replace
from pydantic import BaseModel

from ipc.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    RequestWithdrawnEvent,
    ToolQueuedEvent,
    WarningEvent,
)
from ipc.sink import EventSink
from vibe.core.tools.approvals import ALL_EDITS, BESIDE, Approvals
from vibe.core.tools.base import ToolError
from vibe.core.tools.facts import AnyTool, CallSubject, gather, subject_of
from vibe.core.tools.permissions import READ_ONLY_RULE, ApprovalMode, Assessment, PermissionDecision, Ruling, decide
from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope, Approver, CallOutlook
from vibe.core.tools.workspace import Workspace
from vibe.shell.sandbox.confinement import Confinement
from vibe.system.errors import VibeError

JUDGING_SECONDS = 5
"""How long the rules may take for one call: they read the file system, and what they judge comes from a model."""


class CallRefusal(Struct, frozen=True, kw_only=True):
    """Reason why a call may not be. ``by``: ``rule``, ``headless`` or ``user``."""

    by: str
    reason: str


@dataclass(slots=True)
class Gate:
    """Decides about the calls of one agent; questions and their answers are announced.

    ``preview`` tells what a call that is asked about would do; it reads files for that, and raises ToolError where the
    call would fail. Calls come with a ``draft`` of the question about them.
    """

    workspace: Workspace
    approvals: Approvals
    sink: EventSink
    confinement: Confinement | None = None
    preview: Callable[[CallSubject], CallOutlook] = lambda _: CallOutlook()
    _judging: Lock = field(default_factory=partial(Lock, fast_acquire=True))

    def judge(self, tool: AnyTool, args: BaseModel) -> tuple[CallSubject, PermissionDecision]:
        """Say what a call is about and what the rules make of it, before anybody is asked. Reads the file system.

        Raises:
            PathError: a path of the call leads nowhere.
            ToolError: the tool can't judge it.
        """
        subject = subject_of(tool, args, self.workspace)
        return subject, self._decide(subject)

    def _decide(self, subject: CallSubject) -> PermissionDecision:
        return decide(gather(subject, self.workspace, self.approvals, self.confinement))

    async def admit(self, tool: AnyTool, args: BaseModel, draft: ApprovalRequestEvent) -> CallRefusal | CallSubject:
        """Let the call be, or say why not. Waits for the user where the decision is to ask, if there is one.

        Raises:
            PathError: a path of the call leads nowhere.
            ToolError: the tool can't judge it, or it is an edit that can't be made.
        """
        subject, decision = await self._judge_in_time(tool, args)
        if subject.is_edit or decision.ruling is Ruling.ASK:
            refusal = await self._beside_others(subject, draft, decision)
            if refusal is not None:
                return refusal
        if decision.ruling is Ruling.ALLOW:
            return replace(subject, read_only=decision.rule == READ_ONLY_RULE)
        if decision.ruling is Ruling.DENY:
            return CallRefusal(by="rule", reason=decision.reason)
        return await self._put(subject, draft, decision)

    async def admit_in_full(
        self, subject: CallSubject, draft: ApprovalRequestEvent, lacking: str
    ) -> CallRefusal | CallSubject:
        """Ask about a call that was tried in a read-only sandbox; ``lacking``: what came of it."""
        reason = f"in a read-only sandbox {lacking}"
        decision = PermissionDecision(Ruling.ASK, "permission", reason)
        return await self._put(replace(subject, read_only=False), draft, decision)

    async def _put(
        self, subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision
    ) -> CallRefusal | CallSubject:
        """Ask the user."""
        if self.approvals.tree.approver is None:
            reason = f"{decision.reason}, and no one can approve in this run"
            # Where everything is approved that can be, what is still refused is refused by the rules, person or not.
            by = "rule" if self.approvals.mode is ApprovalMode.ALL else "headless"
            request = _request(subject, draft, decision, self._unseen())
            self.sink.publish(request)
            self.sink.publish(ApprovalDecisionEvent(request_id=request.request_id, decision="deny", reason=reason))
            return CallRefusal(by=by, reason=reason)
        queue = self.approvals.tree.queue
        if isinstance(queue, Lock) and queue.locked():
            self.sink.publish(
                ToolQueuedEvent(
                    tool_call_id=draft.tool_call_id,
                    tool=draft.tool,
                    summary=draft.summary,
                    waits_for="request",
                )
            )
        async with queue:
            # All edits may have been approved while this call waited for its turn.
            is_approved = _is_open_edit(subject, decision) and self.approvals.mode is not ApprovalMode.ASK
            if is_approved or self.approvals.remembers(subject.keys):
                return subject
            try:
                outlook = await to_thread.run_sync(self.preview, subject)
            except ToolError:
                if _is_open_edit(subject, decision):
                    raise  # it would fail anyway: approval is not needed
                outlook = self._unseen()
            request = _request(subject, draft, decision, outlook)
            return await self._ask(self.approvals.tree.approver, request) or subject

    async def _beside_others(
        self, subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision
    ) -> CallRefusal | None:
        """Ask, once, whether to write where others do; a refusal is theirs."""
        approvals = self.approvals
        others = approvals.neighbours()
        if not others or decision.ruling is Ruling.DENY or approvals.mode is ApprovalMode.ALL:
            return None
        if approvals.tree.approver is None:
            return None  # they take turns
        reason = f"{' and '.join(others)} is writing in this folder too"
        async with approvals.tree.queue:
            asked = PermissionDecision(Ruling.ASK, "workspace", reason)
            keys = [BESIDE + name for name in approvals.neighbours()]
            request = _request(subject, draft, asked, self._unseen())
            request = structs.replace(request, covers=tuple(keys), edits=False)
            refusal = await self._ask(approvals.tree.approver, request) if keys else None
        if refusal is None:
            approvals.remember(keys)
        return refusal

    async def _judge_in_time(self, tool: AnyTool, args: BaseModel) -> tuple[CallSubject, PermissionDecision]:
        """Judge a call off the event loop; one that takes too long is asked about, whatever the mode.

        One at a time, first come first served, so that questions come in the order of the calls.
        """
        async with self._judging:
            with move_on_after(JUDGING_SECONDS):
                return await to_thread.run_sync(self.judge, tool, args, abandon_on_cancel=True)
        reason = f"it could not be judged within {JUDGING_SECONDS} s"
        unknown = CallSubject(tool=tool, args=args, own=Assessment(must_ask=reason), is_judged=False)
        return unknown, self._decide(unknown)

    def _unseen(self) -> CallOutlook:
        """The outlook of a call that was not looked at: only where it would be made is known."""
        return CallOutlook(cwd=str(self.workspace.root))

    async def _ask(self, approver: Approver, request: ApprovalRequestEvent) -> CallRefusal | None:
        self.sink.publish(request)
        end: Event = RequestWithdrawnEvent(
            request_id=request.request_id, kind="approval", reason="the call was aborted"
        )
        try:
            answer = await approver.approve(request)
            end = _decided(request, answer)
        except Exception:
            end = _decided(request, ApprovalAnswer(allow=False, reason="no one could be asked", by="nobody"))
            raise
        finally:
            self.sink.publish(end)
        if not answer.allow:
            return CallRefusal(by="user", reason=answer.reason or "the user said no")
        if answer.scope is ApprovalScope.EDITS:
            self.approvals.remember([ALL_EDITS])
        elif answer.scope is not ApprovalScope.ONCE:
            self.approvals.remember(request.covers)
        if answer.scope is ApprovalScope.ALWAYS:
            await self._keep(request.covers)
        return None

    async def _keep(self, keys: Sequence[str]) -> None:
        try:
            await to_thread.run_sync(self.approvals.tree.keep, keys)
        except VibeError as error:
            message = f"this approval is valid for this run only: {error}"
            self.sink.publish(WarningEvent(code="approval.not_kept", message=message))


def _decided(request: ApprovalRequestEvent, answer: ApprovalAnswer) -> ApprovalDecisionEvent:
    return ApprovalDecisionEvent(
        request_id=request.request_id,
        decision="allow" if answer.allow else "deny",
        scope=answer.scope.value,
        reason=answer.reason,
        by=answer.by,
    )


def _is_open_edit(subject: CallSubject, decision: PermissionDecision) -> bool:
    """Return whether a yes to all edits covers the call."""
    return subject.is_edit and decision.rule == "permission"


def _request(
    subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision, outlook: CallOutlook
) -> ApprovalRequestEvent:
    return structs.replace(
        draft,
        request_id=uuid4().hex,
        rule=decision.rule,
        reason=decision.reason,
        covers=subject.keys,
        edits=_is_open_edit(subject, decision),
        diff=outlook.diff,
        preview=outlook.display,
        cwd=outlook.cwd,
        confined=outlook.confined,
    )
