"""StopSignal: how running work hears that it should stop at the end of its current turn."""

from __future__ import annotations

from typing import Protocol


class StopSignal(Protocol):
    """Tells running work to stop at the end of its current turn."""

    @property
    def requested(self) -> bool:
        """True if the work is to stop."""
        ...


class NeverStop:
    """The signal of work nobody pauses."""

    requested = False
