"""Refresher: draws a widget again when something changed, four times a second at most, and rests in between."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.timer import Timer
from textual.widget import Widget

SECONDS_PER_REFRESH = 0.25


class Refresher:
    """Calls ``draw`` soon after ``wish``; and every so many seconds by itself, as ``beat`` says."""

    def __init__(self, widget: Widget, draw: Callable[[], object]) -> None:
        self._widget = widget
        self._draw = draw
        self._drawn_at = 0.0
        self._soon: Timer | None = None
        self._beat: Timer | None = None
        self._every = 0.0

    @property
    def beats(self) -> bool:
        """It draws by itself."""
        return self._beat is not None

    def wish(self) -> None:
        """Have it drawn, now or at most a quarter of a second later."""
        if self._soon is not None or not self._widget.is_attached:
            return
        waits = self._drawn_at + SECONDS_PER_REFRESH - time.monotonic()
        if waits > 0:
            self._soon = self._widget.set_timer(waits, self._now)
        else:
            self._now()

    def beat(self, every: float) -> None:
        """Have it drawn every so many seconds; 0: only on a wish."""
        if every == self._every:
            return
        if self._beat is not None:
            self._beat.stop()
        self._beat = self._widget.set_interval(every, self._now) if every else None
        self._every = every

    def _now(self) -> None:
        if self._soon is not None:
            self._soon.stop()
        self._soon, self._drawn_at = None, time.monotonic()
        self._draw()
