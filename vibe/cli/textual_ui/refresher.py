"""Refresher, which schedules redraws in step with all others, and RowCompositor, which renders what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final, cast

from textual._compositor import Compositor
from textual.app import App
from textual.dom import DOMNode
from textual.geometry import Region
from textual.strip import Strip
from textual.timer import Timer

SECONDS_PER_FRAME: Final = 0.125
"""The period of what is animated."""
SECONDS_PER_REFRESH: Final = 0.25
"""The shortest time between two redraws of most widgets."""
SECONDS_PER_TICK: Final = 1.0
"""The shortest period of redraws by themselves when motion is off."""
LEAST_WAIT: Final = 0.01
"""The shortest interval of a timer, in seconds.

All timers here are intervals that are stopped when they first fire: Textual skips a tick that is late, so a timer that
ticks only once might never fire.
"""
REST: Final = 3
"""The wait before the next redraw, as a multiple of the time the last one took, so that keys come first."""


class Refresher:
    """Calls ``draw`` within ``seconds`` of a ``request``, and at regular intervals if ``draw_every`` has set one.

    A request that comes alone is drawn at once. All others are drawn at multiples of ``seconds``, so that several
    refreshers share a frame of the screen.
    """

    def __init__(self, node: DOMNode, draw: Callable[[], object], seconds: float = SECONDS_PER_REFRESH) -> None:
        self._node = node
        self._draw = draw
        self._seconds = seconds
        self._free_at = 0.0
        self._soon: Timer | None = None
        self._ticks: Timer | None = None
        self.every = 0.0
        """The seconds between redraws by themselves; 0 if there are none."""

    def request(self) -> None:
        """Request a redraw, now or a little later."""
        if self._soon is not None or not self._node.is_attached:
            return
        waits = self._free_at - monotonic()
        if waits > 0:
            self._soon = self._node.set_interval(max(waits, LEAST_WAIT), self._now)
        else:
            self._now()

    def draw_every(self, every: float) -> None:
        """Draw every so many seconds, but at most once a second if motion is off; 0 draws on request only."""
        if every and app_of(self._node).animation_level == "none":
            every = max(every, SECONDS_PER_TICK)
        if every == self.every:
            return
        if self._ticks is not None:
            self._ticks.stop()
        self.every = every
        waits = max(_next(monotonic(), every) - monotonic(), LEAST_WAIT) if every else 0.0
        self._ticks = self._node.set_interval(waits, self._tick) if every else None

    def _tick(self) -> None:
        every, self.every = self.every, 0.0
        self.draw_every(every)
        if self._node.screen.is_current:  # otherwise another screen covers it
            self._now()

    def _now(self) -> None:
        if self._soon is not None:
            self._soon.stop()
        self._soon, began = None, monotonic()
        self._draw()
        now = monotonic()
        self._free_at = _next(max(began, now + REST * (now - began) - self._seconds), self._seconds)


class RowCompositor(Compositor):
    """Renders only the rows from the first to the last that changed; Textual's renders all rows of most widgets."""

    def _get_renders(self, crop: Region | None = None) -> Iterator[tuple[Region, Region, list[Strip]]]:
        rows = self.size.region if crop is None else Region(0, crop.y, self.size.width, crop.height)
        for widget, (region, clip) in self.visible_widgets.items():
            if seen := region.intersection(clip).intersection(rows):
                yield region, seen, widget.render_lines(seen.translate(-region.offset))


def app_of(node: DOMNode) -> App[None]:
    """Return the app that a widget or a screen belongs to."""
    return cast("App[None]", node.app)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type


def _next(now: float, every: float) -> float:
    """Return the next multiple of ``every`` seconds after ``now``."""
    return (now // every + 1) * every
