"""Conversations in the format of the Messages API: blocks, turns, thoughts sent back, and cache marks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.fakes.llm_ports import request
from vibe.core.config.models import ModelConfig, Thinking
from vibe.core.llm.backend.anthropic import CONTINUE, NOTHING, START, MessagesEncoder, generation
from vibe.core.llm.history import EMPTY_ANSWER, normalised
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import (
    AssistantMessage,
    Image,
    Message,
    SystemMessage,
    Thought,
    ToolCall,
    ToolMessage,
    UserMessage,
)

MARK = {"type": "ephemeral"}
TOOLS = (
    ToolSchema(name="list", description="Lists.", parameters={"properties": {}}),
    ToolSchema(name="read", description="Reads.", parameters={"type": "object", "anyOf": [{"required": ["p"]}]}),
)
HISTORY = (
    SystemMessage("be brief"),
    UserMessage("go"),
    AssistantMessage("I look", (ToolCall("a1", "read", '{"p":1}'), ToolCall("b", "list", "{oops")), "hm"),
    ToolMessage("text", "a1", "read"),
    ToolMessage("", "b", "list", "error"),
    UserMessage("and now?"),
)


def body_of(*messages: Message, model: ModelConfig | None = None, **more: Any) -> dict[str, Any]:
    asked = ModelRequest(model=model or ModelConfig(name="m", provider="p"), messages=messages, **more)
    return json.loads(MessagesEncoder().encode(asked))


def unmarked(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [
        (message["role"], [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]])
        for message in messages
    ]


def test_a_conversation_is_said_in_blocks_and_turns() -> None:
    body = body_of(*HISTORY, tools=TOOLS, model=ModelConfig(name="m1", provider="p", temperature=0.5))
    assert (body["model"], body["stream"], body["temperature"], body["max_tokens"]) == ("m1", True, 0.5, 32_000)
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": MARK}]
    assert body["tools"] == [
        {"name": "list", "description": "Lists.", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "read",
            "description": "Reads.",
            "input_schema": {"type": "object", "properties": {}},
            "cache_control": MARK,
        },
    ]
    assert unmarked(body["messages"]) == [
        ("user", [{"type": "text", "text": "go"}]),
        (
            "assistant",
            [
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "a1", "name": "read", "input": {"p": 1}},
                {"type": "tool_use", "id": "b", "name": "list", "input": {"malformed_arguments": "{oops"}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a1", "content": "text"},
                {"type": "tool_result", "tool_use_id": "b", "content": NOTHING, "is_error": True},
                {"type": "text", "text": "and now?"},
            ],
        ),
    ]


def test_the_last_two_turns_of_the_user_are_marked_for_the_cache() -> None:
    body = body_of(*HISTORY, AssistantMessage("ok"), UserMessage("more"), tools=TOOLS)
    marks = [
        (number, position)
        for number, message in enumerate(body["messages"])
        for position, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marks == [(2, 2), (4, 0)]
    assert json.dumps(body).count("cache_control") == 4


def test_what_was_marked_last_time_is_the_same_this_time() -> None:
    encoder = MessagesEncoder()
    first = encoder.encode(request(*HISTORY))
    second = encoder.encode(request(*HISTORY, AssistantMessage("ok"), UserMessage("more")))
    mark = b',"cache_control":{"type":"ephemeral"}'
    prefix = first[: first.rindex(b"and now?")].replace(mark, b"")
    assert second.replace(mark, b"").startswith(prefix)
    assert second == MessagesEncoder().encode(request(*HISTORY, AssistantMessage("ok"), UserMessage("more")))


@pytest.mark.parametrize(
    ("messages", "roles"),
    [
        ((), ["user"]),
        ((AssistantMessage("hello"),), ["user", "assistant", "user"]),
        ((UserMessage("a"), UserMessage("b")), ["user"]),
        ((UserMessage("a"), AssistantMessage("b"), AssistantMessage("c")), ["user", "assistant", "user"]),
    ],
)
def test_user_and_model_take_turns_and_the_user_begins_and_ends(
    messages: tuple[Message, ...], roles: list[str]
) -> None:
    told = body_of(*messages)["messages"]
    assert [message["role"] for message in told] == roles
    if not messages or isinstance(messages[0], AssistantMessage):
        assert told[0]["content"][0]["text"] == START
    if messages and isinstance(messages[-1], AssistantMessage):
        assert told[-1]["content"][0]["text"] == CONTINUE


def test_nothing_is_sent_that_has_no_text() -> None:
    system = body_of(SystemMessage(" "), UserMessage("\n"), AssistantMessage(" \n"), UserMessage("x"))
    assert "system" not in system
    assert [block["text"] for message in system["messages"] for block in message["content"]] == [
        NOTHING,
        EMPTY_ANSWER,
        "x",
    ]


def test_images_follow_the_text_they_came_with() -> None:
    image = Image("image/png", "aGk=")
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    body = body_of(
        UserMessage("look", (image,)),
        AssistantMessage("", (ToolCall("a", "read", "{}"),)),
        ToolMessage("a picture", "a", "read", images=(image,)),
        UserMessage("", (image,)),
    )
    assert unmarked(body["messages"]) == [
        ("user", [{"type": "text", "text": "look"}, shown]),
        ("assistant", [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "a picture"}, shown]},
                shown,
            ],
        ),
    ]


SIGNED = Thought("p/m", "first", "sig1")
LATER = Thought("p/m", "then", "sig2", after_characters=6, after_calls=1)
SEALED = Thought("p/m", sealed="EmwK", after_characters=6, after_calls=1)
CALLS = (ToolCall("a", "read", "{}"), ToolCall("b", "list", "{}"))


def test_thoughts_go_back_unchanged_and_where_they_stood() -> None:
    said = AssistantMessage("Hello.", CALLS, "first then", thoughts=(SIGNED, LATER, SEALED))
    body = body_of(UserMessage("go"), said, ToolMessage("x", "a", "read"), ToolMessage("y", "b", "list"))
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "first", "signature": "sig1"},
        {"type": "text", "text": "Hello."},
        {"type": "tool_use", "id": "a", "name": "read", "input": {}},
        {"type": "thinking", "thinking": "then", "signature": "sig2"},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "tool_use", "id": "b", "name": "list", "input": {}},
    ]


def test_thoughts_go_to_nobody_else_and_torn_ones_nowhere() -> None:
    said = AssistantMessage("Hello.", thoughts=(SIGNED,))
    for other in (ModelConfig(name="m2", provider="p"), ModelConfig(name="m", provider="q")):
        body = body_of(UserMessage("go"), said, UserMessage("on"), model=other)
        assert body["messages"][1]["content"] == [{"type": "text", "text": "Hello."}]
    torn = AssistantMessage("", thoughts=(Thought("p/m", "I was about"),), cut=True)
    assert body_of(UserMessage("go"), torn, UserMessage("on"))["messages"][1]["content"][0]["text"] == EMPTY_ANSWER


def test_one_encoder_serves_models_that_do_not_share_thoughts() -> None:
    encoder = MessagesEncoder()
    messages = (UserMessage("go"), AssistantMessage("Hello.", thoughts=(SIGNED,)), UserMessage("on"))
    for name in ("m", "other", "m"):
        model = ModelConfig(name=name, provider="p")
        said = json.loads(encoder.encode(ModelRequest(model=model, messages=messages)))["messages"][1]["content"]
        assert len(said) == (2 if name == "m" else 1)


def test_ids_of_other_providers_are_made_to_fit_and_never_repeat() -> None:
    def turn(*ids: str) -> list[Message]:
        calls = tuple(ToolCall(one, "read", "{}") for one in ids)
        return [AssistantMessage("", calls), *(ToolMessage(f"of {one}", one, "read") for one in ids)]

    body = body_of(UserMessage("go"), *turn("functions.read:0", "call_1"), *turn("call_1"), *turn("call_1", "call_1"))
    used = [b["id"] for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
    answered = [b["tool_use_id"] for m in body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert used == ["functions_read_0", "call_1", "call_1_2", "call_1_3", "call_1_4"]
    assert answered == used


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("claude-3-opus-20240229", (3, 0)),
        ("claude-3-5-sonnet-latest", (3, 5)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("claude-opus-4-5-20251101", (4, 5)),
        ("anthropic/claude-opus-4.7", (4, 7)),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", (4, 5)),
        ("claude-sonnet-5", (5, 0)),
        ("claude-mythos-preview", (99, 0)),
        ("glm-5", None),
    ],
)
def test_a_models_generation_is_in_its_name(name: str, version: tuple[int, int] | None) -> None:
    assert generation(name) == version


def settings_of(name: str, thinking: Thinking, **more: Any) -> dict[str, Any]:
    body = body_of(UserMessage("go"), model=ModelConfig(name=name, provider="p", thinking=thinking, **more))
    return {key: body[key] for key in ("thinking", "output_config", "temperature") if key in body}


def test_how_much_to_think_is_said_as_the_model_takes_it() -> None:
    adaptive = {"type": "adaptive", "display": "summarized"}
    assert settings_of("claude-opus-4-5", Thinking.HIGH) == {"thinking": {"type": "enabled", "budget_tokens": 16_000}}
    assert settings_of("glm-5", Thinking.LOW) == {"thinking": {"type": "enabled", "budget_tokens": 4_000}}
    for name in ("claude-sonnet-4-6", "claude-opus-4-7", "claude-sonnet-5"):
        assert settings_of(name, Thinking.MAX) == {"thinking": adaptive, "output_config": {"effort": "max"}}


def test_a_temperature_goes_only_to_models_that_take_one() -> None:
    assert settings_of("claude-sonnet-4-6", Thinking.OFF) == {"temperature": 0.2}
    assert settings_of("glm-5", Thinking.OFF, temperature=1.5) == {"temperature": 1.0}
    assert settings_of("claude-opus-4-7", Thinking.OFF) == {}


@pytest.mark.parametrize(("bound", "budget"), [(8_000, 6_000), (2_000, 1_500), (1_000, None)])
def test_thinking_leaves_room_for_the_answer(bound: int, budget: int | None) -> None:
    told = settings_of("claude-haiku-4-5", Thinking.HIGH, max_output_tokens=bound)
    assert told.get("thinking", {}).get("budget_tokens") == budget


def test_calls_of_another_model_are_finished_without_thinking() -> None:
    model = ModelConfig(name="claude-haiku-4-5", provider="p", thinking=Thinking.HIGH)
    own = Thought("p/claude-haiku-4-5", "hm", "s")
    turn = [UserMessage("go"), AssistantMessage("", CALLS[:1]), ToolMessage("x", "a", "read")]
    assert "thinking" not in body_of(*turn, model=model)
    assert "thinking" in body_of(turn[0], AssistantMessage("", CALLS[:1], thoughts=(own,)), turn[2], model=model)
    assert "thinking" in body_of(*turn, AssistantMessage("done"), UserMessage("next"), model=model)


@pytest.mark.parametrize(
    ("asked", "own", "context", "sent"),
    [(None, None, 200_000, 32_000), (None, 99, 200_000, 99), (50, 99, 200_000, 50), (None, None, 8_000, 2_000)],
)
def test_there_is_always_a_bound(asked: int | None, own: int | None, context: int, sent: int) -> None:
    model = ModelConfig(name="m", provider="p", max_output_tokens=own, context_size=context)
    assert body_of(UserMessage("go"), model=model, max_tokens=asked)["max_tokens"] == sent


WORDS = st.sampled_from(["", " ", "words"])
IDS = st.sampled_from(["a", "b", "x:1"])
MESSAGES = st.one_of(
    st.builds(SystemMessage, WORDS),
    st.builds(UserMessage, WORDS),
    st.builds(
        AssistantMessage, WORDS, st.lists(st.builds(ToolCall, IDS, st.just("t"), st.just("{}")), max_size=3).map(tuple)
    ),
    st.builds(ToolMessage, WORDS, IDS, st.just("t")),
)


@given(st.lists(MESSAGES, max_size=12))
def test_any_conversation_is_one_the_api_takes(messages: list[Message]) -> None:
    told = body_of(*normalised(messages))["messages"]
    assert [m["role"] for m in told] == ["user" if n % 2 == 0 else "assistant" for n in range(len(told))]
    assert len(told) % 2 == 1
    used: list[str] = []
    nothing: dict[str, Any] = {"content": []}
    for before, message in zip([nothing, *told], told, strict=False):
        called = [b["id"] for b in before["content"] if b["type"] == "tool_use"]
        answered = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert answered == called
        used += called
        assert [b["type"] for b in message["content"]][: len(answered)] == ["tool_result"] * len(answered)
        assert all(b["text"].strip() for b in message["content"] if b["type"] == "text")
    assert len(used) == len(set(used))
