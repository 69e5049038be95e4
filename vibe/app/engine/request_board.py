"""RequestBoard: the open requests of agents and plans, put to all front ends at once. The first answer counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeAlias, TypeVar
from uuid import uuid4

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from ipc import events as e
from ipc.commands import AnswerQuestion, Approve, Decide, Reply, Requests, tag_of
from ipc.control import refusal
from ipc.sink import EventSink
from vibe.app.engine.command_router import CommandRouter
from vibe.core.tools.ports import ApprovalAnswer, Approver
from vibe.core.tools.questions import DeclinedElsewhereError, Question, QuestionAnswer, UnansweredError, UserInput

BY_PERSON = "user"
BY_NOBODY = "nobody"
BY_TIMEOUT = "timeout"
SECONDS_WITHOUT_PERSON = 3_600.0
"""The time that a request waits if no user is at the terminal."""
ANNOUNCED_SECONDS = 2.0
"""The time within which an announced request is asked: an agent in another process sends the two one after the other.
"""
MOST_REMEMBERED = 1_000
"""The most answers that are remembered, so that a later answerer can be told the first answer."""
SHORTEST = 4
"""The fewest characters of a request's id that may stand for it."""
SHOWN_ID = 8
SHOWN = 100

Request: TypeAlias = e.ApprovalRequestEvent | e.QuestionEvent | e.PlanDecisionEvent
"""The event that opened a request. It has everything that an answer needs."""
KINDS: Mapping[type[Request], tuple[str, str]] = {
    e.ApprovalRequestEvent: ("approval", tag_of(Approve)),
    e.QuestionEvent: ("question", tag_of(AnswerQuestion)),
    e.PlanDecisionEvent: ("decision", tag_of(Decide)),
}
"""For each kind of request, its name and the command that answers it."""
ANSWERER_FIELDS: Mapping[type[Request], tuple[str, ...]] = {
    e.ApprovalRequestEvent: (
        *("tool_call_id", "tool", "arguments", "rule", "reason", "diff", "covers", "edits", "preview", "cwd"),
        "confined",
    ),
    e.QuestionEvent: ("questions",),
    e.PlanDecisionEvent: (
        *("options", "labels", "descriptions", "multi_select", "default", "timeout_seconds", "attempt"),
    ),
}
"""For each kind of request, the fields that those who answer from elsewhere get."""


def step_of(request: Request) -> str | None:
    """Return the step that a request is about; None if there is none, or it is unknown."""
    own = request.step_id if isinstance(request, e.PlanDecisionEvent) else None
    return own or request.subagent_step_id


def summary_of(request: Request) -> str:
    """Return what is asked, in one line."""
    match request:
        case e.ApprovalRequestEvent():
            return request.summary
        case e.QuestionEvent():
            return " / ".join(str(each["question"]) for each in request.questions)
        case e.PlanDecisionEvent():
            return request.question


def document_of(request: Request) -> dict[str, Any]:
    """Return a request as data; see ``ipc.commands.Requests``."""
    kind, answer_with = KINDS[type(request)]
    return {
        "request_id": request.request_id,
        "kind": kind,
        "answer_with": answer_with,
        "summary": summary_of(request),
        "session_id": request.session_id or None,
        "plan_id": request.plan_id,
        "agent_id": request.subagent_id,
        "step_id": step_of(request),
        **({"opened": request.ts} if isinstance(request, e.PlanDecisionEvent) else {}),
        **{name: getattr(request, name) for name in ANSWERER_FIELDS[type(request)]},
    }


class _Replies(Struct, frozen=True):
    """Answers to an agent's questions; None if the user declined to answer."""

    answers: Sequence[QuestionAnswer] | None
    by: str


class _Outcome(Struct, frozen=True):
    """The outcome of a request in words, and who decided it."""

    words: str
    by: str


A = TypeVar("A", bound=ApprovalAnswer | _Replies)


class _Pending(Struct, Generic[A], eq=False):
    """A request, and its answer once there is one. ``scope`` is cancelled then."""

    request: Request
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    answer: A | None = None


class RequestBoard(Struct, eq=False):
    """The approver and user input of conversations, plans and subagents.

    It asks everyone at once, on one event loop.

    ``_approver`` and ``_user_input`` ask the person at this process's terminal (None: no user is there). Everyone else
    answers by commands. Once a request has an answer, it is withdrawn from the others. Without a person, a request
    waits for ``patience_s`` and is then denied, or left without an answer.

    As an ``EventSink`` it learns where requests come from, and which decisions plans wait for. It lists those
    decisions, but the plan's own run judges the answers to them.
    """

    _approver: Approver | None = None
    _user_input: UserInput | None = None
    patience_s: float = SECONDS_WITHOUT_PERSON
    _announced: dict[str, e.ApprovalRequestEvent | e.QuestionEvent] = {}
    _asked: dict[str, _Pending[Any]] = {}
    _decisions: dict[tuple[str | None, str], e.PlanDecisionEvent] = {}
    _answered: dict[str, _Outcome] = {}
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def open(self) -> list[Request]:
        """Everything that waits for an answer: approvals, then questions, then decisions."""
        asked = sorted((each.request for each in self._asked.values()), key=lambda request: KINDS[type(request)])
        return [*asked, *self._decisions.values()]

    def publish(self, event: e.Event) -> None:
        """Take note of a request, an answer or a decision."""
        match event:
            case e.ApprovalRequestEvent() | e.QuestionEvent():
                self._announced[event.request_id] = event
            case e.ApprovalDecisionEvent() | e.AnswerEvent() | e.RequestWithdrawnEvent():
                self._announced.pop(event.request_id, None)
                self._notify()
            case e.PlanDecisionEvent(selections=(), by=""):
                self._decisions[event.plan_id, event.decision_id] = event
            case e.PlanDecisionEvent():
                if self._decisions.pop((event.plan_id, event.decision_id), None) is not None:
                    chosen = f"decided ({', '.join(event.selections)})" if event.selections else "left open"
                    self._remember(event.decision_id, _Outcome(chosen, event.by))
            case e.PlanPausedEvent() | e.PlanCompletedEvent():  # none of its agents waits any longer
                self._decisions = {key: each for key, each in self._decisions.items() if key[0] != event.plan_id}
            case _:
                pass

    # --- asking ---------------------------------------------------------------------------------------------------

    async def approve(self, request: e.ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the first answer; see ``Approver``. The person learns where the request comes from."""
        known = self._announced.get(request.request_id)
        request = known if isinstance(known, e.ApprovalRequestEvent) else request
        person = None if self._approver is None else partial(self._approver.approve, request)
        why = f"no answer within {self.patience_s / 60:g} minutes"
        late = ApprovalAnswer(allow=False, reason=why, by=BY_TIMEOUT)
        return await self._first_answer(_Pending(request), person, late)

    async def ask(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer]:
        """Return the first answers; see ``UserInput``.

        Raises:
            DeclinedElsewhereError: the first to answer declines, or nobody answers in time.
            UnansweredError: the person's front end gave up.
        """
        request_id = request_id or uuid4().hex
        put = tuple(question.model_dump(mode="json") for question in questions)
        request = self._announced.get(request_id) or e.QuestionEvent(request_id=request_id, questions=put)
        ask = self._user_input
        person = None if ask is None else partial(_ask_person, ask, questions, request_id)
        replies = await self._first_answer(_Pending(request), person, _Replies(None, BY_TIMEOUT))
        if replies.answers is None:
            raise DeclinedElsewhereError(replies.by)
        return replies.answers

    async def _first_answer(self, asked: _Pending[A], person: Callable[[], Awaitable[A]] | None, late: A) -> A:
        """Wait for the first answer, from here or by a command; without a person, return ``late`` in the end.

        Cancelling withdraws the request.
        """
        request_id = asked.request.request_id
        self._asked[request_id] = asked
        self._notify()
        try:
            with asked.scope:
                if person is None:
                    await anyio.sleep(self.patience_s)
                self._settle(asked, late if person is None else await person())
        finally:
            del self._asked[request_id]
            self._announced.pop(request_id, None)
        return asked.answer or late

    def _settle(self, asked: _Pending[A], answer: A) -> None:
        """Keep the answer if it is the first one."""
        if asked.answer is None:
            asked.answer = answer
            self._remember(asked.request.request_id, _outcome_of(answer))

    def _remember(self, request_id: str, outcome: _Outcome) -> None:
        self._answered[request_id] = outcome
        while len(self._answered) > MOST_REMEMBERED:
            del self._answered[next(iter(self._answered))]

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait_until_asked(self) -> None:
        """Wait until every announced request can be listed and answered."""
        with anyio.move_on_after(ANNOUNCED_SECONDS):
            while self._announced.keys() - self._asked.keys() - self._answered.keys():
                await self._changed.wait()

    # --- commands -------------------------------------------------------------------------------------------------

    async def list_open(self, _: Requests) -> Reply:
        """Return the open requests."""
        await self._wait_until_asked()
        requests = [*map(document_of, self.open)]
        count = {0: "no request is open", 1: "1 request is open"}.get(
            len(requests), f"{len(requests)} requests are open"
        )
        return Reply(ok=True, message=count, data={"requests": requests})

    async def answer(self, command: Approve | AnswerQuestion) -> Reply:
        """Take an answer about a call or to an agent's questions, or refuse it with the reason."""
        kind = e.ApprovalRequestEvent if isinstance(command, Approve) else e.QuestionEvent
        key = await self._find_request(command.request_id, kind)
        if isinstance(key, Reply):
            return key
        asked = self._asked.get(key)
        request = None if asked is None else asked.request
        try:
            given = _as_approval(command, request) if isinstance(command, Approve) else _as_replies(command, request)
        except ValueError as error:
            return refusal("refused", str(error))
        return self._take_answer(key, asked, given)

    async def _find_request(self, given: str, kind: type[Request]) -> str | Reply:
        """Return the id of the request that is meant, or why it can't be answered like this."""
        await self._wait_until_asked()
        kinds = {request.request_id: type(request) for request in self.open}
        known = {*kinds, *self._answered}
        found = [key for key in known if len(given) >= SHORTEST and key.startswith(given)]
        found = [given] if given in known else found
        if len(found) != 1:
            waiting = ", ".join(f"{_short(each)} ({summary_of(each)[:SHOWN]})" for each in self.open) or "none"
            problem = f"{given[:40]!r} matches several requests" if found else f"no request {given[:40]!r} is open"
            return refusal("refused", f"{problem}; open: {waiting}")
        (key,) = found
        if kinds.get(key, kind) is not kind:
            own, answer_with = KINDS[kinds[key]]
            return refusal("refused", f"request {key} is a {own}: answer it with {answer_with!r}")
        return key

    def _take_answer(self, key: str, asked: _Pending[Any] | None, answer: ApprovalAnswer | _Replies) -> Reply:
        if asked is not None and asked.answer is None:
            self._settle(asked, answer)
            asked.scope.cancel()
        first, own = self._answered.get(key, _Outcome("withdrawn", BY_NOBODY)), _outcome_of(answer)
        data = {"request_id": key, "by": first.by, "answer": first.words}
        if first == own:
            return Reply(ok=True, message=first.words, data=data)
        how = ", as nobody answered in time" if first.by == BY_TIMEOUT else f" by {first.by}"
        return Reply(ok=False, message=f"already {first.words}{how}", reason="refused", data=data)


class Absentee(Struct, frozen=True):
    """An ``Approver`` who leaves the answers to others. They may give them by commands until ``over`` returns.

    After that everything is denied for ``reason``, or left open. ``answer`` is a ``UserInput``, and ``decide`` is asked
    for the decisions of a plan.
    """

    over: Callable[[], Awaitable[object]]
    reason: str
    by: str = BY_NOBODY

    async def approve(self, request: e.ApprovalRequestEvent) -> ApprovalAnswer:  # noqa: ARG002  the port has it
        """Wait, then deny the call."""
        await self.over()
        return ApprovalAnswer(allow=False, reason=self.reason, by=self.by)

    async def answer(self, questions: Sequence[Question], request_id: str = "") -> None:  # noqa: ARG002  as above
        """Wait, then leave the questions without an answer.

        Raises:
            UnansweredError: always.
        """
        await self.over()
        raise UnansweredError(self.reason)

    async def decide(self, decision: e.PlanDecisionEvent) -> None:  # noqa: ARG002  as above
        """Wait, then leave the decision open."""
        await self.over()


AN_HOUR = Absentee(partial(anyio.sleep, SECONDS_WITHOUT_PERSON), "no answer within an hour", BY_TIMEOUT)
"""An absentee who leaves others an hour to answer."""


class Company(Struct, frozen=True, kw_only=True):
    """Those in this process who watch a run and who answer it. None means nobody."""

    listeners: Sequence[EventSink] = ()
    """Get every event."""
    approver: Approver | None = None
    """Allows or denies calls."""
    user_input: UserInput | None = None
    """Answers the agents' questions."""

    def with_board(self, *, waits: bool = False) -> tuple[Self, RequestBoard | None]:
        """Return the company with a board that puts requests to everyone, and the board (None: there are no requests).

        Conversations and plans may share a board. With ``waits``, requests are made even if no person is there.
        """
        if self.approver is None and self.user_input is None and not waits:
            return self, None
        shared = self.approver if isinstance(self.approver, RequestBoard) else None
        board = shared or RequestBoard(self.approver, self.user_input)
        approver = board if self.approver or waits else None
        user_input = board.ask if self.user_input or waits else None
        return replace(self, listeners=[board, *self.listeners], approver=approver, user_input=user_input), board


def serve_requests(table: CommandRouter, board: RequestBoard | None, not_asked: str) -> None:
    """Let ``board`` carry out a run's commands about requests; without a board, they are refused with the reason."""

    async def refuse(_: Requests | Approve | AnswerQuestion) -> Reply:
        return refusal("refused", not_asked)

    if board is None:
        table.on(Requests, refuse).on(Approve, refuse).on(AnswerQuestion, refuse)
    else:
        table.on(Requests, board.list_open).on(Approve, board.answer).on(AnswerQuestion, board.answer)


async def _ask_person(ask: UserInput, questions: Sequence[Question], request_id: str) -> _Replies:
    return _Replies(await ask(questions, request_id), BY_PERSON)


def _outcome_of(answer: ApprovalAnswer | _Replies) -> _Outcome:
    if isinstance(answer, ApprovalAnswer):
        scope = "" if answer.scope == "once" else f" ({answer.scope})"
        return _Outcome(f"allowed{scope}" if answer.allow else "denied", answer.by)
    if answer.answers is None:
        return _Outcome("declined", answer.by)
    return _Outcome(f"answered ({'; '.join(each.answer for each in answer.answers)[:SHOWN]})", answer.by)


def _as_approval(command: Approve, request: Request | None) -> ApprovalAnswer:
    """Return the answer about a call. ``request`` is None if the call has one already.

    Raises:
        ValueError: the request can't be allowed in that scope.
    """
    scope = command.scope if command.allow else "once"
    open_call = request if isinstance(request, e.ApprovalRequestEvent) else None
    if open_call is not None and scope == "edits" and not open_call.edits:
        raise ValueError("this is not a file edit, so approving all edits does not cover it")
    if open_call is not None and scope in {"session", "always"} and not open_call.covers:
        raise ValueError(f"this can be allowed once, but not for {scope}")
    return ApprovalAnswer(allow=command.allow, scope=scope, reason=command.reason, by=command.by)


def _as_replies(command: AnswerQuestion, request: Request | None) -> _Replies:
    """Return the answers as the agent gets them. ``request`` is None if it has some already.

    Raises:
        ValueError: they don't fit the questions.
    """
    given, by = command.answers, command.by
    if not isinstance(request, e.QuestionEvent):
        return _Replies([QuestionAnswer(question="", answer=", ".join(each)) for each in given] or None, by)
    questions = request.questions
    if given and len(given) != len(questions):
        raise ValueError(f"give one answer per question: {len(questions)} expected, {len(given)} given")
    return _Replies([_answer(question, each, by) for question, each in zip(questions, given, strict=False)] or None, by)


def _answer(question: Mapping[str, Any], given: Sequence[str], by: str) -> QuestionAnswer:
    labels = [option["label"] for option in question["options"]]
    is_other = not all(text in labels for text in given)
    if len(given) > 1 and (is_other or not question["multi_select"]):
        allowed = f"labels from {', '.join(labels)}" if question["multi_select"] else "one answer"
        raise ValueError(f"{question['question'][:SHOWN]!r} takes {allowed}; got {', '.join(given)[:SHOWN]!r}")
    return QuestionAnswer(question=question["question"], answer=", ".join(given), is_other=is_other, by=by)


def _short(request: Request) -> str:
    return request.request_id if isinstance(request, e.PlanDecisionEvent) else request.request_id[:SHOWN_ID]
