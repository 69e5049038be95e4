"""CandidateList: a list above the input, of what can be put in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.input.completion import Candidate

ROWS = 8


class CandidateList(Static):
    """Shows candidates, one a row, the selected one marked; as many as there is room for above the input."""

    DEFAULT_CSS = """
    CandidateList {
        display: none; overlay: screen; constrain: none inside; width: 100%; height: auto;
        background: $surface; color: $foreground;
    }
    """

    @dataclass
    class Picked(Message):
        """The person clicked the candidate that is selected now."""

    def __init__(self) -> None:
        super().__init__("")
        self._candidates: Sequence[Candidate] = ()
        self._selected = 0
        self._top = 0
        self._rows = ROWS
        self.was_moved = False

    @property
    def is_open(self) -> bool:
        """True while there is something to choose."""
        return bool(self._candidates)

    @property
    def selected(self) -> Candidate | None:
        """The candidate that is marked."""
        return self._candidates[self._selected] if self._candidates else None

    @property
    def candidates(self) -> Sequence[Candidate]:
        """All that is offered."""
        return self._candidates

    def offer(self, candidates: Sequence[Candidate]) -> None:
        """Show these, with the first one selected; none closes the list."""
        self._candidates = candidates
        self._selected = self._top = 0
        self.was_moved = False
        self._rows = max(1, min(ROWS, self._room(), len(candidates)))
        self.display = bool(candidates)
        if candidates:
            self.styles.offset = (0, -self._rows)
            self._draw()

    def close(self) -> None:
        """Offer nothing."""
        self.offer(())

    def move(self, step: int) -> None:
        """Select another; from the last one to the first."""
        self._selected = (self._selected + step) % len(self._candidates)
        self._top = min(max(self._top, self._selected - self._rows + 1), self._selected)
        self.was_moved = True
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Take the one that was clicked."""
        event.stop()
        if self._top + event.y < len(self._candidates):
            self._selected = self._top + event.y
            self.post_message(self.Picked())

    def on_resize(self) -> None:
        """Cut the rows anew."""
        if self.is_open:
            self._draw()

    def _room(self) -> int:
        """Return how many rows there are above the input."""
        return self.parent.region.y if isinstance(self.parent, Widget) else ROWS

    def _draw(self) -> None:
        shown = range(self._top, min(self._top + self._rows, len(self._candidates)))
        self.update(Content("\n").join(self._row(place) for place in shown))

    def _row(self, place: int) -> Content:
        candidate = self._candidates[place]
        is_selected = place == self._selected
        row = Content.assemble(
            "▸ " if is_selected else "  ",
            (candidate.label, "bold" if is_selected else ""),
            (f"  {candidate.about}" if candidate.about else "", "$foreground-muted"),
        )
        return row.truncate(max(1, self.size.width or self.screen.size.width), ellipsis=True)
