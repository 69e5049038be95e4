"""Display of tools to people: the hooks a tool may offer, and what is shown without them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field
from pydantic import BaseModel

Args_co = TypeVar("Args_co", bound=BaseModel, covariant=True)
Result_co = TypeVar("Result_co", bound=BaseModel, covariant=True)


class ToolCallView(Struct, frozen=True, kw_only=True):
    """A call as its tool's display sees it, arguments parsed; what goes on the wire is ``ipc.events.ToolCallEvent``."""

    tool_name: str
    tool_call_id: str
    args: BaseModel | None = None


class ToolResultView(Struct, frozen=True, kw_only=True):
    """A result as its tool's display sees it: ``result``, or else ``error``."""

    tool_name: str
    tool_call_id: str
    result: BaseModel | None = None
    error: str | None = None


ToolCallEvent, ToolResultEvent = ToolCallView, ToolResultView
"""The same as Mistral Vibe calls them."""


class ToolCallDisplay(Struct, frozen=True):
    """A call on one line, with more text for those who open it."""

    summary: str
    content: str | None = None


class ToolResultDisplay(Struct, frozen=True):
    """End of a call, on one line; ``warnings`` stand below it."""

    success: bool
    message: str
    warnings: list[str] = field(default_factory=list[str])


@runtime_checkable
class ToolUIData(Protocol[Args_co, Result_co]):
    """A tool that words its own calls and results."""

    @classmethod
    def get_call_display(cls, event: ToolCallView) -> ToolCallDisplay:
        """The call."""
        ...

    @classmethod
    def get_result_display(cls, event: ToolResultView) -> ToolResultDisplay:
        """Return how it ended."""
        ...

    @classmethod
    def get_status_text(cls) -> str:
        """Return what is happening while it runs."""
        ...


@lru_cache(maxsize=512)
def _words_itself(kind: type) -> bool:
    """Return whether a tool of this class does: to look for all its methods takes longer than to word a call."""
    return issubclass(kind, ToolUIData)


def call_summary(tool: Any, event: ToolCallView, default: str) -> str:
    """The tool's own wording of a call, else ``default``."""
    if not _words_itself(tool.__class__):
        return default
    return tool.get_call_display(event).summary
