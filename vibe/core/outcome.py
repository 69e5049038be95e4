"""Ways work can end, in the words of the result record."""

from __future__ import annotations

from enum import StrEnum


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
