"""Checks JSON Schemas that plans name, and values against them.

Nothing is ever fetched: a ``$ref`` that leads out of the schema is a problem. Run as a program, this module checks a
value in a process of its own, whose processor time is limited by its argument, in seconds. There, patterns are matched
in linear time (RE2); Python matches those that RE2 does not support, such as a look-ahead.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

from jsonschema import _keywords, _legacy_keywords, _utils, exceptions, validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from msgspec import Struct
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from vibe.core.config.patterns import compile_linear

JsonPath = tuple[str | int, ...]

SHOWN_PROBLEMS = 30
"""The most problems of a value that are described. The rest are only counted."""
MESSAGE_LENGTH = 300
"""The most characters of one message."""
MAX_REFERENCES = 10_000
"""The most references a schema may follow before it has looked at any value."""
_REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data, even if they look like schemas."""


CHECK_SECONDS = 10
"""The most processor seconds for checking a value. After that it counts as not fitting."""
WALL_CLOCK_FACTOR = 6
"""The factor by which the check may take longer by the clock, on a machine that is busy with other things."""

_COSTLY = frozenset({"pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef", "uniqueItems"})
"""Keywords whose check can take longer than the lengths of schema and value suggest."""

_CHEAP_SIZE = 10_000_000
"""The length of the schema times that of the value up to which a check without costly keywords is quick."""


class SchemaProblem(Struct, frozen=True, kw_only=True):
    """A problem of a schema, and its path within the schema."""

    path: JsonPath
    message: str

    def __str__(self) -> str:
        """Return the path and the message, in the same form as for a value."""
        return f"{_shown(self.path, '').removeprefix('.')}: {self.message}".removeprefix(": ")


def schema_problems(schema: Mapping[str, Any]) -> tuple[SchemaProblem, ...]:
    """Return everything that keeps ``schema`` from being used, or nothing if it is a JSON Schema.

    It is read as draft 2020-12 unless it declares another dialect.
    """
    declared = schema.get("$schema", "")
    if not isinstance(declared, str) or (declared and cast("Any", validator_for)(schema, default=None) is None):
        return (SchemaProblem(path=("$schema",), message=f"{_short(declared)} is not a supported dialect"),)
    try:
        _dialect(schema).check_schema(schema)
    except SchemaError as error:
        path = tuple(error.path)
        is_type = path[-1:] == ("type",) and isinstance(error.instance, str)
        message = f"{_short(error.instance)} is not a JSON Schema type" if is_type else _cut(error.message)
        return (SchemaProblem(path=path, message=message),)
    except RecursionError:
        return (SchemaProblem(path=(), message="is nested too deeply"),)
    dangling = tuple(_dangling(schema))
    return dangling or tuple(_endless_references(_validator(schema)))


def value_problems(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Return a phrase for each problem of ``value``, opening with its path: ``value.files[0]: 3 is not a string``.

    Blocks. A check that takes too long is given up, and the value then counts as not fitting.
    """
    return _problems_in_subprocess(schema, value) if _is_costly(schema, value) else _problems_here(schema, value)


def _problems_here(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Check the value in this process, however long it takes."""
    try:
        errors = sorted(_validator(schema).iter_errors(value), key=lambda error: [str(part) for part in error.path])
    except RecursionError:
        return ("value: the schema refers to itself without end",)
    except Unresolvable as error:
        return (f"value: {_cut(str(error))}",)
    phrases = [f"{_shown(error.absolute_path)}: {_phrase(error)}" for error in errors[:SHOWN_PROBLEMS]]
    more = len(errors) - len(phrases)
    return (*phrases, f"and {more} more") if more else tuple(phrases)


def _is_costly(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether checking a value against a schema may take long."""
    text = json.dumps(schema)
    return any(f'"{keyword}"' in text for keyword in _COSTLY) or len(text) * len(json.dumps(value)) > _CHEAP_SIZE


def _problems_in_subprocess(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Check the value in another process, which can be stopped. Blocks."""
    argv = (sys.executable, "-P", "-m", __name__, str(CHECK_SECONDS))
    document = json.dumps({"schema": schema, "value": value})
    wait = CHECK_SECONDS * WALL_CLOCK_FACTOR
    late = f"value: could not be checked within {CHECK_SECONDS} s: make it smaller, or have the schema made simpler"
    try:
        ended = subprocess.run(  # noqa: S603  our own program
            argv, input=document, capture_output=True, text=True, encoding="utf-8", timeout=wait, check=True
        )
    except subprocess.TimeoutExpired:
        return (late,)
    except (OSError, subprocess.CalledProcessError) as error:
        is_late = isinstance(error, subprocess.CalledProcessError) and error.returncode == -signal.SIGXCPU
        return (late if is_late else f"value: could not be checked ({error})",)
    return tuple(json.loads(ended.stdout))


def _validator(schema: Mapping[str, Any]) -> Validator:
    return cast("Validator", _dialect(schema)(schema, registry=EMPTY_REGISTRY))


def _dialect(schema: Mapping[str, Any]) -> Any:
    """Return the validator class for the draft that the schema declares."""
    return cast("Any", validator_for)(schema, default=Draft202012Validator)


def _dangling(schema: Mapping[str, Any]) -> Iterator[SchemaProblem]:
    """Yield the references that lead nowhere in the schema."""
    resource = DRAFT202012.create_resource(cast("Any", schema))
    base = str(schema.get("$id", ""))
    registry = EMPTY_REGISTRY.with_resource(base, resource)
    for path, target in _references(schema, ()):
        try:
            registry.resolver(base).lookup(target)
        except (Unresolvable, ValueError):
            yield SchemaProblem(path=path, message=f"{_short(target)} leads nowhere in this schema")


def _references(node: Any, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    if isinstance(node, dict):
        for name, part in cast("dict[str, Any]", node).items():
            if name in _REFERRING and isinstance(part, str):
                yield (*path, name), part
            elif name not in _DATA_KEYWORDS:
                yield from _references(part, (*path, name))
    elif isinstance(node, list):
        for index, part in enumerate(cast("list[Any]", node)):
            yield from _references(part, (*path, index))


def _endless_references(validator: Validator) -> Iterator[SchemaProblem]:
    """Yield a problem if a schema refers to itself before it looks at a value, or too often to be usable."""
    kind = type(validator)
    keywords = cast("Mapping[str, Any]", cast("Any", kind).VALIDATORS)
    followed = 0

    def counted(keyword: Any) -> Any:
        def follow(*args: Any) -> Iterator[Any]:
            nonlocal followed
            followed += 1
            if followed > MAX_REFERENCES:
                raise RecursionError
            yield from keyword(*args) or ()

        return follow

    counting = {name: counted(keyword) for name, keyword in keywords.items() if name in _REFERRING}
    try:
        cast("Any", validators).extend(kind, counting)(validator.schema, registry=EMPTY_REGISTRY).is_valid(None)
    except RecursionError:
        yield SchemaProblem(path=(), message="refers to itself without end")


def _phrase(error: ValidationError) -> str:
    """Describe an error. If a value could have fitted in several ways, describe what keeps it from the closest one."""
    best_match = cast("Callable[..., ValidationError | None]", cast("Any", exceptions).best_match)
    closest = best_match(error.context or ())
    text = _cut(_text_of(error))
    return text if closest is None else f"{text} (closest: {_shown(closest.absolute_path)}: {_cut(_text_of(closest))})"


def _text_of(error: ValidationError) -> str:
    """Return the message of an error, in plain words for a wrong type."""
    if error.validator != "type":
        return error.message
    wanted = cast("str | list[str]", error.validator_value)
    kinds = [wanted] if isinstance(wanted, str) else wanted
    named = (kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in kinds)
    return f"{error.instance!r} is not {' or '.join(named)}"


def _shown(path: Iterable[str | int], root: str = "value") -> str:
    parts = (f"[{part}]" if isinstance(part, int) or not _PLAIN.fullmatch(part) else f".{part}" for part in path)
    return root + "".join(parts)


_PLAIN = re.compile(r"[\w$-]+")


def _short(value: object) -> str:
    return _cut(repr(value), 80)


def _cut(text: str, limit: int = MESSAGE_LENGTH) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit // 2]} ... {line[-limit // 2 :]}"


def main() -> None:
    """Read the schema and the value from standard input, and write the problems to standard output."""
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    linear = SimpleNamespace(search=_search)
    for module in (_keywords, _legacy_keywords, _utils):
        cast("Any", module).re = linear
    document = json.load(sys.stdin)
    json.dump(_problems_here(document["schema"], document["value"]), sys.stdout)


def _search(pattern: str, text: str) -> object:
    return (_linear(pattern) or re.compile(pattern)).search(text)


_linear = lru_cache(maxsize=None)(compile_linear)


if __name__ == "__main__":
    main()
