"""Messages to a working agent, and the rest of an answer that was broken off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio

from ipc.events import AssistantEvent, ModelEndedEvent, UserMessageEvent
from tests.fakes.engine import Bench
from tests.fakes.models import Endless, answer, calling
from vibe.core.agent_loop import INTERRUPTED_NOTICE
from vibe.core.llm.port import Completion
from vibe.core.messages import AssistantMessage, Message, Outcome, ToolMessage, Usage, UserMessage
from vibe.core.tools.hand_in import HAND_IN, HandIn

WRITE = ("write_file", {"path": "a.txt", "content": "hello\n"})


def kinds(messages: list[Message]) -> list[str]:
    return [type(message).__name__.removesuffix("Message") for message in messages]


async def test_what_is_said_meanwhile_is_told_before_the_next_call(tmp_path: Path) -> None:
    bench: Bench

    def answers() -> Iterator[Completion]:
        assert bench.loop.steer("mind the tests")
        yield calling(WRITE)
        yield answer("done")

    bench = Bench(root=tmp_path, answers=answers())

    result = await bench.loop.act("write")

    assert result.outcome is Outcome.COMPLETED
    assert kinds(bench.transcript.messages) == ["User", "Assistant", "Tool", "User", "Assistant"]
    assert bench.model.requests[1].messages[-1] == UserMessage("mind the tests")
    said = [event for event in bench.sink.events if isinstance(event, UserMessageEvent)]
    assert [(event.text, event.origin, event.message_index) for event in said] == [
        ("write", "prompt", 0),
        ("mind the tests", "steer", 3),
    ]
    assert [event.message_index for event in bench.sink.events if isinstance(event, AssistantEvent)] == [1, 4]


async def test_an_agent_does_not_end_without_what_was_said_during_its_last_answer(tmp_path: Path) -> None:
    bench: Bench

    def answers() -> Iterator[Completion]:
        assert bench.loop.steer("and the docs")
        yield answer("done")
        yield answer("docs, too")

    bench = Bench(root=tmp_path, answers=answers())

    result = await bench.loop.act("write")

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "docs, too")
    assert [m.content for m in bench.transcript.messages] == ["write", "done", "and the docs", "docs, too"]


async def test_an_agent_that_does_not_work_cannot_be_steered(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer("done")])
    assert not bench.loop.steer("too early")

    await bench.loop.act("go")

    assert not bench.loop.steer("too late")
    assert [m.content for m in bench.transcript.messages] == ["go", "done"]


async def test_what_was_said_is_kept_where_a_limit_ends_the_work(tmp_path: Path) -> None:
    bench: Bench

    def answers() -> Iterator[Completion]:
        assert bench.loop.steer("wait")
        yield calling(WRITE)

    bench = Bench(root=tmp_path, max_turns=1, answers=answers())

    assert (await bench.loop.act("go")).outcome is Outcome.LIMIT
    assert UserMessage("wait") in bench.transcript.messages


async def test_a_broken_off_answer_stays_as_far_as_it_went(tmp_path: Path) -> None:
    scope = anyio.CancelScope()

    def say_and_stop() -> None:
        assert bench.loop.steer("never mind")
        scope.cancel()

    answers = [calling(WRITE), Endless(text="I have ", meanwhile=say_and_stop)]
    bench = Bench(root=tmp_path, answers=answers, keeps_partial=True)

    with scope:
        await bench.loop.act("write")

    assert scope.cancelled_caught
    kept, *told = bench.transcript.messages[-3:]
    assert isinstance(kept, AssistantMessage)
    assert (kept.content, kept.interrupted) == ("I have ", True)
    assert kept.usage is not None
    assert kept.usage.prompt_tokens > 10
    assert bench.account.usage == Usage(10, 10, 0, 1) + kept.usage
    assert told == [UserMessage(INTERRUPTED_NOTICE), UserMessage("never mind")]
    last = [event for event in bench.sink.events if isinstance(event, AssistantEvent)][-1]
    assert (last.text, last.finish_reason, last.interrupted) == ("I have ", "interrupted", True)
    assert last.message_index == bench.transcript.messages.index(kept)
    assert [event.status for event in bench.sink.events if isinstance(event, ModelEndedEvent)] == ["ok", "cancelled"]


async def test_a_conversation_that_keeps_nothing_is_as_before_the_call(tmp_path: Path) -> None:
    scope = anyio.CancelScope()
    bench = Bench(root=tmp_path, answers=[calling(WRITE), Endless(text="I have ", meanwhile=scope.cancel)])

    with scope:
        await bench.loop.act("write")

    assert kinds(bench.transcript.messages) == ["User", "Assistant", "Tool"]
    assert isinstance(bench.transcript.messages[-1], ToolMessage)
    assert bench.account.usage.calls == bench.transcript.usage.calls == 2


async def test_an_agent_at_rest_is_told_when_it_goes_on_and_hands_in_once_more(tmp_path: Path) -> None:
    duty = HandIn(schema={"type": "integer"})
    first, second = (
        calling((HAND_IN, {"value": 1, "summary": "one"})),
        calling((HAND_IN, {"value": 2, "summary": "two"})),
    )
    bench = Bench(root=tmp_path, answers=iter([first, second]), hand_in=duty)
    assert (await bench.loop.act("count")).output == 1
    assert not bench.loop.has_unread
    assert not bench.loop.steer("it is at rest")

    assert bench.loop.steer("count again", at_rest=True)
    assert bench.loop.has_unread
    result = await bench.loop.resume()

    assert (result.outcome, result.output, bench.loop.has_unread) == (Outcome.COMPLETED, 2, False)
    assert bench.transcript.prompts[-1] == UserMessage("count again")
