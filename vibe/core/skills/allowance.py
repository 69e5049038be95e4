"""Tools that loaded skills leave an agent: pure matching of calls against ``allowed-tools``."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from vibe.core.config.tool_names import our_tool_name

ALWAYS_ALLOWED = frozenset({"skill", "todo"})
"""They reach nothing: the one can only restrict further, the other is the agent's own notebook."""

_ENTRY = re.compile(r"(?P<name>[^()]+)(?:\((?P<inner>.*)\))?")
_SHELL_SYNTAX = frozenset(";&|<>()$`\n\\{}")


def permits(allowed: tuple[str, ...], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an entry covers the call; names and globs of either vocabulary, ``Bash(git:*)`` included."""
    return tool in ALWAYS_ALLOWED or any(_covers(entry, tool, arguments) for entry in allowed)


def _covers(entry: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    found = _ENTRY.fullmatch(entry)
    if found is None or not fnmatchcase(tool, our_tool_name(found["name"].strip())):
        return False
    inner = found["inner"]
    if inner is None or inner.strip() in {"", "*"}:
        return True
    command = arguments.get("command")
    if isinstance(command, str):
        return _covers_command(inner.strip(), command)
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return bool(texts) and fnmatchcase(posixpath.normpath(texts[0]), inner.strip().removeprefix("./"))


def _covers_command(pattern: str, command: str) -> bool:
    """Return whether a single command begins with the words of ``git add:*``; anything compound is not covered."""
    if _SHELL_SYNTAX.intersection(command):
        return False
    open_ended = pattern.endswith((":*", " *"))
    try:
        wanted = shlex.split(pattern[:-2] if open_ended else pattern)
        words = shlex.split(command)
    except ValueError:
        return False
    return words[: len(wanted)] == wanted if open_ended else words == wanted
