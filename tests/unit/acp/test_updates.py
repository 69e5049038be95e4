from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ipc import events as e
from tests.fakes.events import examples
from tests.fakes.stories import numbered, story
from vibe.acp.updates import OUTPUT_LENGTH, SessionUpdate, SessionUpdates


def told(*events: e.Event) -> list[SessionUpdate]:
    updates = SessionUpdates(Path("/project"))
    return [update for event in events for update in updates.for_event(event)]


def plain(update: SessionUpdate) -> dict[str, Any]:
    return update.model_dump(mode="json", by_alias=True, exclude_none=True)


def call(call_id: str = "c1", **more: Any) -> e.ToolCallEvent:
    return e.ToolCallEvent(tool_call_id=call_id, tool="bash", arguments={"command": "ls"}, summary="ls", **more)


def test_whatever_is_announced_can_be_told() -> None:
    assert told(*examples())


@pytest.mark.parametrize("seed", range(20))
def test_a_whole_run_can_be_told_and_every_call_that_began_has_an_end(seed: int) -> None:
    updates = [plain(update) for update in told(*numbered(story(Random(seed))))]

    begun = [one["toolCallId"] for one in updates if one["sessionUpdate"] == "tool_call"]
    known = {one["toolCallId"] for one in updates if one["sessionUpdate"] == "tool_call_update"}
    assert known <= set(begun)


def test_a_call_whose_work_was_stopped_has_an_end() -> None:
    updates = SessionUpdates(Path("/project"))
    for event in (call("a"), call("b"), e.ToolResultEvent(tool_call_id="a", tool="bash", status="ok", content="")):
        updates.for_event(event)

    assert [(one["toolCallId"], one["status"]) for one in map(plain, updates.end_calls())] == [("b", "failed")]
    assert updates.end_calls() == []


def test_an_answer_that_was_streamed_is_not_told_twice() -> None:
    piece = e.AssistantDeltaEvent(message_id="m", text="hello")
    whole = e.AssistantEvent(message_id="m", text="hello")

    assert [one["content"]["text"] for one in map(plain, told(piece, whole))] == ["hello"]
    assert [one["content"]["text"] for one in map(plain, told(whole))] == ["hello"]


def test_a_connection_that_broke_is_told_before_the_words_come_again() -> None:
    first, second = (e.AssistantDeltaEvent(message_id="m", text="hello", attempt=number) for number in (1, 2))

    kinds = [update.session_update for update in told(first, second)]

    assert kinds == ["agent_message_chunk", "agent_thought_chunk", "agent_message_chunk"]


def test_a_server_that_a_prompt_waits_for_is_told() -> None:
    slow = {
        status: e.ToolServerEvent(server="slow", transport="stdio", status=status) for status in ("starting", "ready")
    }

    updates = [plain(update) for update in told(*slow.values())]

    assert [(one["sessionUpdate"], one["content"]["text"]) for one in updates] == [
        ("agent_thought_chunk", "MCP server slow (stdio) starting\n")
    ]


def test_of_a_subagent_the_calls_are_told_and_not_the_words() -> None:
    started = e.SubAgentStartedEvent(
        title="look", mode="m", model="x", tools=(), max_tokens=1, max_turns=1, agent="explore", subagent_id="s"
    )
    words = e.AssistantDeltaEvent(message_id="m", text="hello", subagent_id="s")

    (shown,) = map(plain, told(started, words, call(subagent_id="s")))

    assert shown["title"] == "explore: ls"
    assert shown["toolCallId"] == "s/c1"


def test_output_is_shown_by_its_end() -> None:
    pieces = [e.ToolStreamEvent(tool_call_id="c1", tool="bash", text=f"{number}\n" * 4000) for number in range(5)]

    last = plain(told(call(), *pieces)[-1])

    text = last["content"][0]["content"]["text"]
    assert text.rstrip("`\n").endswith("4")
    assert len(text) < OUTPUT_LENGTH + 100


def test_the_context_and_the_price_are_told_after_each_call_of_the_model() -> None:
    asked = e.ModelStartedEvent(message_id="m", model="x", context_limit=1000)
    used = [e.UsageEvent(model="x", prompt_tokens=90, completion_tokens=10, cost_usd=0.5) for _ in range(2)]
    unpriced = e.UsageEvent(model="x", prompt_tokens=190, completion_tokens=10)

    updates = [plain(update) for update in told(asked, *used, unpriced)]

    assert [(one["used"], one["size"], one.get("cost", {}).get("amount")) for one in updates] == [
        (100, 1000, 0.5),
        (100, 1000, 1.0),
        (200, 1000, None),
    ]


def test_text_from_outside_can_not_move_a_cursor() -> None:
    (shown,) = map(plain, told(e.AssistantEvent(message_id="m", text="a\x1b[2Jb\x07c")))

    assert shown["content"]["text"] == "abc"
