"""Conversations in the formats that providers accept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.llm_ports import request
from vibe.core.config.models import ModelConfig, Thinking
from vibe.core.llm.backend.chat import PayloadEncoder, max_tokens, message_fields, mistral_call_id, wire_arguments
from vibe.core.llm.backend.http import address, versioned
from vibe.core.llm.backend.mistral import mistral_fields, server_url
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

HISTORY = (
    SystemMessage("be brief"),
    UserMessage("go"),
    AssistantMessage("", (ToolCall("call_abcdefghij", "read", '{"p":1}'), ToolCall("b", "list", "{oops")), "hm"),
    ToolMessage("text", "call_abcdefghij", "read"),
    ToolMessage("bad", "b", "list", "error"),
    AssistantMessage("done"),
)


def test_a_conversation_is_said_in_the_chat_format() -> None:
    tool = ToolSchema(name="read", description="Reads.", parameters={"type": "object"})
    model = ModelConfig(name="m1", provider="p", temperature=0.5)
    body = json.loads(PayloadEncoder().encode(ModelRequest(model=model, messages=HISTORY, tools=(tool,))))
    assert body["model"] == "m1"
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_abcdefghij", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}},
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": "list", "arguments": '{"malformed_arguments":"{oops"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_abcdefghij", "content": "text"},
        {"role": "tool", "tool_call_id": "b", "content": "bad"},
        {"role": "assistant", "content": "done"},
    ]


@pytest.mark.parametrize(
    ("thinking", "sent"), [(Thinking.OFF, None), (Thinking.LOW, "low"), (Thinking.HIGH, "high"), (Thinking.MAX, "high")]
)
def test_how_much_to_think_is_said_in_words_that_providers_know(thinking: Thinking, sent: str | None) -> None:
    model = ModelConfig(name="m1", provider="p", thinking=thinking)
    body = json.loads(PayloadEncoder().encode(ModelRequest(model=model, messages=HISTORY)))
    assert body.get("reasoning_effort") == sent


def test_the_prefix_is_byte_stable_from_turn_to_turn() -> None:
    encoder = PayloadEncoder()
    first = encoder.encode(request(*HISTORY[:2]))
    second = encoder.encode(request(*HISTORY))
    cut = first.index(b'],"temperature"')
    assert second[:cut] == first[:cut]
    assert second == PayloadEncoder().encode(request(*HISTORY))


def test_another_conversation_between_changes_nothing() -> None:
    encoder = PayloadEncoder()
    others = (UserMessage("something else"), *HISTORY[1:])
    for messages in (HISTORY[:2], others, HISTORY, HISTORY[:1], (), HISTORY[1:], others, HISTORY):
        assert encoder.encode(request(*messages)) == PayloadEncoder().encode(request(*messages))


def test_nothing_optional_is_sent_unasked() -> None:
    body = json.loads(PayloadEncoder().encode(request()))
    assert not {"tools", "max_tokens", "reasoning_effort"} & set(body)


@pytest.mark.parametrize("level", [Thinking.LOW, Thinking.MEDIUM, Thinking.HIGH])
def test_a_model_is_told_how_much_to_think(level: Thinking) -> None:
    model = ModelConfig(name="m", provider="p", thinking=level)
    body = json.loads(PayloadEncoder().encode(ModelRequest(model=model, messages=())))
    assert body["reasoning_effort"] == level.value


@pytest.mark.parametrize(
    ("asked", "configured", "sent"), [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 5), (9, 7, 7)]
)
def test_the_tighter_bound_on_tokens_wins(asked: int | None, configured: int | None, sent: int | None) -> None:
    model = ModelConfig(name="m", provider="p", max_output_tokens=configured)
    assert max_tokens(ModelRequest(model=model, messages=(), max_tokens=asked)) == sent


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        (" \n", "{}"),
        ("[1]", '{"malformed_arguments":"[1]"}'),
        ('{"a": 1', '{"malformed_arguments":"{\\"a\\": 1"}'),
    ],
)
def test_arguments_travel_as_an_object_and_lose_nothing(arguments: str, sent: str) -> None:
    assert wire_arguments(arguments) == sent


def test_mistral_gets_ids_of_nine_characters_that_still_match() -> None:
    said = [mistral_fields(message) for message in HISTORY]
    ids = [call["id"] for call in said[2]["tool_calls"]]
    assert ids == [said[3]["tool_call_id"], said[4]["tool_call_id"]]
    assert all(len(one) == 9 and one.isalnum() for one in ids)
    assert said[3]["name"] == "read"
    assert mistral_call_id("abc123XYZ") == "abc123XYZ"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.mistral.ai/v1", "https://api.mistral.ai"),
        ("https://api.mistral.ai/v1/", "https://api.mistral.ai"),
        ("http://host/mistral/v1", "http://host/mistral"),
        ("http://host", "http://host"),
        ("http://host/v1/chat/completions", "http://host"),
        (" http://host/v1/models/ ", "http://host"),
    ],
)
def test_the_sdk_adds_the_version_path_itself(base: str, url: str) -> None:
    assert server_url(base) == url


@pytest.mark.parametrize("name", ["functions.read_file", " read\n", "", "a" * 90, "lesen_ü", "a/b"])
@pytest.mark.parametrize("say", [message_fields, mistral_fields])
def test_what_a_model_called_goes_back_under_a_name_that_is_taken(
    say: Callable[[Message], dict[str, Any]], name: str
) -> None:
    said = say(AssistantMessage("", (ToolCall("c" * 80, name, "{}"),)))
    result = say(ToolMessage("x", "c" * 80, name))
    [call] = said["tool_calls"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
    assert call["id"] == result["tool_call_id"]
    assert len(call["id"]) <= 40


@pytest.mark.parametrize(
    ("base", "asked", "versioned_base"),
    [
        ("http://h", "http://h/chat/completions", "http://h/v1"),
        ("http://h/", "http://h/chat/completions", "http://h/v1"),
        (" http://h/v1 ", "http://h/v1/chat/completions", "http://h/v1"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions", "http://h/v1"),
        ("http://h/v1/chat/completions/?k=1", "http://h/v1/chat/completions?k=1", "http://h/v1?k=1"),
        (
            "http://h/openai/d/x?api-version=2",
            "http://h/openai/d/x/chat/completions?api-version=2",
            "http://h/openai/d/x/v1?api-version=2",
        ),
        ("http://h/v1beta/openai#top", "http://h/v1beta/openai/chat/completions", "http://h/v1beta/openai/v1"),
        ("http://u:p@h:1/v2/models", "http://u:p@h:1/v2/chat/completions", "http://u:p@h:1/v2"),
    ],
)
def test_an_address_is_understood_as_people_paste_it(base: str, asked: str, versioned_base: str) -> None:
    assert address(base, "chat/completions") == asked
    assert versioned(base) == versioned_base
