"""Ways work can end, what was not allowed on the way, and how running work hears that it should stop."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Outcome(StrEnum):
    """The end of an agent, a step or a run."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A decision or an approval was needed, and no user was there to give it."""
    LIMIT = "limit"
    """Turns, tokens, price, time or the provider's quota ended it."""
    INTERRUPTED = "interrupted"
    """A person or a signal stopped it; it can be continued."""


BUSY = "busy"


class Denial(Struct, frozen=True):
    """A tool call that was not allowed. ``by``: ``rule``, ``headless`` (no user there to ask) or ``user``.

    ``busy``: others wrote in the folder for too long.
    """

    tool: str
    summary: str
    reason: str
    by: str


class StopSignal(Protocol):
    """Tells running work to stop at the end of its current turn."""

    @property
    def requested(self) -> bool:
        """True if the work is to stop."""
        ...


class NeverStop:
    """The signal of work that is never paused."""

    requested = False
