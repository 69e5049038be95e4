"""RequestQueue: all that a person is asked, by the chat's agent, its subagents and plans; one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from uuid import uuid4

from anyio import Event
from msgspec import Struct

from ipc.commands import AnswerQuestion, Approve, Decide
from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent

if TYPE_CHECKING:
    from vibe.core.tools.ports import ApprovalAnswer
    from vibe.core.tools.questions import Question, QuestionAnswer
    from vibe.view.agent_view import RequestView

RequestPayload: TypeAlias = ApprovalRequestEvent | QuestionEvent | PlanDecisionEvent
RequestReply: TypeAlias = Approve | AnswerQuestion | Decide
"""The command that gives it; its sender fills in ``by``."""
RemoteAnswer: TypeAlias = Callable[[RequestReply], Awaitable[str]]
"""Sends a reply to another process; returns why it was refused, or nothing."""
T = TypeVar("T")
R = TypeVar("R", Approve, AnswerQuestion, Decide)


class PendingRequest(Struct, kw_only=True, eq=False):
    """Something that waits for the person; ``id`` is that of the view's request, ``event`` what opened it."""

    id: str
    event: RequestPayload
    queue: RequestQueue
    give: RemoteAnswer

    @property
    def step_name(self) -> str:
        """The name of the step that asks; empty: none does, or it is not known yet."""
        return self.queue.step_of(self.id)


class Awaited(Generic[T]):
    """An answer of the person that is waited for; the first one counts."""

    def __init__(self) -> None:
        self._answers: list[T] = []
        self._is_given = Event()

    def give(self, answer: T) -> None:
        """Answer."""
        self._answers.append(answer)
        self._is_given.set()

    async def given(self) -> T:
        """Wait for the answer."""
        await self._is_given.wait()
        return self._answers[0]


class RequestQueue:
    """Approver, user input and decider of everything in this process, and the place where other processes' ask.

    One event loop. A call waits for the person, and is withdrawn when it is cancelled. ``step_of`` tells the name
    of the step that asks, by the request's id.
    """

    def __init__(self, step_of: Callable[[str], str]) -> None:
        self.step_of = step_of
        self.changed: Callable[[], object] = lambda: None
        """Called when a request came or left."""
        self._pending: dict[str, PendingRequest] = {}

    # --- what waits

    @property
    def pending(self) -> Sequence[PendingRequest]:
        """Everything that waits for the person, the oldest first."""
        return tuple(self._pending.values())

    async def answer(self, pending: PendingRequest, reply: RequestReply) -> str:
        """Give the person's reply; returns why it was not taken, or nothing. A second reply changes nothing."""
        if self._pending.get(pending.id) is not pending:
            return "already answered, or withdrawn"
        problem = await pending.give(reply)
        if not problem:
            self._remove(pending)
        return problem

    # --- this process

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer; see ``vibe.core.tools.ports.Approver``."""
        from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope  # noqa: PLC0415  after the first frame

        reply = await self._ask(Approve, request.request_id, request)
        return ApprovalAnswer(allow=reply.allow, scope=ApprovalScope(reply.scope), reason=reply.reason)

    async def user_input(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Return the person's answers; see ``vibe.core.tools.questions.UserInput``."""
        from vibe.core.tools.questions import QuestionAnswer  # noqa: PLC0415  pydantic: after the first frame

        request_id = request_id or uuid4().hex
        asked = tuple(question.model_dump(mode="json") for question in questions)
        event = QuestionEvent(request_id=request_id, questions=asked)
        reply = await self._ask(AnswerQuestion, request_id, event)
        if not reply.answers:
            return None
        return [
            QuestionAnswer(
                question=question.question,
                answer=", ".join(given),
                is_other=not {*given} <= {option.label for option in question.options},
            )
            for question, given in zip(questions, reply.answers, strict=True)
        ]

    async def decider(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        """Return the ids of the options picked; see ``vibe.app.plan.decision_prompter.DecisionAsker``."""
        request_id = f"{decision.plan_id}:{decision.decision_id}"
        reply = await self._ask(Decide, request_id, decision)
        return reply.selections

    async def _ask(self, kind_of_reply: type[R], request_id: str, event: RequestPayload) -> R:
        answer = Awaited[R]()

        async def give(reply: RequestReply) -> str:
            if not isinstance(reply, kind_of_reply):
                raise TypeError(f"{reply!r} is no answer to {event!r}")
            answer.give(reply)
            return ""

        pending = PendingRequest(id=request_id, event=event, queue=self, give=give)
        self._add(pending)
        try:
            return await answer.given()
        finally:
            self._remove(pending)

    # --- other processes

    def add_remote(self, request: RequestView, answer: RemoteAnswer) -> None:
        """Have the person answer a request of another process; ``answer`` sends what they say. One known is no news."""
        if request.id not in self._pending:
            self._add(PendingRequest(id=request.id, event=request.event, queue=self, give=answer))

    def withdraw(self, request_id: str) -> None:
        """Take a request away that was answered elsewhere or withdrawn; an unknown one is ignored."""
        found = self._pending.get(request_id)
        if found is not None:
            self._remove(found)

    def _add(self, pending: PendingRequest) -> None:
        self._pending[pending.id] = pending
        self.changed()

    def _remove(self, pending: PendingRequest) -> None:
        if self._pending.get(pending.id) is pending:
            del self._pending[pending.id]
            self.changed()
