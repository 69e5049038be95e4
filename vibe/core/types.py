"""Names that tool files written for Mistral Vibe import from here; each is defined where the import below says."""

from __future__ import annotations

from vibe.core.tools.base import ToolStreamEvent
from vibe.core.tools.ui import ToolCallEvent, ToolResultEvent

__all__ = ["ToolCallEvent", "ToolResultEvent", "ToolStreamEvent"]
