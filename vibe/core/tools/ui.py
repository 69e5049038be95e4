"""The display of calls to people: the methods by which a tool words its own calls and results."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field
from pydantic import BaseModel

Args_co = TypeVar("Args_co", bound=BaseModel, covariant=True)
Result_co = TypeVar("Result_co", bound=BaseModel, covariant=True)


class ToolCallView(Struct, frozen=True, kw_only=True):
    """A call with parsed arguments, as passed to a tool's display. On the wire it is ``ipc.events.ToolCallEvent``."""

    tool_name: str
    tool_call_id: str
    args: BaseModel | None = None


class ToolResultView(Struct, frozen=True, kw_only=True):
    """A result as passed to a tool's display: either ``result`` or ``error``."""

    tool_name: str
    tool_call_id: str
    result: BaseModel | None = None
    error: str | None = None


ToolCallEvent, ToolResultEvent = ToolCallView, ToolResultView
"""The names Mistral Vibe uses for them."""


class ToolCallDisplay(Struct, frozen=True):
    """A call on one line, and more text for those who open it."""

    summary: str
    content: str | None = None


class ToolResultDisplay(Struct, frozen=True):
    """The end of a call on one line, with ``warnings`` below it."""

    success: bool
    message: str
    warnings: list[str] = field(default_factory=list[str])


@runtime_checkable
class ToolUIData(Protocol[Args_co, Result_co]):
    """A tool that words its own calls and results."""

    @classmethod
    def get_call_display(cls, event: ToolCallView) -> ToolCallDisplay:
        """Return how to show a call."""
        ...

    @classmethod
    def get_result_display(cls, event: ToolResultView) -> ToolResultDisplay:
        """Return how to show the result."""
        ...

    @classmethod
    def get_status_text(cls) -> str:
        """Return a phrase for what is going on while it runs."""
        ...


@lru_cache(maxsize=512)
def _words_itself(kind: type) -> bool:
    """Return whether a tool class is a ToolUIData. Cached, because checking takes longer than wording a call."""
    return issubclass(kind, ToolUIData)


def call_summary(tool: Any, event: ToolCallView, default: str) -> str:
    """Return the tool's own summary of a call, or ``default`` if it has none."""
    if not _words_itself(tool.__class__):
        return default
    return tool.get_call_display(event).summary
