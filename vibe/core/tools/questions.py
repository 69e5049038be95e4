"""Questions to a person, as models write them and as front ends ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from ipc.events import AnswerEvent, QuestionEvent, RequestWithdrawnEvent
from ipc.sink import EventSink
from vibe.system.errors import VibeError

HEADER_LENGTH = 12
"""The most characters of a question's header."""


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
    """The person should answer in their own words, so a number never selects an option. Models can't set this."""


class QuestionAnswer(BaseModel):
    """The answer to a question: the chosen labels, or the person's own words if ``is_other``.

    ``by`` has the same meaning as in the ``question.answered`` event.
    """

    model_config = ConfigDict(frozen=True)

    question: str
    answer: str
    is_other: bool = False
    by: str = "user"


class UnansweredError(VibeError):
    """Nobody answered, although somebody might have been there."""


class DeclinedElsewhereError(VibeError):
    """Somebody declined to answer at another place; ``by`` has the same meaning as in ``question.answered``."""

    def __init__(self, by: str) -> None:
        super().__init__(f"declined by {by}")
        self.by = by


class UserInput(Protocol):
    """Asks a person. Cancelling the call withdraws the questions."""

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Return an answer to each question, in order, or None if the person declines. One call at a time.

        ``request_id`` is the id under which ``question.asked`` announced the questions.

        Raises:
            DeclinedElsewhereError: somebody else declines.
            UnansweredError: nobody answered; the call counts as denied.
        """
        ...


def announcing(ask: UserInput, sink: EventSink, tool_call_id: str = "") -> UserInput:
    """Return a UserInput that asks through ``ask`` and announces the questions and answers of the call that asks.

    It waits for no other request: whoever is asked elsewhere can answer any of them first.
    """

    async def put(questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        request_id = request_id or uuid4().hex
        asked = tuple(question.model_dump(mode="json") for question in questions)
        sink.publish(QuestionEvent(request_id=request_id, questions=asked, tool_call_id=tool_call_id))
        try:
            answers = await ask(questions, request_id)
            by = answers[0].by if answers else "user"
        except DeclinedElsewhereError as declined:
            answers, by = None, declined.by
        except UnansweredError:
            sink.publish(AnswerEvent(request_id=request_id, cancelled=True, by="nobody"))
            raise
        except BaseException:
            given_up = "the agent was stopped before anyone answered"
            sink.publish(RequestWithdrawnEvent(request_id=request_id, kind="question", reason=given_up))
            raise
        given = tuple(answer.model_dump(mode="json") for answer in answers or ())
        sink.publish(AnswerEvent(request_id=request_id, answers=given, cancelled=answers is None, by=by))
        return answers

    return put
