"""Ways work can end, and what was not allowed on the way, in the words of the result record."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Outcome(StrEnum):
    """The end of an agent, a step or a run."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A decision or an approval was needed and nobody could give it."""
    LIMIT = "limit"
    """Turns, tokens, price, time or the provider's quota ended it."""
    INTERRUPTED = "interrupted"
    """A person or a signal stopped it; it can be continued."""


BUSY = "busy"


class Denial(Struct, frozen=True):
    """A tool call that was not allowed. ``by``: ``rule``, ``headless`` (nobody there to ask) or ``user``.

    ``busy``: others wrote in the folder for too long.
    """

    tool: str
    summary: str
    reason: str
    by: str
