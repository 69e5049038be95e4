"""JSON Schemas as data: read as tables, built, and changed part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names of the author's, not keywords."""
_DATA: Final = frozenset({"const", "enum", "required", "default", "examples"})
"""Keywords below which there is data, whatever it looks like."""


def table_of(value: object) -> dict[str, Any]:
    """Return a JSON object from outside; what is none counts as an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def whole_number(value: object) -> int | None:
    """Return a whole number from outside, which may be told as text; None: it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:9])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def text_in(value: object) -> str:
    """Return a text from outside; what is none counts as an empty one."""
    return value if isinstance(value, str) else ""


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these properties and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def remade(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a schema as ``change`` makes it, which is given the schemas inside first, then what they are in."""
    if isinstance(schema, list):
        return [remade(one, change) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema

    def inside(key: str, value: Any) -> Any:
        if key in _BY_NAME and isinstance(value, dict):
            return {name: remade(one, change) for name, one in cast("dict[str, Any]", value).items()}
        return value if key in _DATA else remade(value, change)

    return change({key: inside(key, value) for key, value in cast("dict[str, Any]", schema).items()})
