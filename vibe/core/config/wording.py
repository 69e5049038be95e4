"""Words for validation errors that a user can act on."""

from __future__ import annotations

import json

from pydantic_core import ErrorDetails

_LONGEST_VALUE = 60
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": 'a list such as ["a", "b"]',
}


def wording(details: ErrorDetails) -> str:
    """The problem with a value, as what follows ``key:``."""
    kind, context = details["type"], details.get("ctx", {})
    got = shown_value(details["input"])
    if kind == "missing":
        return "is missing, set it"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {got}"
    if kind in {"enum", "literal_error"}:
        return f"must be {_IN_TOML.get(context['expected'], context['expected'])}, not {got}"
    bound = next((name for name in ("ge", "gt", "le") if name in context), None)
    if bound is not None:
        return f"must be {_BOUNDS[bound]} {context[bound]:g}, not {got}"
    return f"{details['msg']}, not {got}"


_IN_TOML = {"True": "true", "False": "false"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most"}


def shown_value(value: object) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
