"""Reading the arguments of a call out of the JSON text a model wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn, cast

import msgspec

from vibe.core.tools.errors import ToolArgumentsError

DEEPEST = 100
"""Lists and objects in each other; what lies deeper no tool takes, and not everything that passes it on could."""


def parse_arguments(tool: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in ``text``; none at all counts as an empty one.

    Raises:
        ToolArgumentsError: it is no JSON (says where), no object, too deep, or can't go on a wire (half a surrogate
            pair).
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
    if is_deep(cast("object", value), DEEPEST):
        raise _problem(tool, f"is nested more than {DEEPEST} levels deep", schema)
    try:
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError) as error:  # such as half a surrogate pair
        raise _problem(tool, f"holds what can't be passed on: {error}", schema) from error
    return cast("dict[str, Any]", value)


_KINDS: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _problem(tool: str, problem: str, schema: dict[str, Any]) -> ToolArgumentsError:
    wanted = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ToolArgumentsError(tool, [f"arguments: {problem}; send an object of this JSON Schema: {wanted}"])


def is_deep(value: object, most: int) -> bool:
    """Return whether more than ``most`` lists and objects lie in each other."""
    inner: list[object] = [value]
    for _ in range(most):
        inner = [one for outer in inner for one in _parts(outer)]
        if not inner:
            return False
    return any(isinstance(one, dict | list) for one in inner)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
