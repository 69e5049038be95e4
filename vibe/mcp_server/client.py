"""The client of a call: the person there is asked what agents and plans wait for, and it is told how the call goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from anyio import Event as Signal
from anyio import sleep

from ipc import events as e
from ipc.commands import AnswerQuestion, Approve, Decide
from vibe.app.engine.request_board import APPROVAL, DECISION, OpenRequest
from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope
from vibe.mcp_server.tools import Caller, CallRefusedError
from vibe.system.plain_text import both_ends, plain, plain_line, shortened

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
SCOPES = MappingProxyType({"yes": ApprovalScope.ONCE, "session": ApprovalScope.SESSION, "edits": ApprovalScope.EDITS})
NOBODY = "nobody said yes"
BETWEEN_SECONDS = 0.25
LINE_LENGTH = 200


class CallProgress:
    """An EventSink that keeps the latest thing of note; what comes faster than it is told is skipped, but counted."""

    def __init__(self) -> None:
        self._count = 0
        self._latest = ""
        self._news = Signal()

    def publish(self, event: e.Event) -> None:
        """Hear of what happens."""
        line = _line(event)
        if line:
            self._count += 1
            self._latest = shortened(plain_line(line), LINE_LENGTH)
            self._news.set()

    async def tell(self, caller: Caller) -> None:
        """Tell the client, until this is cancelled."""
        while True:
            await self._news.wait()
            self._news = Signal()
            await caller.report(self._count, self._latest)
            await sleep(BETWEEN_SECONDS)


class ClientPrompter:
    """An ``Approver``, and the one who answers what a plan waits for."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def approve(self, request: e.ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer; none is a no."""
        details = {"reason": request.reason, "cwd": request.cwd, "diff": request.diff}
        question = _call_question(request.summary or request.tool, details)
        chosen = await self._caller.ask(question, _choices(covers=bool(request.covers), edits=False))
        scope = SCOPES.get(chosen or "no")
        if scope is None:
            return ApprovalAnswer(allow=False, reason="" if chosen else NOBODY, by=BY_CLIENT)
        return ApprovalAnswer(allow=True, scope=scope, by=BY_CLIENT)

    async def answer(self, request: OpenRequest) -> AnswerCommand | None:
        """Return the person's answer to something a plan waits for; None: they can't be asked that, or gave none."""
        details = request.details
        if request.kind == APPROVAL:
            offered = possible_answers(request)
            chosen = await self._caller.ask(_call_question(request.summary, details), offered)
            return answer_command(request, [chosen or "no"], "" if chosen else NOBODY)
        asked = [details] if request.kind == DECISION else details["questions"]
        if len(asked) != 1 or asked[0]["multi_select"]:
            return None
        chosen = await self._caller.ask(plain(request.summary), possible_answers(request))
        return None if chosen is None else answer_command(request, [chosen])


def possible_answers(request: OpenRequest) -> Mapping[str, str]:
    """Return the answers there are to a request, words by what is to be given; to a question others may be given."""
    details = request.details
    if request.kind == APPROVAL:
        return _choices(covers=bool(details["covers"]), edits=details["edits"])
    if request.kind == DECISION:
        return dict(zip(details["options"], details["labels"] or details["options"], strict=True))
    labels = [option["label"] for question in details["questions"] for option in question["options"]]
    return {label: label for label in labels}


def answer_command(request: OpenRequest, answers: Sequence[str], reason: str = "") -> AnswerCommand:
    """Return the command that gives a client's answers to a request.

    Raises:
        CallRefusedError: they are none to a request of that kind.
    """
    if request.kind == APPROVAL:
        offered = possible_answers(request)
        word = answers[0] if len(answers) == 1 else ""
        if word not in offered:
            raise CallRefusedError(f"request {request.request_id} is an approval: answer it with {_one_of(offered)}")
        scope = SCOPES.get(word, ApprovalScope.ONCE)
        return Approve(
            request_id=request.request_id, allow=word in SCOPES, reason=reason, scope=scope.value, by=BY_CLIENT
        )
    if request.kind == DECISION:
        if not answers:
            raise CallRefusedError(
                f"request {request.request_id} is a decision: answer it with {_one_of(possible_answers(request))}"
            )
        return Decide(decision_id=request.request_id, selections=tuple(answers), by=BY_CLIENT)
    questions = request.details["questions"]
    given = [tuple(answers)] if len(questions) == 1 and answers else [(answer,) for answer in answers]
    return AnswerQuestion(request_id=request.request_id, answers=tuple(given), by=BY_CLIENT)


def _one_of(offered: Mapping[str, str]) -> str:
    return f"one of {', '.join(offered)}"


def _choices(*, covers: bool, edits: bool) -> dict[str, str]:
    left_out = {"session": not covers, "edits": not edits}
    return {word: said for word, said in CHOICES.items() if not left_out.get(word)}


def _call_question(summary: str, details: Mapping[str, Any]) -> str:
    parts = [
        f"vibe wants to: {both_ends(summary, SUMMARY_LENGTH)}",
        details["reason"],
        f"in {details['cwd']}" if details["cwd"] else "",
        both_ends(details["diff"], DIFF_LENGTH),
    ]
    return plain("\n".join(part for part in parts if part))


def _line(event: e.Event) -> str:
    """Return an event in a line; empty: of no note."""
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
