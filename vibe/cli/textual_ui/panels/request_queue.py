"""RequestQueue: holds what the chat's agent, its subagents and plans ask the person, until it is answered."""

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
"""The command that carries an answer; its sender fills in ``by``."""
RemoteAnswer: TypeAlias = Callable[[RequestReply], Awaitable[str]]
"""Sends a reply to another process, and returns why it was refused, or a blank string."""
T = TypeVar("T")
R = TypeVar("R", Approve, AnswerQuestion, Decide)


class PendingRequest(Struct, kw_only=True, eq=False):
    """A request that waits for the person; ``id`` is the view's id of it, and ``event`` opened it."""

    id: str
    event: RequestPayload
    queue: RequestQueue
    give: RemoteAnswer


class PendingAnswer(Generic[T]):
    """An answer of the person that can be awaited; only the first one counts."""

    def __init__(self) -> None:
        self._answers: list[T] = []
        self._is_given = Event()

    def give(self, answer: T) -> None:
        """Give the answer."""
        self._answers.append(answer)
        self._is_given.set()

    async def given(self) -> T:
        """Wait for the answer."""
        await self._is_given.wait()
        return self._answers[0]


class RequestQueue:
    """Asks the person: as approver, user input and decider of this process, and on behalf of other processes.

    It must be used in one event loop. A call waits for the person, and cancelling it withdraws the request. ``step_of``
    returns the name of the step that asks, given the request's id; blank if no step does, or it is not known yet.
    """

    def __init__(self, step_of: Callable[[str], str]) -> None:
        self.step_of = step_of
        self.changed: Callable[[], object] = lambda: None
        """Called when a request is added or removed."""
        self._pending: dict[str, PendingRequest] = {}

    # --- what waits

    @property
    def pending(self) -> Sequence[PendingRequest]:
        """All requests that wait for the person, oldest first."""
        return tuple(self._pending.values())

    async def answer(self, pending: PendingRequest, reply: RequestReply) -> str:
        """Give the person's reply, and return why it was refused, or a blank string; a second reply is refused."""
        if self._pending.get(pending.id) is not pending:
            return "already answered, or withdrawn"
        problem = await pending.give(reply)
        if not problem:
            self._remove(pending)
        return problem

    # --- this process

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Ask for approval of a call; see ``vibe.core.tools.ports.Approver``."""
        from vibe.core.tools.ports import ApprovalAnswer  # noqa: PLC0415  after the first frame

        reply = await self._ask(Approve, request.request_id, request)
        return ApprovalAnswer(allow=reply.allow, scope=reply.scope, reason=reply.reason)

    async def user_input(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Ask questions, and return the person's answers; see ``vibe.core.tools.questions.UserInput``."""
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
        """Ask for a decision, and return the picked options; see ``vibe.app.plan.decision_prompter.DecisionAsker``."""
        reply = await self._ask(Decide, f"{decision.plan_id}:{decision.decision_id}", decision)
        return reply.selections

    async def _ask(self, kind_of_reply: type[R], request_id: str, event: RequestPayload) -> R:
        answer = PendingAnswer[R]()

        async def give(reply: RequestReply) -> str:
            if not isinstance(reply, kind_of_reply):
                raise TypeError(f"{reply!r} is not an answer to {event!r}")
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
        """Add a request of another process, unless it is known already; ``answer`` sends the person's reply."""
        if request.id not in self._pending:
            self._add(PendingRequest(id=request.id, event=request.event, queue=self, give=answer))

    def withdraw(self, request_id: str) -> None:
        """Remove a request that was answered elsewhere or withdrawn; an unknown id is ignored."""
        if request_id in self._pending:
            self._remove(self._pending[request_id])

    def _add(self, pending: PendingRequest) -> None:
        self._pending[pending.id] = pending
        self.changed()

    def _remove(self, pending: PendingRequest) -> None:
        if self._pending.get(pending.id) is pending:
            del self._pending[pending.id]
            self.changed()
