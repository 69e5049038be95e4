from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import GetPromptResult, ListToolsResult

from vibe.core.tools.mcp.remote import (
    DESCRIPTION_LENGTH,
    LONGEST_TEXT,
    NAME_LENGTH,
    SCHEMA_BYTES,
    pages,
    proxy_names,
    remote_tool,
    text_of_prompt,
)


def prompted(*texts: str) -> GetPromptResult:
    messages = [{"role": "user", "content": {"type": "text", "text": text}} for text in texts]
    return GetPromptResult.model_validate({"messages": messages})


def test_a_prompt_of_the_greatest_length_is_whole_and_a_longer_one_ends_with_an_ellipsis() -> None:
    assert text_of_prompt(prompted("x" * LONGEST_TEXT)) == "x" * LONGEST_TEXT
    assert text_of_prompt(prompted("x" * (LONGEST_TEXT + 1))) == "x" * (LONGEST_TEXT - 1) + "…"
    assert text_of_prompt(prompted("x" * LONGEST_TEXT, "y")) == "x" * (LONGEST_TEXT - 1) + "…"


ECHO: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}


def test_names_are_made_of_server_and_tool_in_letters_every_provider_takes() -> None:
    names = proxy_names([("my server", "do/it"), ("everything", "get-sum")])

    assert list(names.values()) == ["my_server_do_it", "everything_get-sum"]


def test_names_that_would_be_the_same_are_told_apart_and_stay_so() -> None:
    given = [("a_b", "c"), ("a", "b_c"), ("read", "file")]

    names = proxy_names(given, taken=["read_file"])

    assert len(set(names.values())) == 3
    assert names["a_b", "c"] == "a_b_c"
    assert names["a", "b_c"].startswith("a_b_c_")
    assert names["read", "file"].startswith("read_file_")
    assert proxy_names(given, taken=["read_file"]) == names


def test_names_too_long_are_cut_and_told_apart() -> None:
    names = proxy_names([("s", "x" * 100), ("s", "x" * 101)])

    assert len(set(names.values())) == 2
    assert all(len(name) == NAME_LENGTH for name in names.values())


def test_a_schema_stays_what_it_is_but_for_its_dialect() -> None:
    tool = remote_tool("echo", "Says it.", {"$schema": "http://x", **ECHO}, {"readOnlyHint": True})

    assert json.loads(tool.schema) == ECHO
    assert (tool.read_only, tool.repeatable) == (True, True)


def test_a_schema_without_properties_gets_room_for_them() -> None:
    assert json.loads(remote_tool("t", None, {"type": "object"}, {}).schema) == {"type": "object", "properties": {}}


def test_a_wordy_schema_loses_its_prose_and_no_property() -> None:
    wordy = {"type": "string", "description": "z" * SCHEMA_BYTES}
    schema = {"type": "object", "properties": {"description": wordy, "title": wordy}, "required": ["title"]}

    bounded = json.loads(remote_tool("t", "d" * 9_000, schema, {}).schema)

    assert bounded["properties"] == {"description": {"type": "string"}, "title": {"type": "string"}}
    assert bounded["required"] == ["title"]
    assert len(remote_tool("t", "d" * 9_000, schema, {}).description) == DESCRIPTION_LENGTH


@pytest.mark.parametrize(
    ("name", "schema", "problem"),
    [("", ECHO, "without a name"), ("t", {**ECHO, "enum": ["y" * 40_000]}, "an argument schema of")],
    ids=["no name", "too long"],
)
def test_what_can_not_be_offered_is_refused(name: str, schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        remote_tool(name, "", schema, {})


def test_hints_that_are_no_truth_values_mean_nothing() -> None:
    assert not remote_tool("t", "", ECHO, {"readOnlyHint": "yes"}).read_only


@pytest.mark.parametrize("cursors", [["a", "b", "a"], ["a", "a"], ["a", None], ["a", ""]])
async def test_pages_end_where_they_lead_back(cursors: list[str | None]) -> None:
    asked: list[str | None] = []

    async def ask(cursor: str | None) -> ListToolsResult:
        asked.append(cursor)
        return ListToolsResult(tools=[], next_cursor=(cursors * 99)[len(asked) - 1])

    refused: list[str] = []
    assert len([page async for page in pages("offered", ask, refused)]) == len(cursors)
    assert refused == []
    assert asked == [None, *cursors[:-1]]
