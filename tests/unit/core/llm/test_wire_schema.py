"""Tools' schemas in the form that every provider accepts, and arguments in the form that the tool declares."""

from __future__ import annotations

from typing import Any

import pytest

from vibe.core.llm.backend.assembly import as_declared, wire_schema

ODD = {
    "filter[x]": {"type": "array"},
    "a b": {"type": "string"},
    "a_b": {"type": "integer"},
    "@type": {"type": "string"},
}


SENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"type": "object", "properties": {}}),
    ({"type": ["object", "null"], "anyOf": [{"required": ["x"]}]}, {"type": "object", "properties": {}}),
    (
        {"properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
    ),
    (
        {"properties": {"a": {"anyOf": [{"type": ["array", "null"]}, {"type": "string"}]}}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": ["array", "null"], "items": {}}, {"type": "string"}]}},
        },
    ),
    (
        {"properties": {"p": {"type": "object", "properties": {"x[y]": {}}, "required": ["x[y]"]}}},
        {
            "type": "object",
            "properties": {"p": {"type": "object", "properties": {"x_y_": {}}, "required": ["x_y_"]}},
        },
    ),
    (
        {
            "properties": {
                "properties": {"type": "string"},
                "required": {"type": "array", "items": {"enum": ["a["]}},
            }
        },
        {
            "type": "object",
            "properties": {
                "properties": {"type": "string"},
                "required": {"type": "array", "items": {"enum": ["a["]}},
            },
        },
    ),
    (
        {"$defs": {"a[b]": {"type": "array"}}},
        {"type": "object", "properties": {}, "$defs": {"a[b]": {"type": "array", "items": {}}}},
    ),
]


@pytest.mark.parametrize(("given", "sent"), SENT)
def test_a_schema_is_sent_as_it_is_taken(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert wire_schema(given) == sent


@pytest.mark.parametrize("name", [*ODD, "x" * 80, "ü", "", "a/b", "x" * 80 + "y"])
def test_a_name_that_can_not_be_sent_finds_its_way_back(name: str) -> None:
    schema = {"properties": {**ODD, "x" * 79 + "z": {}, name: {"type": "integer"}}, "required": [name]}
    [required] = wire_schema(schema)["required"]
    assert len(wire_schema(schema)["properties"]) == len(schema["properties"])
    assert as_declared({required: 7}, schema) == {name: 7}
    assert as_declared([{required: 7}], {"items": schema}) == [{name: 7}]


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ({"n": 1, "o": None}, {"n": 1}),
        ({"n": None}, {"n": None}),
        ({"n": 1, "maybe": None, "any": None, "union": None}, {"n": 1, "maybe": None, "any": None, "union": None}),
        ({"n": 1, "deep": {"o": None}}, {"n": 1, "deep": {}}),
        ({"n": 1, "unknown": {"o": None}}, {"n": 1, "unknown": {"o": None}}),
    ],
)
def test_null_stands_for_what_may_be_left_out(given: dict[str, Any], declared: dict[str, Any]) -> None:
    inner = {"properties": {"o": {"type": "string"}}, "type": "object"}
    fields = {"n": {"type": "integer"}, "o": {"type": "integer"}, "maybe": {"type": ["string", "null"]}, "any": {}}
    union = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {"properties": {**fields, "union": union, "deep": inner}, "required": ["n"]}
    assert as_declared(given, schema) == declared
