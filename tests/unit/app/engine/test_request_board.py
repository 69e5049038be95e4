"""One queue of requests: everyone is asked, and the first answer counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from msgspec import structs

from ipc.commands import AnswerQuestion, Approve, Reply, Requests, encode_reply
from ipc.events import (
    AnswerEvent,
    ApprovalRequestEvent,
    Event,
    PlanDecisionEvent,
    PlanPausedEvent,
    QuestionEvent,
)
from ipc.sink import MemorySink
from vibe.app.engine.request_board import AN_HOUR, Absentee, Company, RequestBoard
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Question, QuestionAnswer, UnansweredError, announcing

AUTH = Question.model_validate({
    "question": "Which one?",
    "header": "Auth",
    "options": [{"label": "JWT"}, {"label": "Cookies"}],
})
PARTS = AUTH.model_copy(update={"question": "Which parts?", "multi_select": True})


def asking(request_id: str = "abcdef12", **more: Any) -> ApprovalRequestEvent:
    return ApprovalRequestEvent(
        request_id=request_id,
        tool_call_id="c",
        tool="bash",
        arguments={"command": "make"},
        summary="bash: make",
        rule="ask",
        reason="",
        **more,
    )


def yes(request_id: str = "abcdef12", *, allow: bool = True, **more: Any) -> Approve:
    return Approve(request_id=request_id, allow=allow, reason="because", **more)


class Person:
    """Somebody who answers when told to, or whose question is withdrawn."""

    def __init__(self) -> None:
        self.asked, self.speaks = anyio.Event(), anyio.Event()
        self.withdrawn = False

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:  # noqa: ARG002  the port's signature
        await self._spoken()
        return ApprovalAnswer(allow=False, reason="mine")

    async def ask(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer]:  # noqa: ARG002
        await self._spoken()
        return [QuestionAnswer(question=each.question, answer="Cookies") for each in questions]

    async def _spoken(self) -> None:
        self.asked.set()
        try:
            await self.speaks.wait()
        except BaseException:
            self.withdrawn = True
            raise


async def meanwhile(waiting: Callable[[], Awaitable[object]], *commands: Callable[[], Awaitable[Reply]]) -> list[Any]:
    """Return the result of the request, then the replies to the commands that were sent while it was open.

    If the request is still open then, it is withdrawn.
    """
    replies: list[Any] = []
    got: list[Any] = []

    async def wait() -> None:
        got.append(await waiting())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            for command in commands:
                replies.append(await command())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    return [*(got or ["withdrawn"]), *replies]


@pytest.mark.parametrize("given", ["abcdef12", "abcd"])
@pytest.mark.parametrize("allow", [True, False])
async def test_an_answer_from_outside_withdraws_the_question_here(given: str, *, allow: bool) -> None:
    person = Person()
    board = RequestBoard(person)

    answer, reply = await meanwhile(lambda: board.approve(asking()), lambda: board.answer(yes(given, allow=allow)))

    said = "allowed" if allow else "denied"
    assert (reply.ok, reply.message, reply.data["request_id"]) == (True, said, "abcdef12")
    assert answer == ApprovalAnswer(allow=allow, reason="because", by="control")
    assert person.withdrawn
    again = await board.answer(yes(allow=allow))
    assert (again.ok, again.message) == (True, said)
    other = await board.answer(yes(allow=not allow))
    assert (other.ok, other.reason) == (False, "refused")
    assert other.message == f"already {said} by control"


async def test_who_comes_after_the_person_is_told_what_was_said() -> None:
    person = Person()
    person.speaks.set()
    board = RequestBoard(person, person.ask)
    assert await board.approve(asking()) == ApprovalAnswer(allow=False, reason="mine", by="user")
    reply = await board.answer(yes())
    assert (reply.ok, reply.message) == (False, "already denied by user")
    assert [each.answer for each in await board.ask([AUTH], "question1") or ()] == ["Cookies"]
    reply = await board.answer(AnswerQuestion(request_id="question1", answers=(("JWT",),), by="page"))
    assert (reply.ok, reply.message) == (False, "already answered (Cookies) by user")
    assert reply.data["by"] == "user"


async def test_of_two_who_answer_the_second_is_told_who_was_first() -> None:
    board = RequestBoard()
    answer, first, second = await meanwhile(
        lambda: board.approve(asking()),
        lambda: board.answer(yes(by="ana")),
        lambda: board.answer(yes(by="ben")),
    )
    assert (answer.by, first.ok) == ("ana", True)
    assert (second.ok, second.message) == (False, "already allowed by ana")


async def test_with_nobody_there_a_request_waits_and_is_denied_in_the_end() -> None:
    board = RequestBoard(patience_s=0.01)
    answer = await board.approve(asking())
    assert (answer.allow, answer.by) == (False, "timeout")
    assert (await board.answer(yes())).message == "already denied, as nobody answered in time"
    sink = MemorySink()
    assert await announcing(board.ask, sink)([AUTH], "question1") is None
    answered = sink.events[-1]
    assert isinstance(answered, AnswerEvent)
    assert (answered.cancelled, answered.by) == (True, "timeout")
    late = await board.answer(AnswerQuestion(request_id="question1", answers=(("JWT",),)))
    assert late.message == "already declined, as nobody answered in time"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "no request"),
        ("a", "no request"),
        ("abc", "no request"),
        ("zzzz", "no request"),
        ("ab\x1b[2J", "no request"),
        ("abcd", "matches several requests"),
    ],
)
async def test_what_names_no_request_is_refused_with_those_that_are_open(given: str, problem: str) -> None:
    board = RequestBoard(Person())
    replies: list[Reply] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(board.approve, asking("abcd1111"))
        tasks.start_soon(board.approve, asking("abcd2222"))
        await anyio.wait_all_tasks_blocked()
        replies.append(await board.answer(yes(given)))
        tasks.cancel_scope.cancel()
    (reply,) = replies
    assert (reply.ok, reply.reason) == (False, "refused")
    assert problem in reply.message
    assert "open: abcd1111 (bash: make), abcd2222 (bash: make)" in reply.message
    assert "\x1b" not in reply.message


async def test_a_request_that_was_withdrawn_is_not_open() -> None:
    board = RequestBoard(Person())
    with anyio.move_on_after(0):
        await board.approve(asking())
    assert board.open == []
    assert "open: none" in (await board.answer(yes())).message


@pytest.mark.parametrize(
    ("scope", "more", "problem"),
    [
        ("session", {}, "this can be allowed once"),
        ("always", {}, "this can be allowed once"),
        ("edits", {"covers": ("bash:make",)}, "not a file edit"),
        ("session", {"covers": ("bash:make",)}, ""),
        ("always", {"covers": ("bash:make",)}, ""),
        ("edits", {"edits": True}, ""),
    ],
)
async def test_a_lasting_yes_holds_where_one_is_offered(scope: Any, more: dict[str, Any], problem: str) -> None:
    board = RequestBoard()
    answer, reply = await meanwhile(lambda: board.approve(asking(**more)), lambda: board.answer(yes(scope=scope)))
    if problem:
        assert answer == "withdrawn"
        assert problem in reply.message
    else:
        assert (answer.allow, answer.scope) == (True, scope)
        assert (reply.ok, reply.message) == (True, f"allowed ({scope})")


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ((("JWT",), ("JWT", "Cookies")), [("JWT", False), ("JWT, Cookies", False)]),
        ((("a magic link",), ("none",)), [("a magic link", True), ("none", True)]),
    ],
)
async def test_an_agents_questions_are_answered_by_labels_or_own_words(given: Any, answers: Any) -> None:
    person = Person()
    board = RequestBoard(None, person.ask)
    got, reply = await meanwhile(
        lambda: board.ask([AUTH, PARTS], "question1"),
        lambda: board.answer(AnswerQuestion(request_id="ques", answers=given, by="page")),
    )
    assert [(each.answer, each.is_other) for each in got] == answers
    assert {each.by for each in got} == {"page"}
    assert person.withdrawn
    assert reply.ok


@pytest.mark.parametrize("is_nested", [False, True])
async def test_the_event_says_who_declined_to_answer(*, is_nested: bool) -> None:
    board, sink = RequestBoard(), MemorySink()
    asked = RequestBoard(None, board.ask) if is_nested else board
    got, reply = await meanwhile(
        lambda: announcing(asked.ask, sink)([AUTH], "question1"),
        lambda: board.answer(AnswerQuestion(request_id="question1", answers=(), by="ana")),
    )
    assert (got, reply.ok, reply.message, reply.data["by"]) == (None, True, "declined", "ana")
    answered = sink.events[-1]
    assert isinstance(answered, AnswerEvent)
    assert (answered.cancelled, answered.by) == (True, "ana")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((("JWT",), ("JWT",)), "give one answer per question: 1 expected, 2 given"),
        ((("JWT", "Cookies"),), "'Which one?' takes one answer; got 'JWT, Cookies'"),
    ],
)
async def test_answers_that_are_none_to_the_questions_are_refused(given: Any, problem: str) -> None:
    board = RequestBoard()
    got, reply = await meanwhile(
        lambda: board.ask([AUTH], "question1"),
        lambda: board.answer(AnswerQuestion(request_id="question1", answers=given)),
    )
    assert (got, reply.ok, reply.message) == ("withdrawn", False, problem)


async def test_conversations_and_plans_may_share_a_board() -> None:
    shared = RequestBoard()
    _, board = Company(approver=shared, user_input=shared.ask).with_board()
    assert board is shared
    _, board = Company(user_input=shared.ask).with_board()
    assert board not in {None, shared}
    hear(shared, ASKED, structs.replace(ASKED, request_id="other123", plan_id="q", subagent_step_id="test"))
    replies: list[Reply] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shared.approve, asking())
        tasks.start_soon(shared.approve, asking("other123"))
        await anyio.wait_all_tasks_blocked()
        replies.append(await shared.list_open(Requests()))
        tasks.cancel_scope.cancel()
    (reply,) = replies
    assert [(each["plan_id"], each["step_id"]) for each in reply.data["requests"]] == [("p", "build"), ("q", "test")]


def hear(board: RequestBoard, *events: Event) -> None:
    for event in events:
        board.publish(event)


ASKED = ApprovalRequestEvent(
    request_id="abcdef12",
    tool_call_id="c",
    tool="bash",
    arguments={},
    rule="ask",
    session_id="s",
    plan_id="p",
    subagent_id="a1",
    subagent_step_id="build",
)
QUESTIONED = QuestionEvent(request_id="question1", questions=(AUTH.model_dump(mode="json"),), session_id="s")
OPENED = PlanDecisionEvent(decision_id="db", question="Which database?", options=("pg", "files"), plan_id="p", ts=7.0)


async def test_a_request_that_is_announced_and_about_to_be_asked_is_listed_and_answered() -> None:
    board = RequestBoard()
    board.publish(
        QuestionEvent(
            session_id="s", request_id="abcdef12", tool_call_id="c", questions=(AUTH.model_dump(mode="json"),)
        )
    )
    replies: list[Reply] = []

    async def list_and_answer() -> None:
        replies.append(await board.list_open(Requests()))
        replies.append(await board.answer(AnswerQuestion(request_id="abcd", answers=(("JWT",),))))

    answered: Sequence[QuestionAnswer] | None = None
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_and_answer)
            await anyio.wait_all_tasks_blocked()
            assert replies == []
            answered = await board.ask([AUTH], "abcdef12")

    assert [reply.message for reply in replies] == ["1 request is open", "answered (JWT)"]
    assert answered == [QuestionAnswer(question="Which one?", answer="JWT", by="control")]


async def test_everything_open_is_listed_with_what_an_answer_needs() -> None:
    board = RequestBoard()
    asked = structs.replace(ASKED, arguments={"command": "make"}, summary="bash: make", covers=("bash:make",))
    hear(board, asked, QUESTIONED, OPENED)
    replies: list[Reply] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(board.approve, asked)
        tasks.start_soon(board.ask, [AUTH], "question1")
        await anyio.wait_all_tasks_blocked()
        replies.append(await board.list_open(Requests()))
        tasks.cancel_scope.cancel()
    (reply,) = replies
    approval, question, decision = reply.data["requests"]

    assert reply.message == "3 requests are open"
    assert b"bash: make" in encode_reply(reply), "it can be sent"
    assert (approval["kind"], approval["answer_with"], approval["request_id"]) == ("approval", "approve", "abcdef12")
    assert (approval["agent_id"], approval["step_id"], approval["plan_id"]) == ("a1", "build", "p")
    assert (approval["arguments"], approval["covers"]) == ({"command": "make"}, ("bash:make",))
    assert (question["kind"], question["answer_with"], question["session_id"]) == ("question", "answer", "s")
    assert question["questions"][0]["options"][1]["label"] == "Cookies"
    assert (decision["kind"], decision["answer_with"], decision["request_id"]) == ("decision", "decide", "db")
    assert (decision["options"], decision["plan_id"], decision["summary"]) == (("pg", "files"), "p", "Which database?")
    assert (await board.list_open(Requests())).data["requests"] == [decision], "the others were withdrawn"


@pytest.mark.parametrize(
    "over",
    [
        PlanDecisionEvent(decision_id="db", question="?", selections=("pg",), by="user", plan_id="p"),
        PlanDecisionEvent(decision_id="db", question="?", by="timeout", plan_id="p"),
        PlanPausedEvent(reason="decision", plan_id="p"),
    ],
)
async def test_a_decision_is_open_until_it_is_taken_or_its_plan_stops(over: Event) -> None:
    board = RequestBoard()
    hear(board, OPENED, PlanDecisionEvent(decision_id="db", question="?", options=("a",), plan_id="another"))
    assert len(board.open) == 2
    hear(board, over)
    assert [request.plan_id for request in board.open] == ["another"]


async def test_each_kind_is_answered_by_its_own_command() -> None:
    board = RequestBoard()
    hear(board, OPENED)
    got, approved = await meanwhile(lambda: board.ask([AUTH], "question1"), lambda: board.answer(yes("ques")))
    assert got == "withdrawn"
    assert approved.message == "request question1 is a question: answer it with 'answer'"
    answered = await board.answer(AnswerQuestion(request_id="db", answers=(("pg",),)))
    assert answered.message == "request db is a decision: answer it with 'decide'"


async def test_who_is_away_leaves_the_answers_to_others_for_a_while() -> None:
    over = anyio.Event()
    away = Absentee(over.wait, "too late", by="timeout")
    board = RequestBoard(away, away.answer)
    answers: list[ApprovalAnswer] = []

    async def ask(request_id: str) -> None:
        answers.append(await board.approve(asking(request_id)))

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "first")
        await anyio.wait_all_tasks_blocked()
        assert (await board.answer(yes("first"))).ok
    async with anyio.create_task_group() as group:
        group.start_soon(ask, "second")
        over.set()

    assert [(one.allow, one.by, one.reason) for one in answers] == [
        (True, "control", "because"),
        (False, "timeout", "too late"),
    ]
    with pytest.raises(UnansweredError, match="too late"):
        await board.ask([AUTH])
    assert (AN_HOUR.reason, AN_HOUR.by) == ("no answer within an hour", "timeout")
