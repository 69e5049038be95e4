"""Questions a tool puts to a person: what they look like, who can be asked, and that everyone hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Protocol
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from ipc.events import AnswerEvent, QuestionEvent
from ipc.sink import EventSink

HEADER_LENGTH = 12


class Choice(BaseModel):
    """One answer to pick."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: Annotated[str, Field(min_length=1)]
    description: str = ""


class Question(BaseModel):
    """A question with two to four answers; whoever asks adds a free one of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Annotated[str, Field(min_length=1)]
    header: Annotated[str, Field(max_length=HEADER_LENGTH)] = ""
    options: Annotated[list[Choice], Field(min_length=2, max_length=4)]
    multi_select: bool = False


class Answer(BaseModel):
    """Answer to a question: labels, or text of the person's own (``is_other``)."""

    model_config = ConfigDict(frozen=True)

    question: str
    answer: str
    is_other: bool = False


class UserInput(Protocol):
    """Asks a person. Cancelling the call withdraws the questions."""

    async def __call__(self, questions: Sequence[Question]) -> Sequence[Answer] | None:
        """An answer to each question, in order; None if the person would rather not. Called once at a time."""
        ...


class AnnouncedInput:
    """Asks through ``ask``, one call of the whole tree at a time, and announces question and answer."""

    def __init__(self, ask: UserInput, sink: EventSink, queue: AbstractAsyncContextManager[object]) -> None:
        self._ask = ask
        self._sink = sink
        self._queue = queue

    async def __call__(self, questions: Sequence[Question]) -> Sequence[Answer] | None:
        """Ask, once nobody else does."""
        async with self._queue:
            request_id = uuid4().hex
            asked = tuple(question.model_dump(mode="json") for question in questions)
            self._sink.publish(QuestionEvent(request_id=request_id, questions=asked))
            answers: Sequence[Answer] | None = None
            try:
                answers = await self._ask(questions)
            finally:
                given = tuple(answer.model_dump(mode="json") for answer in answers or ())
                self._sink.publish(AnswerEvent(request_id=request_id, answers=given, cancelled=answers is None))
            return answers
