"""Questions to a person, as models write them and as front ends ask them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Protocol
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ipc.events import AnswerEvent, QuestionEvent, RequestWithdrawnEvent
from ipc.sink import EventSink
from vibe.system.errors import VibeError

HEADER_LENGTH = 12


class Choice(BaseModel):
    """One answer to pick."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: Annotated[str, Field(min_length=1)]
    description: str = ""


class Question(BaseModel):
    """A question with two to four answers; the front end adds a free one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Annotated[str, Field(min_length=1)]
    header: Annotated[str, Field(max_length=HEADER_LENGTH)] = ""
    options: Annotated[list[Choice], Field(min_length=2, max_length=4)]
    multi_select: bool = False
    typed: SkipJsonSchema[bool] = False
    """An answer in the person's own words is wanted, so that a number is no option's; no model asks so."""


class QuestionAnswer(BaseModel):
    """Answer to a question: labels, or text of the person's own (``is_other``); ``by`` as in ``question.answered``."""

    model_config = ConfigDict(frozen=True)

    question: str
    answer: str
    is_other: bool = False
    by: str = "user"


class UnansweredError(VibeError):
    """Nobody was there to answer, though there might have been."""


class UserInput(Protocol):
    """Asks a person. Cancelling the call withdraws the questions."""

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """An answer to each question, in order; None if the person would rather not. Called once at a time.

        ``request_id`` is the one under which ``question.asked`` announced them.

        Raises:
            UnansweredError: nobody answered; the call counts as denied.
        """
        ...


def announced(
    ask: UserInput, sink: EventSink, queue: AbstractAsyncContextManager[object], tool_call_id: str = ""
) -> UserInput:
    """Return what asks through ``ask``, one call of the whole tree at a time, and announces question and answer.

    ``tool_call_id`` is the call that asks.
    """

    async def put(questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        async with queue:
            request_id = request_id or uuid4().hex
            asked = tuple(question.model_dump(mode="json") for question in questions)
            sink.publish(QuestionEvent(request_id=request_id, questions=asked, tool_call_id=tool_call_id))
            try:
                answers = await ask(questions, request_id)
            except UnansweredError:
                sink.publish(AnswerEvent(request_id=request_id, cancelled=True, by="nobody"))
                raise
            except BaseException:
                given_up = "the agent was stopped before anyone answered"
                sink.publish(RequestWithdrawnEvent(request_id=request_id, kind="question", reason=given_up))
                raise
            given = tuple(answer.model_dump(mode="json") for answer in answers or ())
            by = answers[0].by if answers else ""
            sink.publish(AnswerEvent(request_id=request_id, answers=given, cancelled=answers is None, by=by))
            return answers

    return put
