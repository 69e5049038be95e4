"""ReadOnly: refuses the tools that a read-only agent does not have, in words that say why."""

from __future__ import annotations

from collections.abc import Iterable

from vibe.core.config.tool_names import canonical_tool_name
from vibe.core.messages import ToolCall
from vibe.core.middleware.port import Middleware


class ReadOnly(Middleware):
    """``refused`` are the tools there are for others. They are not offered; a model that asks all the same is denied."""

    def __init__(self, agent: str, refused: Iterable[str]) -> None:
        self._agent = agent
        self._refused = frozenset(map(canonical_tool_name, refused))

    def refusal(self, call: ToolCall) -> str | None:
        """The profile's name, where the tool is one of those."""
        name = canonical_tool_name(call.name)
        return f"the agent {self._agent!r} is read-only and has no {name}" if name in self._refused else None
