"""A malformed part of a server's answer costs only that part."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp_types.methods import validate_server_result

from vibe.core.tools.mcp.sieve import sieved

GOOD = {"name": "ok", "inputSchema": {"type": "object"}}


async def passed(method: str, result: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the remaining answer to a request, and the messages about the rest."""
    said: list[str] = []

    class Stream:
        async def send(self, item: Any) -> None:
            assert item.message.method == method

        async def __anext__(self) -> Any:
            return SimpleNamespace(message=SimpleNamespace(id="7", result=result))

    @asynccontextmanager
    async def transport() -> AsyncGenerator[tuple[Stream, Stream]]:
        yield Stream(), Stream()

    async with sieved(transport(), said.append) as (inbox, outbox):
        await outbox.send(SimpleNamespace(message=SimpleNamespace(id=7, method=method)))
        mended = (await anext(inbox)).message.result
    validate_server_result(method, "2025-11-25", mended)
    return mended, said


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a", "inputSchema": {"type": "string"}},
        {"name": 3, "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        "a",
        None,
    ],
    ids=str,
)
async def test_a_tool_that_can_not_be_called_is_left_out_with_a_word(tool: Any) -> None:
    result, said = await passed("tools/list", {"tools": [tool, GOOD]})
    assert result == {"tools": [GOOD]}
    assert len(said) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {},
        None,
        [],
        True,
        "object",
        {"properties": []},
        {"type": None, "properties": None, "required": None},
        {"type": ["object", "null"], "required": "x"},
        {"type": "object", "properties": {"required": ["x"]}},
        {"type": "object", "properties": {"x": 5, "y": None}},
    ],
    ids=str,
)
async def test_a_tool_with_an_odd_schema_is_offered(schema: Any) -> None:
    result, said = await passed("tools/list", {"tools": [{"name": "a", "inputSchema": schema}, GOOD]})
    [tool, good] = result["tools"]
    assert (good, said) == (GOOD, [])
    assert tool["inputSchema"].pop("properties", {}) == {}
    assert tool == {"name": "a", "inputSchema": {"type": "object"}}


async def test_an_empty_table_of_a_language_with_one_kind_of_them_is_one() -> None:
    schema: Any = {"type": "object", "properties": {"x": [], "y": {"type": "string"}}}
    result, _ = await passed("tools/list", {"tools": [{"name": "a", "inputSchema": schema, "annotations": []}]})
    [tool] = result["tools"]
    assert (tool["inputSchema"]["properties"], tool["annotations"]) == ({"x": {}, "y": {"type": "string"}}, {})


@pytest.mark.parametrize(
    "odd",
    [
        {"annotations": 3},
        {"title": 9},
        {"icons": "x"},
        {"execution": "x"},
        {"_meta": 1},
        {"description": 5},
        {"icons": [5]},
    ],
    ids=str,
)
async def test_what_is_not_needed_of_a_tool_costs_itself(odd: dict[str, Any]) -> None:
    listed = {"tools": [GOOD | {"annotations": {"readOnlyHint": True}} | odd | {"outputSchema": {"type": "x"}}]}
    result, said = await passed("tools/list", listed)
    [tool] = result["tools"]
    assert {name: tool[name] for name in GOOD} == GOOD
    assert [name for name in odd if tool.get(name)] == said == []


@pytest.mark.parametrize("odd", [{"title": 5}, {"destructiveHint": "perhaps"}], ids=str)
async def test_an_odd_hint_costs_no_other(odd: dict[str, Any]) -> None:
    result, _ = await passed("tools/list", {"tools": [GOOD | {"annotations": {"readOnlyHint": True} | odd}]})
    assert result["tools"][0]["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize(
    ("method", "key", "odd", "kept"),
    [
        ("resources/list", "resources", {"uri": "x://a"}, {"uri": "x://a", "name": ""}),
        ("resources/list", "resources", {"uri": "x://a", "name": "a", "size": "big"}, {"uri": "x://a", "name": "a"}),
        ("resources/list", "resources", {"name": "no address"}, None),
        (
            "resources/templates/list",
            "resourceTemplates",
            {"uriTemplate": "x://{a}", "annotations": {"audience": "all"}},
            {"uriTemplate": "x://{a}", "name": "", "annotations": {}},
        ),
        (
            "prompts/list",
            "prompts",
            {"name": "p", "arguments": [{"name": 5}, "x", {"name": "b", "required": "often"}]},
            {"name": "p", "arguments": [{"name": "b"}]},
        ),
        ("prompts/list", "prompts", {"name": None}, None),
    ],
)
async def test_an_odd_entry_of_a_list_costs_itself(method: str, key: str, odd: Any, kept: Any) -> None:
    good = {"name": "good", "uri": "x://b", "uriTemplate": "x://{b}"}
    result, said = await passed(method, {key: [odd, good], "_meta": [5], "nextCursor": None})
    assert result[key] == ([good] if kept is None else [kept, good])
    assert len(said) == (kept is None)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "widget", "html": "<b>KEEP</b>"},
        {"type": "text", "body": "KEEP"},
        {"type": "text", "text": ["KEEP"]},
        {"type": "image", "url": "KEEP"},
        {"type": "resource", "resource": {"text": "KEEP"}},
        ["KEEP"],
        "KEEP",
    ],
    ids=str,
)
async def test_a_part_that_is_not_known_is_kept_as_text(block: Any) -> None:
    known = {"type": "text", "text": "before"}
    result, _ = await passed("tools/call", {"content": [known, block], "structuredContent": [1]})
    assert result["content"][0] == known
    assert "KEEP" in result["content"][1]["text"]
    assert result["structuredContent"] == {"result": [1]}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "a", "annotations": 3},
        {"type": "audio", "data": "YQ==", "_meta": []},
        {"type": "image", "data": "YQ==", "mimeType": "image/png", "annotations": {"priority": 9}},
        {"type": "resource_link", "uri": "x://a"},
    ],
    ids=str,
)
async def test_what_is_not_needed_of_a_part_costs_itself(block: Any) -> None:
    result, _ = await passed("tools/call", {"content": [block]})
    assert {name: result["content"][0].get(name) for name in ("type", "text", "data", "uri") if name in block} == {
        name: block[name] for name in ("type", "text", "data", "uri") if name in block
    }


@pytest.mark.parametrize("contents", [{"text": "KEEP"}, "KEEP", [{"text": "KEEP", "mimeType": 5}], [{"x": "KEEP"}]])
async def test_a_resource_in_an_odd_form_is_kept(contents: Any) -> None:
    result, _ = await passed("resources/read", {"contents": contents})
    assert "KEEP" in result["contents"][0]["text"]


@pytest.mark.parametrize(
    "messages",
    ["KEEP", [{"role": "system", "content": "KEEP"}], [{"content": [{"type": "text", "text": "KEEP"}, 5]}], ["KEEP"]],
)
async def test_a_prompt_in_an_odd_form_is_kept(messages: Any) -> None:
    result, _ = await passed("prompts/get", {"messages": messages})
    first = result["messages"][0]
    assert (first["role"], first["content"]["type"], first["content"]["text"]) == ("user", "text", "KEEP")


ODD: list[Any] = [None, True, 5, -1.5, "x", "", [], {}, [1], [{}], {"a": 1}, {"type": "text"}, {"type": "string"}]
TEXT = {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5}}
ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}, "resources": {}, "experimental": {"a": {}}},
        "serverInfo": {"name": "a", "version": "1", "icons": [{"src": "x", "sizes": ["1x1"]}]},
        "instructions": "i",
        "_meta": {},
    },
    "tools/list": {
        "tools": [
            {
                "name": "a",
                "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                "annotations": {"title": "x", "readOnlyHint": True},
                "execution": {"taskSupport": "optional"},
            },
            GOOD,
        ],
        "nextCursor": "c",
    },
    "prompts/list": {"prompts": [{"name": "a", "arguments": [{"name": "b", "required": True}]}]},
    "resources/list": {"resources": [{"uri": "x://a", "name": "b", "annotations": {"audience": ["user"]}, "size": 5}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x://a", "name": "b"}]},
    "tools/call": {
        "content": [
            TEXT,
            {"type": "image", "data": "YQ==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x://a", "text": "x"}},
            {"type": "resource_link", "uri": "x://a", "name": "z"},
        ],
        "structuredContent": {"a": 1},
        "isError": False,
    },
    "resources/read": {"contents": [{"uri": "x://a", "text": "a"}, {"uri": "x", "blob": "YQ=="}]},
    "prompts/get": {"messages": [{"role": "user", "content": TEXT}], "description": "d"},
}


@pytest.mark.parametrize("method", ANSWERS)
async def test_whatever_is_odd_in_an_answer_the_library_takes_what_is_left(method: str) -> None:
    chance = Random(method)

    def odd(value: Any) -> Any:
        if chance.random() < 0.12:
            return deepcopy(chance.choice(ODD))
        if isinstance(value, dict):
            return {key: odd(inner) for key, inner in cast("dict[str, Any]", value).items() if chance.random() > 0.06}
        return [odd(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value

    for _ in range(400):
        await passed(method, {key: odd(value) for key, value in ANSWERS[method].items() if chance.random() > 0.06})
