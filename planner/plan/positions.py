"""Finds where fields of a plan are in the text of its file; used only when something is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from planner.plan.diagnostics import Position
from planner.plan.strict_json import shown_part


class Kind(Enum):
    """The kind of a token: the start of an object or a list, the end of either, or a value (keys included)."""

    OBJECT = 1
    LIST = 2
    END = 3
    VALUE = 4


Token: TypeAlias = tuple[Kind, str, Position]
"""A part of a text: its kind, the text as written, and where it begins."""

_Parts: TypeAlias = tuple[str, ...]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_KINDS = {"{": Kind.OBJECT, "[": Kind.LIST, "}": Kind.END, "]": Kind.END}
_PART = re.compile(r"""\.?([A-Za-z_][A-Za-z0-9_-]*|\[(?:\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\])""")


class _Open(Struct):
    """An object or a list that is being read; ``path`` is None if nothing in it is wanted."""

    path: _Parts | None
    is_list: bool
    entries: int = 0
    key: tuple[str, Position] | None = None


def json_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text that is known to be JSON."""
    line, begins, seen = 1, 0, 0
    for match in _TOKEN.finditer(text):
        word, at = match.group(), match.start()
        if breaks := text.count("\n", seen, at):
            line, begins = line + breaks, text.rindex("\n", seen, at) + 1
        seen = at
        yield _KINDS.get(word, Kind.VALUE), word, Position(line, at - begins + 1)


def positions_in(tokens: Iterable[Token], paths: Iterable[str]) -> dict[str, Position]:
    """Return where each path, such as ``steps[2].mode``, begins in a text: at its key or its entry in a list.

    Anything that is missing is placed at the nearest thing around it.
    """
    wanted: dict[str, _Parts] = {path: tuple(_PART.findall(path)) for path in paths}
    prefixes = {parts[:end] for parts in wanted.values() for end in range(len(parts) + 1)}
    found = _positions_of(tokens, prefixes)
    places: dict[str, Position] = {}
    for path, parts in wanted.items():
        nearest = next((parts[:end] for end in range(len(parts), -1, -1) if parts[:end] in found), None)
        if nearest is not None:
            places[path] = found[nearest]
    return places


def _positions_of(tokens: Iterable[Token], prefixes: set[_Parts]) -> dict[_Parts, Position]:
    """Return the positions of those prefixes that are in the text."""
    found: dict[_Parts, Position] = {}
    stack: list[_Open] = []
    for kind, word, begins in tokens:
        if kind is Kind.END:
            stack.pop()
            continue
        parent = stack[-1] if stack else None
        if parent is not None and not parent.is_list and parent.key is None:
            parent.key = (word, begins)
            continue
        path, position = _path_and_place(parent, begins)
        path = path if path in prefixes else None
        if path is not None:
            found[path] = position
        if kind is not Kind.VALUE:
            stack.append(_Open(path, is_list=kind is Kind.LIST))
    return found


def _path_and_place(parent: _Open | None, begins: Position) -> tuple[_Parts | None, Position]:
    """Return the path of what begins now, or None if it is not wanted, and the position to report for it."""
    if parent is None:
        return (), begins
    part = f"[{parent.entries}]"
    parent.entries += 1
    key, parent.key = parent.key, None
    if parent.path is None:
        return None, begins
    if key is None:
        return (*parent.path, part), begins
    return (*parent.path, shown_part(_unquoted(key[0]))), key[1]


def _unquoted(word: str) -> str:
    return str(json.loads(word, strict=False)) if word.startswith('"') else word
