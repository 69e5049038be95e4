from __future__ import annotations

import anyio
import pytest
from anyio import to_thread

from ipc.commands import Approve, Reply
from vibe.app.engine.request_board import RequestBoard
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest


def asking(request_id: str = "abcdef12") -> ApprovalRequest:
    return ApprovalRequest(
        request_id=request_id, tool_call_id="c", tool="bash", arguments={}, summary="bash: make", rule="ask", reason=""
    )


def yes(request_id: str = "abcdef12", *, allow: bool = True) -> Approve:
    return Approve(request_id=request_id, allow=allow, reason="because")


class Person:
    """Somebody who answers once told to, or whose question is withdrawn."""

    def __init__(self) -> None:
        self.asked, self.speaks = anyio.Event(), anyio.Event()
        self.withdrawn = False

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG002  the port's word
        self.asked.set()
        try:
            await self.speaks.wait()
        except BaseException:
            self.withdrawn = True
            raise
        return ApprovalAnswer(allow=False, reason="mine")


@pytest.mark.parametrize("given", ["abcdef12", "abcd"])
@pytest.mark.parametrize("allow", [True, False])
async def test_an_answer_from_outside_withdraws_the_question_here(given: str, *, allow: bool) -> None:
    person = Person()
    board = RequestBoard(person)
    answers: list[ApprovalAnswer] = []
    replies: list[Reply] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                answers.append(await board.approve(asking()))

            tasks.start_soon(ask)
            await person.asked.wait()
            replies.append(await to_thread.run_sync(board.answer, yes(given, allow=allow)))
    (reply,) = replies
    assert (reply.ok, reply.message, reply.data) == (True, "allowed" if allow else "denied", {"request_id": "abcdef12"})
    assert answers == [ApprovalAnswer(allow=allow, reason="because", by="control")]
    assert person.withdrawn
    again = await to_thread.run_sync(board.answer, yes(allow=allow))
    assert (again.ok, again.message) == (True, reply.message)
    other = await to_thread.run_sync(board.answer, yes(allow=not allow))
    assert (other.ok, other.reason) == (False, "refused")
    assert other.message == f"it was {reply.message} before, by control"


async def test_who_comes_after_the_person_is_told_what_was_said() -> None:
    person = Person()
    person.speaks.set()
    board = RequestBoard(person)
    assert await board.approve(asking()) == ApprovalAnswer(allow=False, reason="mine", by="user")
    reply = await to_thread.run_sync(board.answer, yes())
    assert (reply.ok, reply.message) == (False, "it was denied before, by user")


async def test_with_nobody_there_a_request_waits_and_is_denied_in_the_end() -> None:
    board = RequestBoard(None, patience_s=0.01)
    answer = await board.approve(asking())
    assert (answer.allow, answer.by) == (False, "timeout")
    assert (await to_thread.run_sync(board.answer, yes())).message == "it was denied before, by timeout"


@pytest.mark.parametrize("given", ["", "a", "abc", "zzzz", "ab\x1b[2J", "abcd"])
async def test_what_names_no_request_is_refused_with_those_that_are_open(given: str) -> None:
    board = RequestBoard(Person())
    replies: list[Reply] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(board.approve, asking("abcd1111"))
        tasks.start_soon(board.approve, asking("abcd2222"))
        await anyio.wait_all_tasks_blocked()
        replies.append(await to_thread.run_sync(board.answer, yes(given)))
        tasks.cancel_scope.cancel()
    (reply,) = replies
    assert not reply.ok
    assert "open: abcd1111 (bash: make), abcd2222 (bash: make)" in reply.message
    assert "\x1b" not in reply.message


async def test_a_request_that_was_withdrawn_is_not_open() -> None:
    board = RequestBoard(Person())
    with anyio.move_on_after(0):
        await board.approve(asking())
    assert "open: none" in (await to_thread.run_sync(board.answer, yes())).message
