"""Reading the arguments of a call out of the JSON text a model wrote."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

import msgspec

from vibe.core.tools.errors import ToolArgumentsError


def parse_arguments(tool: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in ``text``; none at all counts as an empty one.

    Raises:
        ToolArgumentsError: it is no JSON (says where), no object, or can't go on a wire (half a surrogate pair).
            The schema is repeated.
    """
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno} (character {error.pos})"
        raise _problem(tool, f"is not valid JSON: {error.msg} at {at}", schema) from error
    except (ValueError, RecursionError) as error:
        raise _problem(tool, f"is not valid JSON: {error}", schema) from error
    if not isinstance(value, dict):
        raise _problem(tool, f"is {_KINDS.get(type(value), 'a number')}, not an object", schema)
    try:
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError) as error:  # such as half a surrogate pair
        raise _problem(tool, f"holds what can't be passed on: {error}", schema) from error
    return cast("dict[str, Any]", value)


_KINDS: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _problem(tool: str, problem: str, schema: dict[str, Any]) -> ToolArgumentsError:
    wanted = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ToolArgumentsError(tool, [f"arguments: {problem}; send an object of this JSON Schema: {wanted}"])


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
