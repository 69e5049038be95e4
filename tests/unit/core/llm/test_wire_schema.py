"""Tools' schemas in the form that every provider accepts, and arguments in the form that the tool declares."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vibe.core.llm.backend.tool_schemas import as_declared, wire_schema

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
        {
            "type": "object",
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x[y]": {"type": "string"}}, "required": ["kind", "x[y]"]},
                {"properties": {"kind": {"const": "b"}, "n": {"type": "integer"}}, "required": ["kind"]},
            ],
        },
        {
            "type": "object",
            "properties": {
                "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
                "x_y_": {"type": "string"},
                "n": {"type": "integer"},
            },
        },
    ),
    (
        {"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"q": {"type": "string"}}, "required": ["q"]}}},
        {
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "required": ["q"],
            "$defs": {"In": {"properties": {"q": {"type": "string"}}, "required": ["q"]}},
        },
    ),
    (
        {"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}, "required": ["b"]}]},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]},
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


NESTED: dict[str, Any] = {
    "$defs": {
        "Step": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "after": {"items": {"type": "string"}, "type": "array"},
                "most": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "shape": {"anyOf": [{"type": "object", "properties": {"o": {"type": "string"}}}, {"type": "null"}]},
                "next": {"$ref": "#/$defs/Step"},
                "also": {"$ref": "#/$defs/Endless"},
            },
            "required": ["id"],
        },
        "Endless": {"$ref": "#/$defs/Endless"},
    },
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}}, "dry": {"type": "boolean"}},
}


AS_DECLARED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"steps": [{"id": "a", "after": None, "most": None}]}, {"steps": [{"id": "a", "most": None}]}),
    ({"steps": [{"id": 1, "most": "20"}]}, {"steps": [{"id": "1", "most": 20}]}),
    ({"steps": [{"id": "a", "most": 20.0}], "dry": "true"}, {"steps": [{"id": "a", "most": 20}], "dry": True}),
    ({"steps": [{"id": "a", "most": "many"}], "dry": "perhaps"}, {"steps": [{"id": "a", "most": "many"}], "dry": "perhaps"}),
    ({"steps": '[{"id": "a", "after": "[\\"b\\"]"}]'}, {"steps": [{"id": "a", "after": ["b"]}]}),
    ({"steps": {"id": "a", "after": "b"}}, {"steps": [{"id": "a", "after": ["b"]}]}),
    ({"steps": [{"id": "[1]", "shape": '{"o": null}'}]}, {"steps": [{"id": "[1]", "shape": {}}]}),
    ({"steps": [{"id": "a", "next": {"id": "b", "after": None}}]}, {"steps": [{"id": "a", "next": {"id": "b"}}]}),
    ({"steps": None, "dry": None}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "declared"), AS_DECLARED)
def test_values_become_what_the_schema_declares_where_nothing_else_fits(
    given: dict[str, Any], declared: dict[str, Any]
) -> None:
    assert json.dumps(as_declared(given, NESTED)) == json.dumps(declared)


def test_an_argument_of_an_alternative_gets_its_own_name_back() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "oneOf": [{"properties": {"x[y]": {"type": "string"}}}, {"properties": {"n": {}}}],
    }
    assert as_declared({"x_y_": "1"}, schema) == {"x[y]": "1"}


def test_references_that_lead_round_in_a_circle_or_to_the_same_place_often_are_followed_once() -> None:
    pairs = {f"L{level}": {"anyOf": [{"$ref": f"#/$defs/L{level + 1}"}] * 2} for level in range(60)}
    last = {"type": "object", "properties": {"deep": {"type": "string"}}, "allOf": [{"$ref": "#/$defs/L0"}]}
    schema: dict[str, Any] = {"type": "object", "$ref": "#/$defs/L0", "$defs": {**pairs, "L60": last}}
    assert wire_schema(schema)["properties"] == {"deep": {"type": "string"}}
    assert as_declared({"deep": "1"}, schema) == {"deep": "1"}
    assert as_declared(
        {"n": "1"}, {"properties": {"n": {"anyOf": [{"$ref": "#/n"}] * 2}}, "n": {"type": "integer"}}
    ) == {"n": 1}
