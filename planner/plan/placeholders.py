"""Placeholders in a plan's texts: ``${inputs.name}``, ``${item.a.b}``, ``${index}``; ``$${`` is ``${`` itself.

They are found, checked and filled in here, in one pass: a value that was filled in is never searched for placeholders.
Shell lines may not have any. There an environment variable holds the value, so that no value becomes program text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from planner.plan.diagnostics import Problem, UnfilledError, listed, quoted

INPUTS = "inputs"
ITEM = "item"
INDEX = "index"
INPUT_VARIABLE = "VIBE_INPUT"
ITEM_VARIABLE = "VIBE_ITEM"
LONGEST_NUMBER = 10
"""Numbers of entries in a list have fewer digits than this."""
MAX_FILLED = 256 * 1024
"""The most characters that may be filled in in one text."""

_VARIABLES = {INPUTS: INPUT_VARIABLE, ITEM: ITEM_VARIABLE}
_FOUND = re.compile(
    r"\$\$\{|\$\{(inputs|item|index)(?![A-Za-z0-9_-])(?:((?:\.[^\s.{}$]{1,200}){0,16})\}|([^}\n]{0,200}))"
)
_OPEN = "${"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_]")


class Placeholder(Struct, frozen=True):
    """A placeholder in a text: the ``root`` it begins with, the names after it, and ``torn``, a malformed rest."""

    root: str
    names: tuple[str, ...] = ()
    torn: str | None = None

    @property
    def text(self) -> str:
        """The placeholder as it is written."""
        return f"{_OPEN}{'.'.join((self.root, *self.names))}" + ("}" if self.torn is None else f"{self.torn}}}")

    @property
    def variable(self) -> str:
        """The environment variable that holds the same value for a command."""
        return variable_of(_VARIABLES.get(self.root, ITEM_VARIABLE), *self.names[:1])


def variable_of(prefix: str, *names: str) -> str:
    """Return the environment variable for a name: ``VIBE_INPUT`` and ``max-files`` give ``VIBE_INPUT_MAX_FILES``."""
    return "_".join((prefix, *(_NOT_NAME.sub("_", name).upper() for name in names)))


def as_text(value: object) -> str:
    """Return the text that is filled in for a value: text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find(text: str) -> Iterator[Placeholder]:
    """Yield the placeholders in a text, repeated ones too; any other ``${...}`` is plain text."""
    if _OPEN in text:
        yield from (_read(match) for match in _FOUND.finditer(text) if match[1])


def _read(match: re.Match[str]) -> Placeholder:
    names = tuple((match[2] or "").split(".")[1:])
    return Placeholder(match[1], names, match[3])


def fill(text: str, values: Mapping[str, object], *, longest: int = MAX_FILLED) -> str:
    """Return the text with its placeholders filled in from ``values``: ``{"inputs": {...}, "item": ..., "index": 0}``.

    A value keeps ``longest`` characters, followed by the number of those left out.

    Raises:
        UnfilledError: a placeholder has no value, or all values together are longer than MAX_FILLED.
    """
    if _OPEN not in text:
        return text
    parts: list[str] = []
    size = end = 0
    for match in _FOUND.finditer(text):
        filled = _OPEN if match[1] is None else _shortened(as_text(_value(_read(match), values)), longest)
        parts += (text[end : match.start()], filled)
        end = match.end()
        size += len(filled)
        if size > MAX_FILLED:
            raise UnfilledError(f"takes more than {MAX_FILLED:,} characters to fill in: use fewer placeholders")
    return "".join((*parts, text[end:]))


def escape(text: str) -> str:
    """Return the text that ``fill`` turns into this one."""
    return text.replace(_OPEN, "$${")


def _value(placeholder: Placeholder, values: Mapping[str, object]) -> object:
    value: object = values
    for name in (placeholder.root, *placeholder.names):
        value = part_of(value, name)
        if value is ABSENT or placeholder.torn is not None:
            raise UnfilledError(f"{placeholder.text} has no value")
    return value


ABSENT = object()
"""Stands for a part that a value does not have."""


def part_of(value: object, name: str) -> object:
    """Return a part of an object or a list by its name or number, or ABSENT if there is none."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name, ABSENT)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < LONGEST_NUMBER:
        part = cast("list[object]", value)[int(name) :][:1]
        return part[0] if part else ABSENT
    return ABSENT


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}[... {len(text) - longest:,} characters more]"


def problems_in_text(path: str, text: object, *, inputs: Collection[str], items: bool) -> Iterator[Problem]:
    """Yield problems of the placeholders in a text; ``items`` says that those of an item are allowed."""
    for placeholder in dict.fromkeys(find(text)) if isinstance(text, str) else ():
        if placeholder.torn is not None:
            fix = "write ${inputs.NAME}, ${item.FIELD} or ${index}; $${ is ${ itself"
            yield Problem(path, f"{quoted(placeholder.text)} is not a placeholder", fix)
        elif placeholder.root == INPUTS:
            yield from _input_problems(path, placeholder, inputs)
        elif not items:
            fix = 'give the step "for_each"; $${ is ${ itself'
            yield Problem(path, f"{placeholder.text} stands only in a step with for_each", fix)
        elif placeholder.root == INDEX and placeholder.names:
            yield Problem(path, f"{placeholder.text}: an index is a number", "write ${index}")


def _input_problems(path: str, placeholder: Placeholder, inputs: Collection[str]) -> Iterator[Problem]:
    known = f"the plan's inputs: {listed(inputs)}"
    if len(placeholder.names) != 1:
        yield Problem(path, f"{placeholder.text} names no input", f"write ${{inputs.NAME}}; {known}")
    elif placeholder.names[0] not in inputs:
        fix = f"add it to `inputs`; {known}; $${{ is ${{ itself"
        yield Problem(path, f"unknown input {quoted(placeholder.names[0])}", fix)


def problems_in_commands(path: str, lines: object) -> Iterator[Problem]:
    """Yield a problem for each placeholder in a shell line or a list of them, where none is allowed."""
    texts: list[Any] = list(cast("Sequence[Any]", lines)) if isinstance(lines, list) else [lines]
    for index, text in enumerate(texts):
        where = f"{path}[{index}]" if isinstance(lines, list) else path
        for placeholder in dict.fromkeys(find(text)) if isinstance(text, str) else ():
            if placeholder.torn is None and placeholder.root != INDEX:
                message = f"{placeholder.text} can't stand in a command, where a value would be run by the shell"
                yield Problem(where, message, f'write "${placeholder.variable}"')
