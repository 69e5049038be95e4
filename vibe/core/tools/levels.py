"""ToolPermission: how freely a tool may be called."""

from __future__ import annotations

from enum import StrEnum


class ToolPermission(StrEnum):
    """What may happen without asking."""

    ALWAYS = "always"
    NEVER = "never"
    ASK = "ask"
