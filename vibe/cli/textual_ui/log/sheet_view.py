"""SheetView: the part of the chat log that scrolls, and wraps its text again when the width changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.rows import GUTTER
from vibe.cli.textual_ui.log.sheet import Sheet


class SheetView(ScrollView):
    """Shows a part of a sheet.

    Rows are made as they come into sight, and those of one screen above it as well: so moving up by any means does not
    shift the text. ``has_unseen``: something came below what is in sight.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "Up", show=False),
        Binding("down", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home,ctrl+home", "scroll_home", "First", show=False),
        Binding("end,ctrl+end", "scroll_end", "Last", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's names
        super().__init__(id=id, classes=classes)
        self.has_unseen = False
        self._sheet = Sheet(self)
        self._follow = True
        self._is_moving = False
        self._anchor: tuple[int, int] | None = None

    @property
    def _rows_shown(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _end(self) -> int:
        return max(0, self._sheet.height - self._rows_shown)

    def to_end(self) -> None:
        """Show the end, and go on with it."""
        if not self._sheet.cols:
            self._follow = True
            return
        self._sheet.measure(len(self._sheet.entries) - 1, 2 * self._rows_shown, -1)
        self._set_y(self._end)

    def _top(self) -> tuple[int, int]:
        """The entry at the upper edge, and which of its rows."""
        y = self.scroll_offset.y
        index = self._sheet.at(y)
        return index, max(0, y - self._sheet.tops[index])

    def _bottom(self) -> int:
        """The entry at the lower edge."""
        return self._sheet.at(self.scroll_offset.y + self._rows_shown - 1)

    def _place(self, index: int, row: int, *, clamp: bool = True) -> None:
        """Have a row of an entry at the upper edge, with exact heights on the screen and one screen above it."""
        sheet = self._sheet
        if not sheet.cols or not sheet.entries:
            self._set_y(0)
            return
        index = min(index, len(sheet.entries) - 1)
        sheet.measure(index, 1)
        if clamp:
            row = min(row, sheet.entries[index].height - 1)
        sheet.measure(index, self._rows_shown + row)
        sheet.measure(index - 1, self._rows_shown - row, -1)
        y = sheet.tops[index] + row
        if y >= self._end:
            self.to_end()
        else:
            self._set_y(y)

    def _set_y(self, y: int) -> None:
        """The only way it moves itself: height first, offset second."""
        self._is_moving = True
        self.virtual_size = Size(self._sheet.cols, self._sheet.height)
        self.scroll_target_y = self.scroll_y = max(0, min(y, self._end))
        self._is_moving = False
        self._follow = self.scroll_offset.y >= self._end
        self.has_unseen = self.has_unseen and not self._follow
        self._anchor = None
        self.refresh()

    def _move(self, rows: int) -> None:
        y = self.scroll_offset.y + rows
        if y <= 0:
            self._place(0, 0)
            return
        index = self._sheet.at(y)
        self._place(index, y - self._sheet.tops[index])

    def _after(self, top: tuple[int, int], *, is_new: bool) -> None:
        """Entries came, went or changed: go on with the end, or stay with what was at the upper edge."""
        if self._follow:
            self.to_end()
            return
        self.has_unseen = self.has_unseen or is_new
        self._place(*top)

    def _remade(self, entry: LogEntry) -> None:
        """An entry has other rows, and stays where it began."""
        top = self._top()
        self._sheet.changed(entry)
        self._deselect()
        self._place(*top)

    def _deselect(self) -> None:
        """Select none of its text any more; that of other widgets stays so."""
        if self.is_attached and self in self.screen.selections:
            self.screen.selections = {widget: s for widget, s in self.screen.selections.items() if widget is not self}

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:  # noqa: ARG002  as Textual calls it
        """Textual's own ways to move: wheel, scrollbar and whoever asks; all at once, as rows change while it moves."""
        before = self.scroll_offset.y
        if y is not None:
            self._move(round(y) - before)
        on_complete: Callable[[], object] | None = options.get("on_complete")
        if on_complete is not None:
            self.call_after_refresh(on_complete)
        return self.scroll_offset.y != before

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Textual moved it: a selection is dragged past the edge."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_moving:
            self._move(0)

    def on_resize(self) -> None:
        """Wrap the text anew, with the same words at the upper edge."""
        cols = self.scrollable_content_region.width
        if not cols:
            return
        follow = self._follow
        if cols == self._sheet.cols:
            if follow:
                self.to_end()
            else:
                self._place(*self._top())
            return
        anchor = self._anchor or self._characters(*self._top())
        self._sheet.reflow(cols)
        self._deselect()
        if follow:
            self.to_end()
        else:
            self._place(*self._row_with(*anchor))
        self._anchor = anchor

    def _characters(self, index: int, row: int) -> tuple[int, int]:
        """An entry, and how much of its text is above a row of it."""
        if not self._sheet.cols or not self._sheet.entries:
            return index, 0
        rows = self._sheet.rows(self._sheet.entries[index])
        return index, sum(len(each.text[GUTTER:].strip()) for each in rows[:row])

    def _row_with(self, index: int, characters: int) -> tuple[int, int]:
        if not characters:
            return index, 0
        rows = self._sheet.rows(self._sheet.entries[index])
        for number, row in enumerate(rows):
            characters -= len(row.text[GUTTER:].strip())
            if characters < 0:
                return index, number
        return index, len(rows) - 1

    # --- keys

    def scroll_by_key(self, key: str) -> None:
        """Scroll as a key of the line below says."""
        match key:
            case "pageup":
                self.action_page_up()
            case "pagedown":
                self.action_page_down()
            case "ctrl+home":
                self.action_scroll_home()
            case _:
                self.action_scroll_end()

    def action_scroll_up(self) -> None:
        """A row up."""
        self._move(-1)

    def action_scroll_down(self) -> None:
        """A row down."""
        self._move(1)

    def action_page_up(self) -> None:
        """A page up."""
        self._move(1 - self._rows_shown)

    def action_page_down(self) -> None:
        """A page down."""
        self._move(self._rows_shown - 1)

    def action_scroll_home(self) -> None:
        """The first row."""
        self._place(0, 0)

    def action_scroll_end(self) -> None:
        """The last row."""
        self.to_end()
