"""An odd part of a server's answer costs itself alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from vibe.core.tools.mcp.sieve import sieved

GOOD = {"name": "ok", "inputSchema": {"type": "object"}}


async def passed(result: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What is left of a result, and what was said of the rest."""
    said: list[str] = []

    class Inbox:
        async def receive(self) -> Any:
            return SimpleNamespace(message=SimpleNamespace(result=result))

    @asynccontextmanager
    async def transport() -> AsyncGenerator[tuple[Inbox, None]]:
        yield Inbox(), None

    async with sieved(transport(), said.append) as (inbox, _):
        return (await inbox.receive()).message.result, said


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a", "inputSchema": {"type": "object", "properties": {"x": {}, "required": ["x"]}}},
        {"name": "a", "inputSchema": {"type": "object", "required": "x"}},
        {"name": "a", "inputSchema": []},
        {"name": "a"},
        {"name": 3, "inputSchema": {"type": "object"}},
        "a",
        None,
    ],
)
async def test_an_odd_tool_is_left_out_with_a_word(tool: Any) -> None:
    result, said = await passed({"tools": [tool, GOOD]})
    assert result == {"tools": [GOOD]}
    assert len(said) == 1


@pytest.mark.parametrize(
    "odd",
    [{"annotations": 3}, {"annotations": {"title": 5}}, {"title": 9}, {"icons": "x"}, {"execution": []}, {"_meta": 1}],
)
async def test_what_is_not_needed_of_a_tool_costs_itself(odd: dict[str, Any]) -> None:
    result, said = await passed({"tools": [GOOD | {"description": "d"} | odd | {"outputSchema": {"type": "object"}}]})
    assert result == {"tools": [GOOD | {"description": "d"}]}
    assert said == []


@pytest.mark.parametrize(
    "block",
    [
        {"type": "widget", "html": "<b>KEEP</b>"},
        {"type": "text", "body": "KEEP"},
        {"type": "image", "url": "KEEP"},
        "KEEP",
    ],
)
async def test_a_part_that_is_not_known_is_kept_as_text(block: Any) -> None:
    known = {"type": "text", "text": "before"}
    result, _ = await passed({"content": [known, block], "structuredContent": [1]})
    assert result["content"][0] == known
    assert "KEEP" in result["content"][1]["text"]
    assert "structuredContent" not in result
