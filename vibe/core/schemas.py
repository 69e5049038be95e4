"""Reads untyped JSON safely, and builds and transforms JSON Schemas as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, cast

_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Schema keywords whose values map names chosen by the author, rather than keywords, to schemas."""
_DATA: Final = frozenset({"const", "enum", "required", "default", "examples"})
"""Schema keywords whose values are plain data, even if they look like schemas."""


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which Python's JSON parser reads otherwise; pass this as its ``parse_constant``."""
    raise ValueError(f"{name} is not a JSON number")


def table_of(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return the value if it is a JSON list, else a list of it alone; an empty list for null."""
    return cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]


def tables_of(value: object) -> list[dict[str, Any]]:
    """Return the JSON objects in a list that are not empty, or the value alone if it is one."""
    return [table for one in list_of(value) if (table := table_of(one))]


def whole_number(value: object) -> int | None:
    """Return the value as an int if it is one, or a whole float, or text of digits; else None."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:9])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def text_in(value: object) -> str:
    """Return the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties, all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def map_schema(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a schema with ``change`` applied to every subschema, from the inside out."""
    if isinstance(schema, list):
        return [map_schema(one, change) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema

    def inside(key: str, value: Any) -> Any:
        if key in _BY_NAME and isinstance(value, dict):
            return {name: map_schema(one, change) for name, one in cast("dict[str, Any]", value).items()}
        return value if key in _DATA else map_schema(value, change)

    return change({key: inside(key, value) for key, value in cast("dict[str, Any]", schema).items()})


def rooted_at(schema: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return the schema for use inside another one: its references to itself lead to ``pointer`` (``#/a/b``)."""

    def moved(table: dict[str, Any]) -> dict[str, Any]:
        return {
            name: pointer + part[1:]
            if name in {"$ref", "$dynamicRef"} and isinstance(part, str) and (part == "#" or part.startswith("#/"))
            else part
            for name, part in table.items()
        }

    return map_schema({name: part for name, part in schema.items() if name != "$schema"}, moved)
