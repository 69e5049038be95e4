"""A model bound to a schema reads about its tools in text, and its output becomes calls and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.fakes.llm_ports import MemoryObserver
from vibe.core.config.models import ModelConfig
from vibe.core.llm.backend.local import TurnObserver, encoded, parsed_turn, turn_schema
from vibe.core.llm.port import Completion, Delta, FinishReason, ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

READ = ToolSchema(
    name="read_file",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^[a-z/]+$", "maxLength": 4096},
            "pattern": {"$ref": "#/$defs/P"},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": {"P": {"type": "string", "title": "P", "maxLength": 80}},
    },
)
END = ToolSchema(
    name="hand_in",
    description="Hand it in.",
    parameters={"type": "object", "properties": {"value": {"const": {"title": 1}}}, "required": ["value"]},
    ends_work=True,
)


def body(*messages: Message, tools: tuple[ToolSchema, ...] = (READ,), bound: int | None = None) -> dict[str, Any]:
    model = ModelConfig(name="m", provider="p", max_output_tokens=50)
    return json.loads(encoded(ModelRequest(model=model, messages=messages, tools=tools, max_tokens=bound)))


def is_valid(schema: dict[str, Any], value: object) -> bool:
    validator: Any = Draft202012Validator(schema)
    return validator.is_valid(value)


def completion(text: str, reason: FinishReason = FinishReason.STOP) -> Completion:
    return Completion(message=AssistantMessage(text), finish_reason=reason, usage=Usage(1, 1))


@pytest.mark.parametrize(
    ("turn", "fits"),
    [
        ({"name": "read_file", "arguments": {"path": "A.PY"}}, True),
        ({"name": "read_file", "arguments": {"path": "a", "pattern": "x" * 80}}, True),
        ({"name": "read_file", "arguments": {"path": "a", "pattern": "x" * 81}}, False),
        ({"name": "read_file", "arguments": {}}, False),
        ({"name": "write_file", "arguments": {"path": "a"}}, False),
        ({"answer": "done"}, True),
        ({"answer": "done", "name": "read_file"}, False),
    ],
)
def test_a_turn_is_a_call_that_fits_its_tool_or_an_answer(turn: dict[str, Any], fits: bool) -> None:  # noqa: FBT001  a table
    schema = turn_schema([READ])

    assert is_valid(schema, turn) is fits
    assert "^[a-z/]+$" not in json.dumps(schema)
    assert "4096" not in json.dumps(schema)
    assert list(schema["$defs"]["read_file"]["properties"]) == ["path", "pattern"]


def test_where_a_tool_ends_the_work_no_answer_does() -> None:
    schema = turn_schema([READ, END])

    assert not is_valid(schema, {"answer": "done"})
    assert is_valid(schema, {"name": "hand_in", "arguments": {"value": {"title": 1}}})
    assert not is_valid(schema, {"name": "hand_in", "arguments": {"value": {}}})
    assert '"answer"' not in body(UserMessage("x"), tools=(READ, END))["messages"][0]["content"]


def test_a_request_says_the_tools_in_the_system_message_and_results_in_words() -> None:
    sent = body(
        SystemMessage("You code."),
        UserMessage("Go."),
        AssistantMessage("", tool_calls=(ToolCall("1", "read_file", '{"path": "a"}'),)),
        ToolMessage("no such file", "1", "read_file", status="error"),
        bound=70,
    )

    system, goal, call, result = sent["messages"]
    assert system["content"].startswith("You code.\n\n")
    assert "- read_file: Read a file. Arguments: path, pattern?." in system["content"]
    assert goal == {"role": "user", "content": "Go."}
    assert json.loads(call["content"]) == {"name": "read_file", "arguments": {"path": "a"}}
    assert result == {"role": "user", "content": "Result of read_file (error):\nno such file"}
    assert sent["max_tokens"] == 50
    assert sent["response_format"]["json_schema"]["schema"] == turn_schema([READ])
    assert "tools" not in sent


def test_without_tools_nothing_is_held_to_a_schema() -> None:
    sent = body(UserMessage("Go."), tools=())

    assert sent["messages"] == [{"role": "user", "content": "Go."}]
    assert "response_format" not in sent


def test_a_call_is_rebuilt() -> None:
    built = parsed_turn(completion('{"name": "read_file",\n "arguments": {"path": "\\u00e4"}\n}'))

    (call,) = built.message.tool_calls
    assert (call.name, json.loads(call.arguments), built.message.content) == ("read_file", {"path": "ä"}, "")
    assert built.finish_reason is FinishReason.TOOL_CALLS


def test_a_torn_call_stays_one_that_the_limit_cut() -> None:
    built = parsed_turn(completion('{"name": "read_file", "arguments": {"path": "a', FinishReason.LENGTH))

    assert [(call.name, call.arguments) for call in built.message.tool_calls] == [("read_file", '{"path": "a')]
    assert built.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "a \\"b\\"\\n"}', 'a "b"\n'),
        ('{ "answer" : "half \\u00e4 and \\u00', "half ä and "),
        ('{"answer": "ends \\', "ends "),
        ("no JSON at all", "no JSON at all"),
    ],
)
def test_an_answer_is_what_the_json_says(text: str, answer: str) -> None:
    built = parsed_turn(completion(text))

    assert (built.message.content, built.message.tool_calls) == (answer, ())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_call_is_shown_as_it_comes(size: int) -> None:
    text = '{"name": "read_file", "arguments": {"path": "}", "pattern": {"a": {}} }\n}'
    seen = MemoryObserver()
    watcher = TurnObserver(seen)
    for start in range(0, len(text), size):
        watcher.delta(Delta(text=text[start : start + size]))

    calls = [delta.call for delta in seen.deltas if delta.call is not None]
    assert json.loads("".join(call.arguments for call in calls)) == {"path": "}", "pattern": {"a": {}}}
    assert {(call.index, call.name) for call in calls} == {(0, "read_file")}
    assert seen.text == ""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_is_shown_as_it_comes(size: int) -> None:
    text = json.dumps({"answer": 'It is "done" \\ ä \U0001f600\n.'})
    seen = MemoryObserver()
    watcher = TurnObserver(seen)
    for start in range(0, len(text), size):
        watcher.delta(Delta(text=text[start : start + size]))

    assert seen.text == 'It is "done" \\ ä \U0001f600\n.'
