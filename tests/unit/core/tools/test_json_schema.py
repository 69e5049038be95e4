from __future__ import annotations

from typing import Any

import pytest

from vibe.core.schemas import rooted_at
from vibe.core.tools.json_schema import JsonPath, schema_problems, value_problems

NESTED = {
    "properties": {"next": {"$ref": "#"}, "name": {"$ref": "#/$defs/name"}},
    "$defs": {"name": {"type": "string"}},
}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        NESTED,
        {"enum": [{"$ref": "anything, for it is data"}]},
        {"properties": {"$ref": {"type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$id": "https://example.org/schema", "$defs": {"a": True}, "properties": {"x": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_has_no_problem(schema: dict[str, Any]) -> None:
    assert schema_problems(schema) == ()


@pytest.mark.parametrize(
    ("schema", "path", "said"),
    [
        ({"type": "objekt"}, ("type",), "'objekt'"),
        ({"properties": {"a": {"type": 5}}}, ("properties", "a", "type"), "5"),
        ({"pattern": "["}, ("pattern",), "'['"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, ("properties", "a", "$ref"), "'#/$defs/gone' leads nowhere"),
        ({"$ref": "https://example.org/schema.json"}, ("$ref",), "leads nowhere in this schema"),
        ({"items": {"$dynamicRef": "#node"}}, ("items", "$dynamicRef"), "'#node' leads nowhere"),
        ({"$ref": "#"}, (), "refers to itself without end"),
        ({"$schema": "https://example.org/own"}, ("$schema",), "not a supported dialect"),
        ({"$schema": 5}, ("$schema",), "not a supported dialect"),
        ({"$id": 5}, ("$id",), "5"),
        ({"$ref": 5}, ("$ref",), "5"),
    ],
)
def test_what_is_no_schema_is_told_with_its_place(schema: dict[str, Any], path: JsonPath, said: str) -> None:
    (problem,) = schema_problems(schema)

    assert problem.path == path
    assert said in problem.message


def test_every_problem_of_a_value_is_told_with_its_path() -> None:
    schema = {
        "type": "object",
        "required": ["summary"],
        "properties": {"files": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"required": ["path"]}]}}},
    }

    problems = value_problems(schema, {"files": ["a", 3, {}]})

    assert problems[0] == "value: 'summary' is a required property"
    assert problems[-1].startswith("value.files[2]: {}")
    assert len(problems) == 2  # 3 is not an object, so nothing is required of it


def test_problems_are_counted_where_there_are_too_many() -> None:
    problems = value_problems({"items": {"type": "string"}}, list(range(100)))

    assert len(problems) == 31
    assert problems[-1] == "and 70 more"


def test_a_long_value_is_not_repeated_whole() -> None:
    (problem,) = value_problems({"type": "integer"}, "x" * 10_000)

    assert len(problem) < 400


def test_a_schema_without_an_end_is_a_problem_of_the_value() -> None:
    schema = {"properties": {"a": {"$ref": "#/properties/a"}}}

    assert value_problems(schema, {"a": 1}) == ("value: the schema refers to itself without end",)


def test_references_follow_a_schema_to_its_new_place() -> None:
    moved = rooted_at(NESTED, "#/properties/value")
    outer = {"type": "object", "properties": {"value": moved}}

    assert schema_problems(outer) == ()
    assert value_problems(outer, {"value": {"next": {"next": {"name": 5}}}}) == (
        "value.value.next.next.name: 5 is not a string",
    )
