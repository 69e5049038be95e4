"""Hooks: an event, the tools it is about, and a command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vibe.core.config.patterns import REGEX_PREFIX, NamePatterns, our_tool_name

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
