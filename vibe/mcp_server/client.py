"""Talks to the client of a call: asks its person what agents and plans wait for, and reports progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from anyio import Event as Signal, sleep

from ipc import events as e
from ipc.commands import AnswerQuestion, ApprovalScope, Approve, Decide
from vibe.app.engine.request_board import Request, summary_of
from vibe.core.tools.ports import ApprovalAnswer
from vibe.mcp_server.tools import Caller, CallRefusedError
from vibe.system.plain_text import both_ends, one_line, plain

AnswerCommand: TypeAlias = Approve | AnswerQuestion | Decide

BY_CLIENT = "client"
DIFF_LENGTH = 4_000
SUMMARY_LENGTH = 2_000
CHOICES = MappingProxyType({
    "yes": "Yes, this once",
    "session": "Yes, and the same again until this task ends",
    "edits": "Yes, and all edits of files until this task ends",
    "no": "No",
})
SCOPES: Mapping[str, ApprovalScope] = MappingProxyType({"yes": "once", "session": "session", "edits": "edits"})
NOBODY = "nobody said yes"
REPORT_SECONDS = 0.25
LINE_LENGTH = 200


class CallProgress:
    """An EventSink that reports the latest notable event. Events that come faster are skipped, but counted."""

    def __init__(self) -> None:
        self._count = 0
        self._latest = ""
        self._news = Signal()

    def publish(self, event: e.Event) -> None:
        """Note an event, if it is worth reporting."""
        line = _line(event)
        if line:
            self._count += 1
            self._latest = one_line(line, LINE_LENGTH)
            self._news.set()

    async def tell(self, caller: Caller) -> None:
        """Report progress to the client until cancelled."""
        while True:
            await self._news.wait()
            self._news = Signal()
            await caller.report(self._count, self._latest)
            await sleep(REPORT_SECONDS)


class ClientPrompter:
    """Asks the client's person, as an ``Approver`` and for a plan's requests."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def approve(self, request: e.ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer. No answer means no."""
        chosen = await self._caller.ask(_call_question(request), possible_answers(request))
        scope, reason = SCOPES.get(chosen or ""), "" if chosen else NOBODY
        return ApprovalAnswer(allow=scope is not None, scope=scope or "once", reason=reason, by=BY_CLIENT)

    async def answer(self, request: Request) -> AnswerCommand | None:
        """Return the person's answer to a plan's request, or None if they can't be asked that or gave none."""
        offered = possible_answers(request)
        if isinstance(request, e.ApprovalRequestEvent):
            chosen = await self._caller.ask(_call_question(request), offered)
            return answer_command(request, [chosen or "no"], "" if chosen else NOBODY)
        asked = request.questions if isinstance(request, e.QuestionEvent) else ({"multi_select": request.multi_select},)
        if len(asked) != 1 or asked[0]["multi_select"]:
            return None
        chosen = await self._caller.ask(plain(summary_of(request)), offered)
        return None if chosen is None else answer_command(request, [chosen])


def possible_answers(request: Request) -> Mapping[str, str]:
    """Return the possible answers to a request, with their labels. A question also takes other answers."""
    match request:
        case e.ApprovalRequestEvent():
            left_out = {"session": not request.covers, "edits": not request.edits}
            return {word: label for word, label in CHOICES.items() if not left_out.get(word)}
        case e.PlanDecisionEvent():
            return dict(zip(request.options, request.labels or request.options, strict=True))
        case e.QuestionEvent():
            return {one["label"]: one["label"] for question in request.questions for one in question["options"]}


def answer_command(request: Request, answers: Sequence[str], reason: str = "") -> AnswerCommand:
    """Return the command that passes a client's answers on to a request.

    Raises:
        CallRefusedError: the answers don't fit that kind of request.
    """
    request_id, offered = request.request_id, ", ".join(possible_answers(request))
    match request:
        case e.ApprovalRequestEvent():
            word = answers[0] if len(answers) == 1 else ""
            if word not in possible_answers(request):
                raise CallRefusedError(f"request {request_id} is an approval: answer it with one of {offered}")
            scope = SCOPES.get(word, "once")
            return Approve(request_id=request_id, allow=word in SCOPES, reason=reason, scope=scope, by=BY_CLIENT)
        case e.PlanDecisionEvent():
            if not answers:
                raise CallRefusedError(f"request {request_id} is a decision: answer it with one of {offered}")
            return Decide(decision_id=request_id, selections=tuple(answers), by=BY_CLIENT)
        case e.QuestionEvent():
            is_single = len(request.questions) == 1 and bool(answers)
            given = (tuple(answers),) if is_single else tuple((answer,) for answer in answers)
            return AnswerQuestion(request_id=request_id, answers=given, by=BY_CLIENT)


def _call_question(request: e.ApprovalRequestEvent) -> str:
    parts = [
        f"vibe wants to: {both_ends(request.summary or request.tool, SUMMARY_LENGTH)}",
        request.reason,
        f"in {request.cwd}" if request.cwd else "",
        both_ends(request.diff, DIFF_LENGTH),
    ]
    return plain("\n".join(part for part in parts if part))


def _line(event: e.Event) -> str:
    """Return a line about an event, or "" if it isn't worth reporting."""
    match event:
        case e.ToolCallEvent():
            return event.summary or event.tool
        case e.ModelStartedEvent():
            return f"{event.model} is at work"
        case e.SubAgentStartedEvent():
            return f"subagent {event.title}"
        case e.ApprovalRequestEvent():
            return f"waits for approval: {event.summary or event.tool}"
        case e.PlanStepUpdateEvent():
            return f"step {event.step_id}: {event.status}"
        case _:
            return ""
