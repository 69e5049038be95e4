"""A hostile or careless schema costs bounded time."""

from __future__ import annotations

from typing import Any

import pytest

from vibe.core.tools import json_schema
from vibe.core.tools.json_schema import schema_problems, value_problems

HARD = "a" * 60 + "!"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, HARD),
        ({"pattern": "^(a|aa)+$"}, HARD),
        ({"pattern": "^([a-z]*)*$"}, HARD),
        ({"items": {"properties": {"x": {"pattern": "(a+)+b$"}}}}, [{"x": HARD}]),
        ({"patternProperties": {"^(a+)+$": True}, "additionalProperties": False}, {HARD: 1}),
        ({"patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False}, {HARD: 1}),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {HARD: 1}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"pattern": "^(a+)+$"}}}, HARD),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}, HARD),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "^(a+)+$"}, HARD),
    ],
)
def test_a_pattern_is_matched_in_linear_time(schema: dict[str, Any], value: Any) -> None:
    assert schema_problems(schema) == ()
    (problem,) = value_problems(schema, value)
    assert "could not be checked" not in problem


def test_a_pattern_that_fits_fits() -> None:
    assert value_problems({"pattern": "^(a+)+$"}, "aaa") == ()
    assert value_problems({"pattern": r"^(?!\s*$).+"}, "not blank") == ()
    assert value_problems({"pattern": r"^(?!\s*$).+"}, "  ") != ()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(?=x?)(a+)+$"}, HARD),
        ({"$ref": "#/$defs/d0", "$defs": {**{f"d{n}": {"type": "array", "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}, "d60": {"maxItems": 0}}}, []),
        ({"uniqueItems": True}, [{"a": [n]} if n % 2 else [n] for n in range(40_000)]),
    ],
)  # fmt: skip
def test_what_takes_too_long_is_given_up(schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "CHECK_SECONDS", 2)
    (problem,) = value_problems(schema, value)
    assert problem.startswith("value: could not be checked within 2 s")


def test_a_schema_whose_references_multiply_is_no_schema() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d60": {}}}
    (problem,) = schema_problems(schema)
    assert "without end" in problem.message


def test_what_costs_little_takes_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema.subprocess, "run", None)
    assert value_problems({"type": "object", "required": ["a"]}, {"a": 1}) == ()


def test_any_text_reaches_the_check_and_comes_back() -> None:
    assert value_problems({"pattern": "é"}, "é\u2028\U0001f600") == ()
    assert value_problems({"pattern": "^é$"}, "\udc80\n") != ()
