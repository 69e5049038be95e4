"""Parses JSON strictly: refuses what JSON forbids or what would break later readers, and names every problem."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from planner.plan.diagnostics import Position, Problem, quoted

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64

JsonPath: TypeAlias = tuple[str | int, ...]
JsonObject: TypeAlias = dict[str, Any]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class JsonRefused(Exception):
    """A text is not JSON that we accept; ``problems`` says why. The loader turns it into PlanInvalidError."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*map(str, problems))
        self.problems = problems


def shown_path(path: JsonPath) -> str:
    """Return a path in the form ``steps[2].depends_on[0]``; keys that are not names are quoted."""
    text = ""
    for part in path:
        shown = shown_part(part)
        text += f".{shown}" if text and not shown.startswith("[") else shown
    return text


def shown_part(part: str | int) -> str:
    """Return one key or index in the form that paths have."""
    if isinstance(part, str) and _PLAIN_KEY.fullmatch(part):
        return part
    return f"[{part if isinstance(part, int) else quoted(part)}]"


def decode(source: bytes | str) -> str:
    """Return the text of a document without a byte order mark.

    Raises:
        JsonRefused: the document is too large or not UTF-8.
    """
    try:
        size = len(source if isinstance(source, bytes) else source.encode())
        text = source if isinstance(source, str) else source.decode()
    except UnicodeError as error:
        at = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        raise JsonRefused(Problem("", f"is not valid UTF-8{at}", "save it as UTF-8")) from None
    if size > MAX_BYTES:
        raise JsonRefused(Problem("", f"is {size} bytes long, the limit is {MAX_BYTES}", "split it into several plans"))
    return text.removeprefix("\ufeff")


def parse(text: str) -> object:
    """Return the document as dicts, lists and plain values.

    Raises:
        JsonRefused: the text is not JSON, has a key twice in one object, a number that is not finite, or text that no
            file can hold (a NUL, half a surrogate pair), or is nested too deep.
    """
    reader = _Reader()
    try:
        document = json.loads(
            text, object_pairs_hook=reader.pairs, parse_float=reader.number, parse_constant=reader.number
        )
    except json.JSONDecodeError as error:
        at = Position(error.lineno, error.colno)
        raise JsonRefused(Problem("", f"is not JSON: {error.msg}", "use no comments, no last comma", at=at)) from None
    except RecursionError:
        raise JsonRefused(_too_deep(())) from None
    except ValueError:
        raise JsonRefused(Problem("", "has a number with thousands of digits")) from None
    problems = list(reader.problems(document, look_at_values=reader.has_infinite or "\\u" in text))
    if problems:
        raise JsonRefused(*problems)
    return document


def object_in(value: object) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def list_in(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def numbered_objects(value: object) -> list[tuple[int, JsonObject]]:
    """Return the objects in a list, each with its index; none if the value is not a list."""
    return [(index, cast("JsonObject", item)) for index, item in enumerate(list_in(value)) if isinstance(item, dict)]


def _too_deep(path: JsonPath) -> Problem:
    return Problem(shown_path(path[:4]), f"is nested deeper than {MAX_DEPTH} levels")


class _Reader(Struct):
    """Notes problems while ``json.loads`` runs; their places are found afterwards, and only if there are any."""

    has_infinite: bool = False
    _repeated_keys: dict[int, tuple[dict[str, Any], list[str]]] = field(default_factory=dict[Any, Any])
    """By ``id()``; the object in it keeps that unique."""

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            times = Counter(key for key, _ in pairs)
            self._repeated_keys[id(found)] = (found, [key for key in found if times[key] > 1])
        return found

    def number(self, text: str) -> float:
        value = float(text)
        self.has_infinite = self.has_infinite or not math.isfinite(value)
        return value

    def problems(self, document: object, *, look_at_values: bool) -> Iterator[Problem]:
        stack: list[tuple[JsonPath, object]] = [((), document)]
        while stack:
            path, value = stack.pop()
            if len(path) >= MAX_DEPTH and isinstance(value, (dict, list)):
                yield _too_deep(path)
                return
            if look_at_values:
                yield from _value_problems(path, value)
            yield from self._repeated_key_problems(path, value)
            children: list[tuple[JsonPath, object]] = [
                ((*path, key), child)
                for key, child in _children(value)
                if look_at_values or isinstance(child, (dict, list))
            ]
            stack.extend(reversed(children))

    def _repeated_key_problems(self, path: JsonPath, value: object) -> Iterator[Problem]:
        if id(value) in self._repeated_keys:
            for key in self._repeated_keys[id(value)][1]:
                yield Problem(shown_path((*path, key)), "is given twice", "keep one of them")


def _children(value: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(value, dict):
        return cast("dict[str | int, object]", value).items()
    if isinstance(value, list):
        return enumerate(cast("list[object]", value))
    return ()


def _value_problems(path: JsonPath, value: object) -> Iterator[Problem]:
    """Yield problems of a number, a text or the keys of an object."""
    if isinstance(value, float) and not math.isfinite(value):
        yield Problem(shown_path(path), "is not a finite number")
    texts: tuple[str, ...] = ()
    if isinstance(value, str):
        texts = (value,)
    elif isinstance(value, dict):
        texts = tuple(cast("dict[str, object]", value))
    for text in texts:
        if "\0" in text:
            yield Problem(shown_path(path), "has a NUL character", r"remove the \u0000")
        elif not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            yield Problem(shown_path(path), "has half a surrogate pair", "write the character itself")
