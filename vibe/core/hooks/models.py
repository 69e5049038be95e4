"""Hooks: an event, the tools it is about, and a command, as ``hooks.toml`` has them.

A file that is wrong is an error, for a guard that silently is not there guards nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from vibe.core.config.patterns import REGEX_PREFIX, NamePatterns, our_tool_name
from vibe.core.config.toml_source import RawPath, TomlSource, read_toml
from vibe.system.errors import ConfigError

DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_TIMEOUT_SECONDS = 600.0
DEFAULT_RETRIES = 3
"""The number of times a hook is tried again that could not be started or ran out of time."""


class HookEvent(StrEnum):
    """Moment at which a hook runs."""

    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    POST_AGENT_TURN = "post_agent_turn"


EVENT_NAMES = MappingProxyType({
    "aftertool": HookEvent.AFTER_TOOL,
    "aftertoolcall": HookEvent.AFTER_TOOL,
    "afteragent": HookEvent.POST_AGENT_TURN,
    "afteragentturn": HookEvent.POST_AGENT_TURN,
    "beforetool": HookEvent.BEFORE_TOOL,
    "beforetoolcall": HookEvent.BEFORE_TOOL,
    "postagentturn": HookEvent.POST_AGENT_TURN,
    "posttool": HookEvent.AFTER_TOOL,
    "posttooluse": HookEvent.AFTER_TOOL,
    "pretool": HookEvent.BEFORE_TOOL,
    "pretooluse": HookEvent.BEFORE_TOOL,
    "stop": HookEvent.POST_AGENT_TURN,
    "subagentstop": HookEvent.POST_AGENT_TURN,
})
"""Spellings of events, without case, hyphens and underscores."""


def event_named(word: str) -> HookEvent | None:
    """The event a word means, in the spelling of any tool of this kind."""
    return EVENT_NAMES.get(re.sub(r"[-_ ]", "", word).casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One entry of a ``hooks.toml``. ``project_dir`` is the folder its ``.vibe`` lies in, None for the user's own.

    ``strict``: a call is denied where the hook that should check it fails; else that is a warning.
    """

    name: str
    event: HookEvent
    command: str
    matcher: NamePatterns | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    retries: int = DEFAULT_RETRIES
    project_dir: Path | None = None
    strict: bool = True

    def is_about(self, tool: str) -> bool:
        """Return whether it wants to know about calls of a tool."""
        return self.matcher is None or self.matcher.matches(tool)


def tool_matcher(text: str, *, where: str) -> NamePatterns | None:
    """``Edit|Write``, ``bash``, ``mcp_*`` or ``re:...`` in either vocabulary; None: every tool.

    Raises:
        ConfigError: a regular expression is not valid.
    """
    if text.strip() in {"", "*", ".*"}:
        return None
    parts = [text] if text.startswith(REGEX_PREFIX) else [part.strip() for part in text.split("|") if part.strip()]
    patterns = [part if part.startswith(REGEX_PREFIX) else our_tool_name(part) for part in parts]
    return NamePatterns(patterns, where=where, key="matcher")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """A tool call as hooks are told of it."""

    tool_call_id: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """Outcome of the hooks before a call: ``objection`` says why it may not run, else the ``call``.

    ``changed`` are the names of those hooks, as a phrase; empty: it is as it was.
    """

    call: HookCall
    objection: str | None = None
    changed: str = ""


HOOKS_FILE = "hooks.toml"
KEYS = frozenset({
    "name", "description", "event", "type", "matcher", "match", "command", "timeout", "retries", "strict",
})  # fmt: skip
MAX_RETRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """A file that may hold hooks, how it is shown, and the project it belongs to (None: the user)."""

    path: Path
    label: str
    project_dir: Path | None = None


def load_hooks(files: Iterable[HookFile]) -> tuple[Hook, ...]:
    """The hooks of all files, in order.

    A file lists hooks as ``[[hooks]]`` tables with an ``event``, or as ``[[hooks.before_tool]]`` tables.

    Raises:
        ConfigError: a file is not valid; file, line and key are named.
    """
    hooks: list[Hook] = []
    for file in files:
        source = read_toml(file.path, file.label)
        if source is not None:
            hooks.extend(_hooks(source, file))
    return tuple(hooks)


def _hooks(source: TomlSource, file: HookFile) -> Iterator[Hook]:
    for key in source.data:
        if key != "hooks":
            raise ConfigError(source.where((key,)), key, "is unknown, write hooks as [[hooks]] tables")
    found = source.data.get("hooks", [])
    if isinstance(found, dict):
        for word, tables in cast("dict[str, Any]", found).items():
            event = _event(source, ("hooks", word), word)
            yield from _entries(source, file, tables, ("hooks", word), event)
    else:
        yield from _entries(source, file, found, ("hooks",), None)


def _entries(source: TomlSource, file: HookFile, tables: Any, path: RawPath, event: HookEvent | None) -> Iterator[Hook]:
    if not isinstance(tables, list):
        raise ConfigError(source.where(path), ".".join(map(str, path)), "must be a list of tables, such as [[hooks]]")
    for index, table in enumerate(cast("list[Any]", tables)):
        place = (*path, index)
        if not isinstance(table, dict):
            raise ConfigError(source.where(place), f"hooks[{index}]", "must be a table")
        yield _hook(_Table(source, place, cast("dict[str, Any]", table)), file, event, index)


class _Table:
    """One table of a file, whose values are wanted by type."""

    def __init__(self, source: TomlSource, path: RawPath, data: dict[str, Any]) -> None:
        self.source = source
        self.path = path
        self.data = data
        for key in data:
            if key not in KEYS:
                raise self.wrong(key, f"is unknown, a hook has: {', '.join(sorted(KEYS))}")

    def wrong(self, key: str, problem: str) -> ConfigError:
        """The error about one key."""
        return ConfigError(self.source.where((*self.path, key)), f"hooks.{key}", problem)

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or "\0" in value:
            raise self.wrong(key, f"must be a string, not {value!r}")
        return value

    def truth(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"must be true or false, not {value!r}")
        return value

    def number(self, key: str, default: float, most: float) -> float:
        """A number above or at 0."""
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise self.wrong(key, f"must be a number from 0 to {most:g}, not {value!r}")
        return value


def _hook(table: _Table, file: HookFile, event: HookEvent | None, index: int) -> Hook:
    key = "event" if "event" in table.data else "type"
    if event is None:
        event = _event(table.source, (*table.path, key), table.text(key))
    command = table.text("command").strip()
    if not command:
        raise table.wrong("command", "is missing, give the shell command to run")
    timeout = table.number("timeout", DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS)
    if not timeout:
        raise table.wrong("timeout", "must be more than 0 seconds")
    return Hook(
        name=table.text("name").strip() or f"{event.value} {index + 1} of {file.label}",
        event=event,
        command=command,
        matcher=_matcher(table),
        timeout_seconds=timeout,
        retries=int(table.number("retries", DEFAULT_RETRIES, MAX_RETRIES)),
        project_dir=file.project_dir,
        strict=table.truth("strict", default=True),
    )


def _matcher(table: _Table) -> NamePatterns | None:
    key = "match" if "match" in table.data else "matcher"
    if key == "match" and "matcher" in table.data:
        raise table.wrong("match", "means the same as matcher: give one of the two")
    return tool_matcher(table.text(key), where=table.source.where((*table.path, key)))


def _event(source: TomlSource, path: RawPath, word: str) -> HookEvent:
    event = event_named(word)
    if event is None:
        known = ", ".join(event.value for event in HookEvent)
        problem = f"must be one of {known} (or what other tools call them), not {word!r}" if word else "is missing"
        raise ConfigError(source.where(path), "hooks.event", problem if word else f"is missing, give one of {known}")
    return event
