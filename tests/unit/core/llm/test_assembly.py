"""Pieces of an answer are put together, however they were cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.llm_ports import MemoryObserver, request
from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.assembly import AnswerBuilder, CallFragment, read_cost, read_usage
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelProtocolError, ModelRefusalError
from vibe.core.llm.port import Completion, FinishReason, ToolSchema
from vibe.core.messages import Usage

ERRORS = ErrorMapper(provider=ProviderConfig(name="p", api_base="http://127.0.0.1:1/v1"))


def build(fragments: list[CallFragment], reason: str = "tool_calls", tools: Iterable[str] = ()) -> Completion:
    answer = AnswerBuilder(MemoryObserver())
    for fragment in fragments:
        answer.add_call(fragment)
    answer.finish(reason)
    offered = [ToolSchema(name=tool, description="", parameters={"properties": {"p": {}}}) for tool in tools]
    return answer.build(replace(request(), tools=offered), ERRORS)


@dataclass(frozen=True)
class Case:
    name: str
    fragments: list[CallFragment]
    calls: list[tuple[str, str]]


F = CallFragment
CASES = [
    Case(
        "OpenAI: id once, then by index",
        [
            F(index=0, id="a", name="read"),
            F(index=0, arguments='{"x":'),
            F(index=1, id="b", name="list"),
            F(index=0, arguments="1}"),
            F(index=1, arguments="{}"),
        ],
        [("read", '{"x":1}'), ("list", "{}")],
    ),
    Case(
        "whole calls, all at index 0, ids differ",
        [F(index=0, id="a", name="read", arguments="{}"), F(index=0, id="b", name="read", arguments='{"y":2}')],
        [("read", "{}"), ("read", '{"y":2}')],
    ),
    Case(
        "whole calls, all at index 0, no ids",
        [F(index=0, name="read", arguments="{}"), F(index=0, name="list", arguments="{}")],
        [("read", "{}"), ("list", "{}")],
    ),
    Case(
        "no index: by id",
        [F(id="a", name="read", arguments='{"x"'), F(id="b", name="list"), F(id="a", name="read", arguments=":1}")],
        [("read", '{"x":1}'), ("list", "{}")],
    ),
    Case(
        "no index, the id 'null': by order",
        [
            F(id="null", name="read", arguments='{"x"'),
            F(id="null", name="read", arguments=":1}"),
            F(id="null", name="list", arguments="{}"),
        ],
        [("read", '{"x":1}'), ("list", "{}")],
    ),
    Case("arguments as an object", [F(index=0, id="a", name="read", arguments={"x": 1})], [("read", '{"x":1}')]),
    Case(
        "the name repeated in every fragment",
        [F(index=0, id="a", name="read", arguments="{"), F(index=0, id="a", name="read", arguments="}")],
        [("read", "{}")],
    ),
    Case(
        "an object in quotes is the object, torn quotes are not",
        [F(index=0, id="a", name="r", arguments='"{\\"x\\":1}"'), F(index=1, id="b", name="r", arguments='"{\\"x')],
        [("r", '{"x":1}'), ("r", '"{\\"x')],
    ),
    Case("malformed arguments stay as worded", [F(index=0, id="a", name="r", arguments="{oops")], [("r", "{oops")]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fragments_are_merged(case: Case) -> None:
    calls = build(case.fragments).message.tool_calls
    assert [(call.name, call.arguments) for call in calls] == case.calls
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.id not in {"", "null"} for call in calls)


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [
        ("stop", False, FinishReason.STOP),
        ("stop", True, FinishReason.TOOL_CALLS),
        ("function_call", True, FinishReason.TOOL_CALLS),
        ("length", True, FinishReason.LENGTH),
        ("model_length", False, FinishReason.LENGTH),
        ("end_turn", False, FinishReason.STOP),
    ],
)
def test_reasons_are_translated(reason: str, calls: bool, expected: FinishReason) -> None:  # noqa: FBT001  a table
    fragments = [CallFragment(index=0, id="a", name="r")] if calls else []
    assert build(fragments, reason).finish_reason is expected


def test_an_answer_without_a_reason_is_none() -> None:
    answer = AnswerBuilder(MemoryObserver())
    answer.add_text("hello")
    with pytest.raises(ModelProtocolError, match="finish_reason"):
        answer.build(request(), ERRORS)


def test_a_provider_that_ends_in_error_or_filters_is_an_error() -> None:
    with pytest.raises(ModelProtocolError):
        build([], "error")
    with pytest.raises(ModelRefusalError, match="content filter"):
        build([], "content_filter")


@pytest.mark.parametrize("reason", ["tool_calls", "TOOL_USE", "function_call"])
def test_an_answer_whose_call_was_lost_is_none(reason: str) -> None:
    answer = AnswerBuilder(MemoryObserver())
    answer.add_text("I look into the file.")
    answer.finish(reason)
    with pytest.raises(ModelProtocolError, match="sent no call of a tool"):
        answer.build(request(), ERRORS)


def test_an_empty_answer_passes_with_estimated_usage() -> None:
    done = build([], "stop")
    assert done.message.content == ""
    assert done.usage == Usage(prompt_tokens=5, completion_tokens=0, calls=1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 2, 0, 1)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 2, 4, 1),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(9, 2, 0, 1)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 99}, Usage(9, 0, 9, 1)),
        ({"prompt_tokens": 9, "num_cached_tokens": 3}, Usage(9, 0, 3, 1)),
        ({"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 126}, Usage(35, 91, 0, 1)),
        ({"prompt_tokens": "many", "completion_tokens": -3}, Usage(0, 0, 0, 1)),
    ],
)
def test_usage_is_read_from_wherever_providers_put_it(fields: dict[str, Any], expected: Usage) -> None:
    assert read_usage(fields) == expected


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"cost": 0.0042}, 0.0042),
        ({"cost": 0}, 0.0),
        ({"estimated_cost": 1.5e-5}, 1.5e-5),
        ({"cost": {"input_tokens_cost": 0.1, "total_cost": 0.3}}, 0.3),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": 10**400}, None),
        ({"cost": 0.01, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.2}}, 0.01),
        ({"cost": -1}, None),
        ({"cost": "much"}, None),
        ({"cost": True}, None),
        ({"cost": float("nan")}, None),
        ({"cost": {}}, None),
        ({}, None),
    ],
)
def test_a_providers_own_cost_is_read(fields: dict[str, Any], cost: float | None) -> None:
    assert read_cost(fields) == (cost if cost is None else pytest.approx(cost))


def test_text_and_reasoning_are_shown_as_they_come() -> None:
    seen = MemoryObserver()
    answer = AnswerBuilder(seen)
    answer.add_reasoning("hm")
    answer.add_text("a")
    answer.add_text("")
    answer.add_text("b")
    answer.count(Usage(3, 1))
    answer.count(Usage(0, 0))
    answer.finish("stop")
    done = answer.build(request(), ERRORS)
    assert (done.message.content, done.message.reasoning) == ("ab", "hm")
    assert [(delta.text, delta.reasoning) for delta in seen.deltas] == [("", "hm"), ("a", ""), ("b", "")]
    assert done.usage.total_tokens == 4


@pytest.mark.parametrize(
    "arguments",
    [
        '```json\n{"p": 1}\n```',
        '```\n{"p": 1}```',
        '<tool_call>{"p": 1}</tool_call>',
        '<|tool_call|>{"p": 1}<|im_end|>',
        '{"p": 1}</arguments>',
        '<arguments> {"p": 1}\n</arguments>\n',
        '"{\\"p\\": 1}"',
        '{}{"p": 1}',
        'null {"p": 1}',
    ],
)
def test_what_stands_around_arguments_is_taken_away(arguments: str) -> None:
    [call] = build([F(index=0, id="a", name="x", arguments=arguments)]).message.tool_calls
    assert call.arguments == '{"p": 1}'


@pytest.mark.parametrize("name", ["", "x"])
@pytest.mark.parametrize("identity", ["", "a"])
@pytest.mark.parametrize("pieces", [['{"p": 1}'], ['{"p', '": 1}']])
def test_an_empty_object_before_the_arguments_is_none_of_them(name: str, identity: str, pieces: list[str]) -> None:
    if name and not identity:
        return  # this happens when a second call begins
    parts = [F(index=0, id=identity, name=name, arguments=piece) for piece in pieces]
    [call] = build([F(index=0, id="a", name="x", arguments="{}"), *parts]).message.tool_calls
    assert (call.name, call.arguments) == ("x", '{"p": 1}')


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("functions.read", "read"),
        (" read\n", "read"),
        ("default_api:read", "read"),
        ("functions.read:0", "read"),
        ("read<|channel|>commentary", "read"),
        ("read.list", "read.list"),
        ("write.it", "write.it"),
    ],
)
def test_a_name_is_taken_without_what_models_put_around_it(name: str, tool: str) -> None:
    [call] = build([F(index=0, id="a", name=name, arguments="{}")], tools=["read", "list"]).message.tool_calls
    assert call.name == tool


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (['{"p"', ": 1}", '{"p": 1}'], '{"p": 1}'),
        (['{"p"', '{"p": 1', '{"p": 1}'], '{"p": 1}'),
        (['{"p": 1}', "{}"], '{"p": 1}'),
        (['{"p": 1}', "null"], '{"p": 1}'),
        (['{"p": 1}}'], '{"p": 1}'),
        (['[{"p": 1}]'], '{"p": 1}'),
        (['{"p": "a\nb"}'], '{"p": "a\\nb"}'),
        (['{"p": 1}{"p": 2}'], '{"p": 1}{"p": 2}'),
        (["{", '"p": ', '{"p": 1}'], '{"p": {"p": 1}'),
        (['{"p": ' + "9" * 5000 + "}"], '{"p": ' + "9" * 5000 + "}"),
    ],
)
def test_arguments_are_taken_without_what_comes_around_them(pieces: list[str], arguments: str) -> None:
    parts = [F(index=0, id="a", name="read"), *(F(index=0, arguments=piece) for piece in pieces)]
    [call] = build(parts, tools=["read"]).message.tool_calls
    assert call.arguments == arguments


@pytest.mark.parametrize(
    ("said", "thought", "text"),
    [
        (["ponder\n</think>\n\nfour"], "ponder\n", "four"),
        (["pon", "der</th", "ink>four"], "ponder", "four"),
        (["<think>a</think>b </think> c"], "a", "b </think> c"),
        (["four"], "", "four"),
    ],
)
def test_a_thought_that_only_ends_with_its_tag_is_one(said: list[str], thought: str, text: str) -> None:
    answer = AnswerBuilder(MemoryObserver(), "think")
    for piece in said:
        answer.add_text(piece)
    answer.finish("stop")
    message = answer.build(request(), ERRORS).message
    assert (message.reasoning, message.content) == (thought, text)
