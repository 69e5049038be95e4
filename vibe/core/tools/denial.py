"""Denial: a tool call that was not allowed."""

from __future__ import annotations

from msgspec import Struct


class Denial(Struct, frozen=True):
    """A tool call that was not allowed. ``by``: ``rule``, ``headless`` (nobody there to ask) or ``user``."""

    tool: str
    summary: str
    reason: str
    by: str
