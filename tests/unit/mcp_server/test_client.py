"""A client's words as answers to what a plan waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from ipc.commands import AnswerQuestion, Approve, Decide
from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from vibe.app.engine.request_board import Request
from vibe.mcp_server.client import ClientPrompter, answer_command, possible_answers
from vibe.mcp_server.tools import Caller, CallRefusedError

APPROVAL = ApprovalRequestEvent(
    request_id="r1",
    tool_call_id="c1",
    tool="bash",
    arguments={},
    rule="ask",
    summary="Sure?",
    covers=("make",),
    edits=True,
    cwd="/w",
    diff="+new",
)
DECISION = PlanDecisionEvent(decision_id="r1", question="Sure?", options=("l", "r"), labels=("Left", "Right"))
ASKED = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multi_select": False}
QUESTION = QuestionEvent(request_id="r1", questions=(ASKED,))


def asked(request: Request, **fields: Any) -> Request:
    return structs.replace(request, **fields)


class Answering(Caller):
    """A client whose person gives one answer to everything."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    @property
    def can_be_asked(self) -> bool:
        return True

    @property
    def connection(self) -> str:
        return ""

    async def ask(self, message: str, choices: Mapping[str, str]) -> str | None:
        self.asked.append((message, choices))
        return self._answer

    async def report(self, count: int, message: str) -> None:
        raise AssertionError((count, message))


@pytest.mark.parametrize(
    ("word", "allow", "scope"),
    [("yes", True, "once"), ("session", True, "session"), ("edits", True, "edits"), ("no", False, "once")],
)
def test_a_word_is_an_answer_to_an_approval(word: str, allow: bool, scope: str) -> None:  # noqa: FBT001
    command = answer_command(asked(APPROVAL), [word], "because")

    assert isinstance(command, Approve)
    assert (command.request_id, command.allow, command.scope, command.reason) == ("r1", allow, scope, "because")


@pytest.mark.parametrize("given", [[], ["perhaps"], ["yes", "no"], ["always"]])
def test_other_words_are_refused_with_those_there_are(given: list[str]) -> None:
    with pytest.raises(CallRefusedError, match="yes, session, edits, no"):
        answer_command(asked(APPROVAL), given)


def test_what_would_not_last_is_not_offered() -> None:
    assert list(possible_answers(asked(APPROVAL, covers=(), edits=False))) == ["yes", "no"]


def test_a_decision_takes_options_and_at_least_one() -> None:
    assert answer_command(asked(DECISION), ["l", "r"]) == Decide(decision_id="r1", selections=("l", "r"), by="client")
    with pytest.raises(CallRefusedError, match="one of l, r"):
        answer_command(asked(DECISION), [])


def test_answers_to_questions_are_one_each_and_of_a_single_one_all_that_are_given() -> None:
    several = asked(QUESTION, questions=(ASKED, ASKED))

    assert answer_command(asked(QUESTION), ["A", "B"]) == AnswerQuestion(
        request_id="r1", answers=(("A", "B"),), by="client"
    )
    assert answer_command(several, ["A", "my own"]) == AnswerQuestion(
        request_id="r1", answers=(("A",), ("my own",)), by="client"
    )
    assert answer_command(asked(QUESTION), []) == AnswerQuestion(request_id="r1", answers=(), by="client")


async def test_a_person_who_says_nothing_to_a_call_says_no_and_leaves_the_rest_open() -> None:
    silent = ClientPrompter(Answering(None))

    denied = await silent.answer(asked(APPROVAL))

    assert isinstance(denied, Approve)
    assert (denied.allow, denied.reason) == (False, "nobody said yes")
    assert await silent.answer(asked(DECISION)) is None
    assert await silent.answer(asked(QUESTION)) is None


async def test_a_person_is_asked_with_the_options_and_not_what_takes_several() -> None:
    caller = Answering("r")
    prompter = ClientPrompter(caller)

    assert await prompter.answer(asked(DECISION)) == Decide(decision_id="r1", selections=("r",), by="client")
    assert caller.asked == [("Sure?", {"l": "Left", "r": "Right"})]
    assert await prompter.answer(asked(DECISION, multi_select=True)) is None
    assert await prompter.answer(asked(QUESTION, questions=(ASKED, ASKED))) is None
    assert len(caller.asked) == 1
