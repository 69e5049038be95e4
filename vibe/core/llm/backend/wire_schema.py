"""Schemas of tools as providers take them, and the way back for what a model then calls with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from vibe.core.schemas import remade, table_of

_NO_KEY: Final = re.compile(r"[^a-zA-Z0-9_.-]")
LONGEST_KEY: Final = 64
"""Anthropic, "Tool use": names of properties match ``^[a-zA-Z0-9_.-]{1,64}$``."""
_NOT_AT_TOP: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "enum", "const"})
"""OpenAI and Anthropic refuse these at the top; the tool validates by them all the same."""


def wire_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's parameters: an object at the top, arrays that say of what, and names of properties that can be sent."""
    top = {key: value for key, value in parameters.items() if key not in _NOT_AT_TOP}
    return remade({"properties": {}, **top, "type": "object"}, _shaped)


def as_declared(arguments: Any, schema: Any) -> Any:
    """The arguments of a call under the names the tool has for them, without nulls that stand for nothing given."""
    table = table_of(schema)
    if isinstance(arguments, list):
        return [as_declared(one, table.get("items")) for one in cast("list[Any]", arguments)]
    own = cast("dict[str, Any]", table.get("properties"))
    if not isinstance(arguments, dict) or not isinstance(own, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        return cast("Any", arguments)
    names = {sent: name for name, sent in _sent_names(own).items()}
    said = {names.get(key, key): value for key, value in cast("dict[str, Any]", arguments).items()}
    return {
        name: as_declared(value, own.get(name))
        for name, value in said.items()
        if value is not None or name in _listed(table.get("required")) or _may_be_null(own.get(name))
    }


def _may_be_null(schema: Any) -> bool:
    """Return whether null may be meant: the schema has it, or does not say what there is."""
    table = table_of(schema)
    return "type" not in table or "null" in _listed(table["type"])


def _shaped(table: dict[str, Any]) -> dict[str, Any]:
    """One schema with properties under the names they are sent by, and arrays that say of what."""
    names = _sent_names(table_of(table.get("properties")))
    shaped = dict(table)
    if names:
        shaped["properties"] = {names[name]: one for name, one in table["properties"].items()}
    if "required" in table:
        shaped["required"] = [names.get(name, name) for name in _listed(table["required"])]
    if not {"items", "prefixItems"} & table.keys() and "array" in _listed(table.get("type")):
        shaped["items"] = {}
    return shaped


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _sent_names(properties: Mapping[str, Any]) -> dict[str, str]:
    """The name under which each property is sent: its own where that can be."""
    sent: dict[str, str] = {}
    for name in sorted(properties, key=lambda name: _NO_KEY.search(name) is not None or len(name) > LONGEST_KEY):
        plain = _NO_KEY.sub("_", name)[:LONGEST_KEY] or "_"
        unique, number = plain, 2
        while unique in sent.values():
            unique, number = f"{plain[: LONGEST_KEY - 4]}_{number}", number + 1
        sent[name] = unique
    return {name: sent[name] for name in properties}
