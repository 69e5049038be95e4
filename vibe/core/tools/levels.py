"""How freely a tool may be called, and what its own rules say about a call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ToolPermission(StrEnum):
    """What may happen without asking."""

    ALWAYS = "always"
    NEVER = "never"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a tool's own rules say about a call: its lists, why it is asked about, and why a person must say yes each time.

    ``read_only``: it could run unasked in a read-only sandbox.
    """

    listed: ToolPermission | None
    reason: str = ""
    must_ask: str = ""
    read_only: bool = False
