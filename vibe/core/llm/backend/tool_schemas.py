"""Adapts the schemas of tools to what providers accept, and the values that models hand in to the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, cast

from vibe.core.schemas import list_of, map_schema, table_of

_NOT_IN_KEYS: Final = re.compile(r"[^a-zA-Z0-9_.-]")
LONGEST_KEY: Final = 64
"""Characters of a property's name: Anthropic's "Tool use" wants them to match ``^[a-zA-Z0-9_.-]{1,64}$``."""
_TYPES_OF: Final[Mapping[type[Any], frozenset[str]]] = MappingProxyType({
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    dict: frozenset({"object"}),
    float: frozenset({"number"}),
    int: frozenset({"integer", "number"}),
    list: frozenset({"array"}),
    str: frozenset({"string"}),
})
"""The JSON types of a value, by its type in Python."""
ANY_TYPE: Final = sorted({kind for kinds in _TYPES_OF.values() for kind in kinds})
_NOT_AT_TOP: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref"})
"""Keywords that OpenAI and Anthropic refuse at the top of a schema; the tool still validates by them."""


def wire_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's parameters as providers accept them.

    The top is an object with the properties of all its alternatives, every array has ``items``, and every property's
    name can be sent.
    """
    forms = list(_forms({**parameters, "type": "object"}, parameters))
    top = {key: value for key, value in parameters.items() if key not in _NOT_AT_TOP} | {"type": "object"}
    top["properties"] = {name: one[0] if len(one) == 1 else {"anyOf": one} for name, one in _properties(forms).items()}
    needed = dict.fromkeys(name for form in forms for name in list_of(form.get("required")))
    if needed and not {"anyOf", "oneOf"} & parameters.keys():
        top["required"] = [*needed]
    return map_schema(top, _sendable)


def _properties(forms: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the different schemas of each property that these schemas have."""
    found: dict[str, list[Any]] = {}
    for form in forms:
        for name, one in table_of(form.get("properties")).items():
            found[name] = [*(other for other in found.get(name, ()) if other != one), one]
    return found


def as_declared(value: Any, schema: Any, whole: Any = None) -> Any:
    """Return a value of a call as its ``schema``, a part of the ``whole`` one, declares it.

    Properties get the tool's own names, and a null that means "not given" is left out. Where the schema allows nothing
    else, text becomes the JSON it holds, a whole float an integer, an integer text, and a single thing a list.
    """
    whole = schema if whole is None else whole
    forms = list(_forms(schema, whole))
    value = _of_type(value, _types(forms))
    items = [form["items"] for form in forms if "items" in form]
    if isinstance(value, list) and items:
        return [as_declared(one, {"anyOf": items}, whole) for one in cast("list[Any]", value)]
    own = _properties(forms)
    if not isinstance(value, dict) or not own:
        return cast("Any", value)
    names = {sent: name for name, sent in _sent_names(own).items()}
    needed = {name for form in forms for name in list_of(form.get("required"))}
    found: dict[str, Any] = {}
    for key, one in cast("dict[str, Any]", value).items():
        name = names.get(key, key)
        part = {"anyOf": own.get(name, [])}
        if one is not None or name in needed or "null" in _types(_forms(part, whole)):
            found[name] = as_declared(one, part, whole)
    return found


def _forms(schema: Any, whole: Any, seen: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a schema consists of, without references and alternatives.

    Each reference is followed once, since it may lead round in a circle. ``seen`` are those that were followed.
    """
    table, seen = table_of(schema), set[str]() if seen is None else seen
    parts = [one for key in ("anyOf", "oneOf", "allOf") for one in list_of(table.get(key))]
    if str(pointer := table.get("$ref", "")).startswith("#/") and pointer not in seen:
        seen.add(pointer)
        parts.append(reduce(lambda part, name: table_of(part).get(name), pointer[2:].split("/"), whole))
    if "type" in table or not (parts or pointer in seen):
        yield table
    for part in parts:
        yield from _forms(part, whole, seen)


def _types(forms: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the JSON types that these schemas allow: all, if one of them names none."""
    return {kind for form in forms for kind in list_of(form.get("type", ANY_TYPE))}


def _of_type(value: Any, types: Collection[str]) -> Any:
    """Return a value as one of these JSON types, if it is of none of them and can be read so."""
    if value is None or not _TYPES_OF[type(value)].isdisjoint(types):
        return value
    read: Any = value
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            read = json.loads(value)
    if isinstance(read, float) and read.is_integer() and "integer" in types:
        return int(read)
    if isinstance(read, int) and not isinstance(read, bool) and "string" in types:
        return str(read)
    if not _TYPES_OF[type(read)].isdisjoint(types):
        return read
    return [value] if "array" in types else value


def _sendable(table: dict[str, Any]) -> dict[str, Any]:
    """Return one schema with its properties under the names they are sent by, and with ``items`` for an array."""
    names = _sent_names(table_of(table.get("properties")))
    sendable = dict(table)
    if names:
        sendable["properties"] = {names[name]: one for name, one in table["properties"].items()}
    if "required" in table:
        sendable["required"] = [names.get(name, name) for name in list_of(table["required"])]
    if not {"items", "prefixItems"} & table.keys() and "array" in list_of(table.get("type")):
        sendable["items"] = {}
    return sendable


def _sent_names(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the name under which each property is sent: its own if a provider accepts that."""
    sent: dict[str, str] = {}
    for name in sorted(properties, key=lambda name: _NOT_IN_KEYS.search(name) is not None or len(name) > LONGEST_KEY):
        plain = _NOT_IN_KEYS.sub("_", name)[:LONGEST_KEY] or "_"
        unique, number = plain, 2
        while unique in sent.values():
            unique, number = f"{plain[: LONGEST_KEY - 4]}_{number}", number + 1
        sent[name] = unique
    return {name: sent[name] for name in properties}
