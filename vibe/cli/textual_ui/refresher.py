"""Refresher: has something drawn as it changes and as time passes, in step with all else that is."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from textual.dom import DOMNode
from textual.timer import Timer

if TYPE_CHECKING:
    from textual.app import App

SECONDS_PER_FRAME: Final = 0.125
SECONDS_PER_REFRESH: Final = 0.25
SECONDS_PER_TICK: Final = 1.0
LEAST_WAIT: Final = 0.01
"""Timers here are intervals that their first beat stops: Textual passes over a beat that is late, and one for a single
beat would then never fire."""
REST: Final = 3
"""Times as long as a drawing took, until the next: keys come first."""


class Refresher:
    """Calls ``draw`` soon after ``wish``, within ``seconds``; and every so many by itself, as ``beat`` says.

    What comes alone is drawn at once. Else all draw at multiples of their seconds, and share frames of the screen.
    """

    def __init__(self, node: DOMNode, draw: Callable[[], object], seconds: float = SECONDS_PER_REFRESH) -> None:
        self._node = node
        self._draw = draw
        self._seconds = seconds
        self._free_at = 0.0
        self._soon: Timer | None = None
        self._beat: Timer | None = None
        self._every = 0.0

    @property
    def beats(self) -> bool:
        """It draws by itself."""
        return self._beat is not None

    def wish(self) -> None:
        """Have it drawn, now or a little later."""
        if self._soon is not None or not self._node.is_attached:
            return
        waits = self._free_at - monotonic()
        if waits > 0:
            self._soon = self._node.set_interval(max(waits, LEAST_WAIT), self._now)
        else:
            self._now()

    def beat(self, every: float) -> None:
        """Have it drawn every so many seconds, at most once a second without motion; 0: only on a wish."""
        if every and app_of(self._node).animation_level == "none":
            every = max(every, SECONDS_PER_TICK)
        if every == self._every:
            return
        if self._beat is not None:
            self._beat.stop()
        self._every = every
        waits = max(_next(monotonic(), every) - monotonic(), LEAST_WAIT) if every else 0.0
        self._beat = self._node.set_interval(waits, self._tick) if every else None

    def _tick(self) -> None:
        every, self._every = self._every, 0.0
        self.beat(every)
        if self._node.screen.is_current:  # else another is over it
            self._now()

    def _now(self) -> None:
        if self._soon is not None:
            self._soon.stop()
        self._soon, began = None, monotonic()
        self._draw()
        now = monotonic()
        self._free_at = _next(max(began, now + REST * (now - began) - self._seconds), self._seconds)


def app_of(node: DOMNode) -> App[None]:
    """Return the app that a widget or a screen is of."""
    return cast("App[None]", node.app)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type


def _next(now: float, every: float) -> float:
    """Return the next multiple of so many seconds."""
    return (now // every + 1) * every
