"""Converts a plan in YAML to JSON, accepting only YAML that means the same to every reader and runs nothing.

Plain words are text, except for ``true``, ``false``, ``null`` and numbers in JSON's notation. So ``no``, ``on``,
``010``, ``1_000``, ``12:30`` and dates stay text, and are refused where the format wants something else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct, field

from planner.plan.diagnostics import Position, Problem, quoted
from planner.plan.positions import Kind, Token
from planner.plan.strict_json import MAX_DEPTH, JsonPath, JsonRefused, parse, shown_path

MAX_ALIASED = 1_000_000
"""The most characters that all aliases may expand to; each value counts as 16 more than it has."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_VALUE_WEIGHT = 16
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Node(Struct):
    """A value, and the weight and height it would add wherever an alias repeats it; ``key`` waits for its value."""

    value: Any
    anchor: str | None
    path: JsonPath
    is_list: bool = False
    weight: int = _VALUE_WEIGHT
    height: int = 0
    key: str | None = None


class _Builder(Struct):
    """Builds the document from the events of the YAML parser, one after another."""

    document: Any = None
    documents: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    _open: list[_Node] = field(default_factory=list[_Node])
    _anchors: dict[str, _Node] = field(default_factory=dict[str, _Node])
    _aliased: int = 0

    def take(self, event: yaml.Event) -> None:
        """Process one event.

        Raises:
            JsonRefused: the text can't be read any further.
        """
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise self._refused(event, "has several documents", "put each plan in its own file")
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(self._open.pop())
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case _:
                return

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if event.tag is not None:
            raise self._tagged(event, event.tag)
        if self._expects_key():
            raise self._refused(event, "has a list or an object as a key", "a key is text")
        if len(self._open) >= MAX_DEPTH:
            raise self._too_deep(event)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        value: Any = [] if is_list else {}
        self._open.append(_Node(value=value, anchor=event.anchor, path=self._path(), is_list=is_list))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = str(event.value)
        if event.tag not in (None, *_TEXT_TAGS):
            raise self._tagged(event, event.tag)
        if self._expects_key():
            self._key(event, text)
            return
        plain = event.tag is None and not event.style
        weight = _VALUE_WEIGHT + len(text)
        value = self._plain(event, text) if plain else text
        self._end(_Node(value=value, anchor=event.anchor, path=self._path(), weight=weight))

    def _key(self, event: yaml.ScalarEvent, text: str) -> None:
        parent = self._open[-1]
        if text == "<<" and not event.style:
            fix = "put what steps have in common into the plan's `defaults`"
            raise self._refused(event, "has a merge key (<<), which is not read", fix)
        if text in parent.value:
            path = (*parent.path, text)
            self.problems.append(Problem(shown_path(path), "is given twice", "keep one of them", at=_at(event)))
        parent.key = text
        parent.weight += _VALUE_WEIGHT + len(text)

    def _plain(self, event: yaml.ScalarEvent, text: str) -> Any:
        """Return the value of a plain, unquoted word."""
        if text in _WORDS:
            return _WORDS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            return text
        try:
            value = float(text) if number.group(1) or number.group(2) else int(text)
        except ValueError:
            raise self._refused(event, "has a number with thousands of digits") from None
        if value in (math.inf, -math.inf):
            raise self._refused(event, "is not a finite number")
        return value

    def _alias(self, event: yaml.AliasEvent) -> None:
        """Repeat the value of an anchor, within the bounds on depth and expansion."""
        name = event.anchor or ""
        target = self._anchors.get(name)
        if self._expects_key():
            raise self._refused(event, f"has the alias *{name[:60]} as a key", "write the key itself")
        if target is None:
            raise self._refused(event, f"*{name[:60]} refers to no anchor before it")
        if len(self._open) + target.height > MAX_DEPTH:
            raise self._too_deep(event)
        self._aliased += target.weight
        if self._aliased > MAX_ALIASED:
            raise self._refused(event, "has aliases that expand to too much text", "write it out, or split the plan")
        self._add(target)

    def _end(self, node: _Node) -> None:
        if node.anchor is not None:
            self._anchors[node.anchor] = node
        self._add(node)

    def _add(self, node: _Node) -> None:
        """Put a complete value into the list or object around it."""
        if not self._open:
            self.document = node.value
            return
        parent = self._open[-1]
        parent.weight += node.weight
        parent.height = max(parent.height, node.height + 1)
        if parent.is_list:
            parent.value.append(node.value)
        else:
            parent.value[parent.key], parent.key = node.value, None

    def _expects_key(self) -> bool:
        return bool(self._open) and not self._open[-1].is_list and self._open[-1].key is None

    def _path(self) -> JsonPath:
        """Return the path of the next value."""
        if not self._open:
            return ()
        parent = self._open[-1]
        if parent.is_list:
            return (*parent.path, len(parent.value))
        return parent.path if parent.key is None else (*parent.path, parent.key)

    def _tagged(self, event: yaml.Event, tag: object) -> JsonRefused:
        shown = quoted(str(tag).replace("tag:yaml.org,2002:", "!!"))
        return self._refused(event, f"has the tag {shown}, and tags are not read", "leave it out")

    def _too_deep(self, event: yaml.Event) -> JsonRefused:
        return self._refused(event, f"is nested deeper than {MAX_DEPTH} levels")

    def _refused(self, event: yaml.Event, message: str, fix: str = "") -> JsonRefused:
        return JsonRefused(*self.problems, Problem(shown_path(self._path()[:4]), message, fix, at=_at(event)))


def yaml_as_json(text: str) -> str:
    """Return the document in a YAML text as JSON.

    Raises:
        JsonRefused: the text is not YAML, has a key twice in one object, or uses YAML features that plans don't need:
            tags, merge keys, several documents, or aliases that expand to too much.
    """
    builder = _Builder()
    for event in _events(text):
        builder.take(event)
    if builder.problems:
        raise JsonRefused(*builder.problems)
    parse(json.dumps(builder.document))  # refuses text that no file can hold
    return json.dumps(builder.document, indent=2, ensure_ascii=False) + "\n"


def yaml_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a YAML text with their positions, as far as it can be read."""
    try:
        for event in _events(text):
            match event:
                case yaml.MappingStartEvent():
                    yield Kind.OBJECT, "", _at(event)
                case yaml.SequenceStartEvent():
                    yield Kind.LIST, "", _at(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    yield Kind.END, "", _at(event)
                case yaml.ScalarEvent():
                    yield Kind.VALUE, json.dumps(event.value), _at(event)
                case yaml.AliasEvent():
                    yield Kind.VALUE, "", _at(event)
                case _:
                    pass
    except JsonRefused:
        return


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "it can't be read"
        fix = "put a value that holds a colon in quotes" if "mapping values" in what else ""
        at = Position(mark.line + 1, mark.column + 1) if mark else None
        raise JsonRefused(Problem("", f"is not YAML: {what}", fix, at=at)) from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error).split())
        raise JsonRefused(Problem("", f"is not YAML: {reason}")) from None


def _at(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
