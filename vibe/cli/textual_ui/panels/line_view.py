"""LineView: lines of text that scroll, however many and however long; only those in sight are drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual

BAR: Final = "│ "
"""Stands before the lines of a command, a file or a diff."""
DIFF_STYLES: Final = {"+": "$text-success", "-": "$text-error", "@": "$text-accent"}
NARROWEST: Final = 8
"""Cells that the text of a line has at least, whatever stands before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; ``text`` is safe to show.

    ``lead`` stands before each of its rows, ``indent`` blanks before those after the first. ``words``: it is broken
    between words, and else wherever its row is full. Lines with the same ``key`` are one thing to point at.
    """

    text: str | Content = ""
    style: str = ""
    lead: str = ""
    indent: int = 0
    words: bool = True
    key: str = ""


def row_starts(text: str, width: int, *, words: bool) -> list[int]:
    """Return where the rows begin in which a line of text is shown."""
    if text.isascii():
        if len(text) <= width:
            return [0]
        if not words:
            return list(range(0, len(text), width))
    starts, used, after_blank = [0], 0, 0
    for at, char in enumerate(text):
        cells = 1 if " " <= char <= "~" else cell_len(char)
        if used + cells > width and at > starts[-1] and not (words and char == " "):
            cut = after_blank if words and after_blank > starts[-1] else at
            starts.append(cut)
            used = cell_len(text[cut:at])
        used += cells
        if char == " ":
            after_blank = at + 1
    return starts


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows lines; its owner scrolls it. Whole lines can be marked with the mouse, and copied."""

    DEFAULT_CSS = """
    LineView {
        height: auto;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """

    class Scrolled(Message):
        """Other rows are in sight now."""

    class Pointed(Message):
        """A line that has a key was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, lines: Sequence[Line] = (), *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._lines: Sequence[Line] = lines
        self._cols = 0
        self._starts: list[list[int]] = []
        self._tops: list[int] = [0]

    @property
    def lines(self) -> Sequence[Line]:
        """The lines shown."""
        return self._lines

    @property
    def rows(self) -> int:
        """The number of rows that the lines take."""
        return self._tops[-1]

    @property
    def rows_below(self) -> int:
        """The number of rows below those in sight."""
        return max(0, self.rows - self.scroll_offset.y - self.scrollable_content_region.height)

    def show(self, lines: Sequence[Line], *, reveal: str = "", from_top: bool = False) -> None:
        """Show other lines; those with the key ``reveal`` are brought into sight."""
        self._lines = lines
        self._lay_out(self._cols)
        self.refresh(layout=True)
        if from_top:
            self.scroll_to(y=0, animate=False)
        if reveal:
            self.reveal(reveal)
            self.call_after_refresh(self.reveal, reveal)  # it may have become higher or lower

    def reveal(self, key: str) -> None:
        """Scroll until the lines with a key are in sight, the first of them if not all fit."""
        found = [number for number, line in enumerate(self._lines) if line.key == key]
        height = self.scrollable_content_region.height
        if not found or not height or len(self._tops) <= found[-1] + 1:
            return
        top, end = self._tops[found[0]], self._tops[found[-1] + 1]
        if end > self.scroll_offset.y + height:
            self.scroll_to(y=end - height, animate=False)
        if top < self.scroll_offset.y or end - top > height:
            self.scroll_to(y=top, animate=False)

    def turn(self, rows: int) -> None:
        """Scroll down by so many rows, or up."""
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def text_of(self, number: int) -> str:
        """The text of a line, as it is copied."""
        return str(self._lines[number].text)

    # --- the widget

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the rows that the lines take in so many cells."""
        cols = max(1, width - 1)  # there is always room for the scrollbar
        return self.rows if cols == self._cols else sum(len(self._rows_of(line, cols)) for line in self._lines)

    def on_resize(self, _: events.Resize) -> None:
        """Break the lines anew."""
        cols = self.scrollable_content_region.width
        if cols and cols != self._cols:
            at = bisect_right(self._tops, self.scroll_offset.y) - 1
            self._lay_out(cols)
            if 0 < at < len(self._tops):
                self.scroll_to(y=self._tops[at], animate=False)
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell of it."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        y += self.scroll_offset.y
        width = self.scrollable_content_region.width
        if y >= self.rows or not self._cols:
            return Strip.blank(width, self.rich_style)
        number = bisect_right(self._tops, y) - 1
        strip = self._row(number, y - self._tops[number])
        return strip.crop(0, width).extend_cell_length(width, self.rich_style).apply_offsets(0, number)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the lines that the mouse marked, whole."""
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else len(self._lines) - 1
        return "\n".join(self.text_of(number) for number in range(first, min(last, len(self._lines) - 1) + 1)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        """Draw the marks."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Tell which line was meant."""
        y = event.y + self.scroll_offset.y
        key = self._lines[bisect_right(self._tops, y) - 1].key if 0 <= y < self.rows else ""
        if key:
            self.post_message(self.Pointed(key))

    def _lay_out(self, cols: int) -> None:
        self._cols = cols
        self._starts = [self._rows_of(line, cols) for line in self._lines] if cols else []
        self._tops = list(accumulate(map(len, self._starts), initial=0))
        self.virtual_size = Size(cols, self.rows)

    @staticmethod
    def _rows_of(line: Line, width: int) -> list[int]:
        room = max(NARROWEST, width - cell_len(line.lead) - line.indent)
        return row_starts(line.text if isinstance(line.text, str) else line.text.plain, room, words=line.words)

    def _row(self, number: int, row: int) -> Strip:
        line, starts = self._lines[number], self._starts[number]
        whole = line.text if isinstance(line.text, Content) else Content(line.text)
        end = starts[row + 1] if row + 1 < len(starts) else len(whole)
        piece = whole[starts[row] : end]
        if line.style:
            piece = piece.stylize_before(line.style)
        lead = Content(line.lead + " " * (line.indent if row else 0))
        shown = Content.assemble(lead, piece)
        selected = self.text_selection is not None and self.text_selection.get_span(number) is not None
        if selected:
            shown = shown.stylize("reverse")
        if not shown:
            return Strip([], 0)
        strips = Visual.to_strips(self, shown.rstrip(), self._cols + 1, None, self.visual_style, apply_selection=False)
        return strips[0] if strips else Strip([], 0)
