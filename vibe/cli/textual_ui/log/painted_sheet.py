"""PaintedSheet: the scrolling, painting, selecting and clicking of the chat log."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any, ClassVar, Final, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events, on
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.markdown_blocks import LINK
from vibe.cli.textual_ui.log.painter import WHOLE, Painter
from vibe.cli.textual_ui.log.rows import GUTTER, Row
from vibe.cli.textual_ui.refresher import app_of
from vibe.front.code_blocks import code_blocks
from vibe.system.plain_text import counted

_KEPT: Final = 1000
"""The most rows cached in all, if they belong to more entries than a screen shows; a painted row takes 8 kB."""
_ON_SCREEN: Final = 64
"""The entries that may be in sight at once, and are cached however long they are, up to ``_MOST_KEPT`` rows."""
_MOST_KEPT: Final = 4000
"""The most rows cached in all, however few entries they belong to."""
_CLOSE: Final = frozenset({"call", "note", "reasoning"})
"""Kinds of entries that follow each other without an empty row."""


class Sheet:
    """The log's entries laid out below each other, with a cache of their rows.

    ``tops`` are the rows at which the entries begin, and the row after the last one. ``cols`` is 0 until the width is
    known.
    """

    def __init__(self, widget: Widget) -> None:
        self._painter = Painter(widget)
        self.entries: list[LogEntry] = []
        self.tops: list[int] = [0]
        self.cols = 0
        self._cache: OrderedDict[LogEntry, list[Row]] = OrderedDict()
        self._kept = 0

    @property
    def height(self) -> int:
        """The number of rows of all entries."""
        return self.tops[-1]

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Add entries at the end."""
        first = len(self.entries)
        self.entries.extend(entries)
        self._number(first)
        for entry in self.entries[first:]:
            self._estimate(entry)
        self._sum_up(first)

    def put_before(self, entries: Iterable[LogEntry]) -> int:
        """Add entries at the beginning, and return by how many rows the entry that was first is taller now."""
        first = self.entries[0] if self.entries else None
        new = list(entries)
        self.entries[:0] = new
        self._number(0)
        for entry in new:
            self._estimate(entry)
        taller = 0
        if first is not None and new:
            self.forget(first)
            taller = self.gap(first)
            first.height += taller
        self._sum_up(0)
        return taller

    def cut(self, first: int, end: int | None = None) -> None:
        """Drop the entries from an index on, up to another one if it is given."""
        gone = self.entries[first:end]
        del self.entries[first:end]
        for entry in gone:
            entry.index = -1
        self._number(first)
        if gone and first < len(self.entries):
            self._estimate(self.entries[first])
        self.repaint()
        self._sum_up(first)

    def changed(self, entry: LogEntry) -> Iterable[int]:
        """Make an entry's rows again, and return the lines of the sheet that look different now.

        A row that looks as before is kept, as its strip remembers how it was painted.
        """
        before = self._cache.get(entry, ())
        self.forget(entry)
        entry.exact = False
        self.measure(entry.index, 1)
        rows = self.rows(entry)
        top = self.tops[entry.index]
        lines: list[int] = []
        for number, (old, new) in enumerate(zip_longest(before, rows)):
            if old is new or new is None:
                continue
            if old is not None and old.glue == new.glue and old.strip == new.strip:
                rows[number] = old
            else:
                lines.append(top + number)
        return lines

    def forget(self, entry: LogEntry) -> None:
        """Drop an entry's cached rows, to be made again when needed; their number must not change."""
        self._kept -= len(self._cache.pop(entry, ()))

    def reflow(self, cols: int) -> None:
        """Set another width."""
        self.cols = cols
        self.repaint()
        for entry in self.entries:
            self._estimate(entry)
        self._sum_up(0)

    def repaint(self) -> None:
        """Drop all cached rows, to be made again when needed; their number must not change."""
        self._cache.clear()
        self._kept = 0
        self._painter.forget()

    def rows(self, entry: LogEntry) -> list[Row]:
        """Return an entry's rows, including the empty one before it."""
        rows = self._cache.get(entry)
        if rows is not None:
            self._cache.move_to_end(entry)
            return rows
        rows = self._painter.rows(entry, self.cols)
        if self.gap(entry):
            rows = [Row(Strip([], 0)), *rows]
        self._cache[entry] = rows
        self._kept += len(rows)
        while self._kept > (_KEPT if len(self._cache) > _ON_SCREEN else _MOST_KEPT) and len(self._cache) > 1:
            self._kept -= len(self._cache.popitem(last=False)[1])
        return rows

    def gap(self, entry: LogEntry) -> int:
        """Return the number of empty rows before an entry, 0 or 1."""
        before = self.entries[entry.index - 1]
        return int(entry.index > 0 and not {before.kind, entry.kind} <= _CLOSE)

    def measure(self, index: int, lines: int, step: int = 1) -> None:
        """Make heights exact from an entry on, downwards or upwards, until so many rows are covered."""
        low = -1
        while 0 <= index < len(self.entries) and lines > 0:
            entry = self.entries[index]
            if not entry.exact:
                height = len(self.rows(entry))
                if height != entry.height:
                    low = index if low < 0 else min(low, index)
                entry.height, entry.exact = height, True
            lines -= entry.height
            index += step
        if low >= 0:
            self._sum_up(low)

    def at(self, y: int) -> int:
        """Return the index of the entry at a row, or of the nearest one."""
        return max(0, min(bisect_right(self.tops, y) - 1, len(self.entries) - 1))

    def _number(self, first: int) -> None:
        for index, entry in enumerate(self.entries[first:], first):
            entry.index = index

    def _estimate(self, entry: LogEntry) -> None:
        entry.height, entry.exact = self.gap(entry) + entry.estimate(self.cols or 80), False

    def _sum_up(self, low: int) -> None:
        self.tops[low:] = accumulate((entry.height for entry in self.entries[low:]), initial=self.tops[low])


class SheetView(ScrollView):
    """A scroll view of a sheet.

    Rows are made as they come into sight, and so are those of one screen above, so that the text does not shift while
    the person moves up. ``has_unseen`` is true if something was added below what is in sight.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "move(1, -1)", "Page up", show=False),
        Binding("pagedown", "move(-1, 1)", "Page down", show=False),
        Binding("home,ctrl+home", "scroll_home", "First", show=False),
        Binding("end,ctrl+end", "scroll_end", "Last", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's names
        super().__init__(id=id, classes=classes)
        self.has_unseen = False
        self._sheet = Sheet(self)
        self._follow = True
        self._held = 0
        """The least empty rows above the sheet: those there were when text was selected, which stays where it is."""
        self._is_moving = False
        self._anchor: tuple[int, int] | None = None

    @property
    def _rows_shown(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _above(self) -> int:
        """The empty rows above a sheet that is lower than the window, as it is aligned to the bottom."""
        return max(self._held, self._rows_shown - self._sheet.height)

    @property
    def _end(self) -> int:
        return max(0, self._held + self._sheet.height - self._rows_shown)

    def to_end(self) -> None:
        """Scroll to the end and follow it."""
        self._held = 0
        if not self._sheet.cols:
            self._follow = True
            return
        self._sheet.measure(len(self._sheet.entries) - 1, 2 * self._rows_shown, -1)
        self._set_y(self._end)

    def go_back(self) -> None:
        """Scroll to the end if the person has scrolled up."""
        if not self._follow:
            self.to_end()

    def _top(self) -> tuple[int, int]:
        """Return the index of the entry at the upper edge, and which of its rows is there."""
        y = self.scroll_offset.y
        index = self._sheet.at(y)
        return index, max(0, y - self._sheet.tops[index])

    def _bottom(self) -> int:
        """Return the index of the entry at the lower edge."""
        return self._sheet.at(self.scroll_offset.y + self._rows_shown - 1)

    def shows(self, entry: LogEntry) -> bool:
        """Return whether any row of an entry is in sight."""
        return entry.index >= 0 and self._top()[0] <= entry.index <= self._bottom()

    def reveal(self, entry: LogEntry) -> None:
        """Scroll an entry to the upper edge, or as far up as the end of the log allows."""
        if entry.index >= 0:
            self._scroll_to_row(entry.index, 0)

    def _scroll_to_row(self, index: int, row: int, *, clamp: bool = True) -> None:
        """Scroll a row of an entry to the upper edge, with exact heights on the screen and one screen above."""
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
        """Scroll to a row: the one place where the view moves itself; it sets the height first, then the offset."""
        self._is_moving = True
        self._held = 0 if y > 0 else self._held
        size = Size(self._sheet.cols, self._held + self._sheet.height)
        self.set_reactive(cast("Any", Widget.virtual_size), size)  # skips the layout, as no other widget moves
        self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_target_y = self.scroll_y = max(0, min(y, self._end))
        self._is_moving = False
        self._follow = self.scroll_offset.y >= self._end
        self.has_unseen = self.has_unseen and not self._follow
        self._anchor = None
        self.refresh()

    def _move(self, rows: int) -> None:
        y = self.scroll_offset.y + rows
        if y <= 0:
            self._scroll_to_row(0, 0)
            return
        index = self._sheet.at(y)
        self._scroll_to_row(index, y - self._sheet.tops[index])

    def _keep_place(self, top: tuple[int, int], *, is_new: bool) -> None:
        """Scroll after entries came, went or changed: follow the end, or keep the upper edge where it was."""
        if self._follow:
            self.to_end()
            return
        self.has_unseen = self.has_unseen or is_new
        self._scroll_to_row(*top)

    def _remake(self, entry: LogEntry) -> None:
        """Make an entry's rows again, and keep the upper edge where it was."""
        top = self._top()
        self._sheet.changed(entry)
        self._deselect()
        self._scroll_to_row(*top)

    def _deselect(self) -> None:
        """Drop the selection in this widget; selections in other widgets stay."""
        if self.is_attached and self in self.screen.selections:
            self.screen.selections = {widget: s for widget, s in self.screen.selections.items() if widget is not self}

    def selection_updated(self, selection: Selection | None) -> None:
        """Keep the place of what is selected, which text that comes would move away below the mouse."""
        super().selection_updated(selection)
        self._held = self._held if selection is None else self._above
        self._follow = selection is None and self.scroll_offset.y >= self._end

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:  # noqa: ARG002  as Textual calls it
        """Scroll at once for Textual's wheel, scrollbar and calls, as rows may change during an animation."""
        before = self.scroll_offset.y
        if y is not None:
            self._move(round(y) - before)
        on_complete: Callable[[], object] | None = options.get("on_complete")
        if on_complete is not None:
            self.call_after_refresh(on_complete)
        return self.scroll_offset.y != before

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Make rows exact if Textual itself scrolled, as it does when a selection is dragged past the edge.

        It also keeps the offset within a window that has become taller, whose end is followed once it is resized.
        """
        super().watch_scroll_y(old_value, new_value)
        if not self._is_moving and not (self._follow and new_value >= self.max_scroll_y):
            self._move(0)

    def on_resize(self) -> None:
        """Wrap the text again, and keep the same words at the upper edge."""
        cols, self._held = self.scrollable_content_region.width, 0
        if not cols:
            return
        if cols == self._sheet.cols:
            self._keep_place(self._top(), is_new=False)
            return
        anchor = self._anchor or self._characters(*self._top())
        self._sheet.reflow(cols)
        self._deselect()
        self._keep_place(self._row_with(*anchor), is_new=False)
        self._anchor = anchor

    def _characters(self, index: int, row: int) -> tuple[int, int]:
        """Return an entry's index and how many characters of its text are above one of its rows."""
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
        """Scroll for a key pressed in the prompt."""
        page = self._rows_shown - 1
        rows = {"pageup": -page, "pagedown": page, "ctrl+home": -self._sheet.height}.get(key)
        if rows is None:
            self.to_end()
        else:
            self._move(rows)

    def action_move(self, rows: int, pages: int = 0) -> None:
        """Move down by so many rows and pages, or up if they are negative."""
        self._move(rows + pages * self._rows_shown)


_ROWS: Final = 1 << 20
"""The most rows of an entry in the coordinates of selections."""


def row_y(index: int, row: int) -> int:
    """Return the line that stands for a row of an entry in selections."""
    return index * _ROWS + row


def copied(selection: Selection, entries: Iterable[tuple[int, Sequence[Row]]]) -> str:
    """Return the selected text of entries, without gutters and without the line breaks that wrapping added."""
    text: list[str] = []
    for index, rows in entries:
        for number, row in enumerate(rows):
            span = selection.get_span(row_y(index, number))
            if span is None:
                continue
            start, end = span
            piece = row.text[max(start, GUTTER) : None if end < 0 else max(end, GUTTER)].rstrip()
            if text:
                text.append("\n" if row.glue is None else row.glue)
                piece = piece if row.glue is None else piece.lstrip()
            text.append(piece)
    return "".join(text)


def word_span(index: int, number: int, rows: Sequence[Row], x: int) -> Selection | None:
    """Return the selection of the word at column ``x``, or None if there is none."""
    text = rows[number].text if number < len(rows) else ""
    start = 0
    for word in text.split(" "):
        before = cell_len(text[:start])
        if word and before <= x < before + cell_len(word):
            y = row_y(index, number)
            return Selection(Offset(start, y), Offset(start + len(word), y))
        start += len(word) + 1
    return None


def entry_span(index: int, rows: Sequence[Row]) -> Selection:
    """Return the selection of a whole entry."""
    last = len(rows) - 1
    return Selection(Offset(0, row_y(index, 0)), Offset(len(rows[last].text), row_y(index, last)))


LETTERS: Final = frozenset("bcjkm")
"""The log's keys that may also be the first letter of a prompt."""
COPIED_SECONDS: Final = 2.0
MORE_BELOW: Final = " ↓ more below, End "


class PaintedSheet(SheetView):
    """A sheet view with marks, clicks and selections.

    Selections refer to entries and their rows, so they hold whatever is added above.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c,ctrl+c,alt+c", "copy", "Copy it", show=False),
        Binding("b,alt+b", "copy_code", "Copy its last block of code", show=False),
    ]

    @dataclass
    class LinkClicked(Message, namespace="chat_log"):
        """Posted when a link is clicked; the address is as the model wrote it, and may lead anywhere."""

        url: str

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's names
        super().__init__(id=id, classes=classes)
        self.auto_links = False
        self._marked: LogEntry | None = None
        self._pressed: Offset | None = None
        self._copied = ""
        self._is_clicked = False

    @on(events.Mount)
    def _follow_theme(self) -> None:
        app_of(self).theme_changed_signal.subscribe(self, self._take_theme)

    def _take_theme(self, _theme: object) -> None:
        self._sheet.repaint()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return lines of the widget, without Textual's steps for borders and padding, of which there are none."""
        strips, ground = self._lines(crop.line_range), self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, ground) for strip in strips]
        return strips if crop.width == self.size.width else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Return a line of the widget with its offsets, for which Textual looks in what is below the mouse."""
        strip, line = self._lines((y,))[0], y + self.scroll_offset.y - self._above
        if not 0 <= line < self._sheet.height:
            return strip
        index = self._sheet.at(line)
        return strip.apply_offsets(0, row_y(index, line - self._sheet.tops[index]))

    def _lines(self, numbers: Sequence[int]) -> list[Strip]:
        """Return lines of the widget; what Textual looks for in its tree is the same for all of them."""
        (width, height), first, selection = self.size, self.scroll_offset.y - self._above, self.text_selection
        ground = self.rich_style
        strips = [self._line(number + first, width, selection, ground) for number in numbers]
        if self.has_unseen and height - 1 in numbers and width > 2 * len(MORE_BELOW):
            look = self.get_component_rich_style("chat-log--more")
            more = Strip([Segment(MORE_BELOW, look)], len(MORE_BELOW))
            strips[-1] = Strip.join([strips[-1].crop(0, width - len(MORE_BELOW)), more])
        return strips

    def _line(self, line: int, width: int, selection: Selection | None, ground: RichStyle) -> Strip:
        sheet = self._sheet
        if not 0 <= line < sheet.height or not sheet.cols:
            return Strip.blank(width, ground)
        index = sheet.at(line)
        entry, number = sheet.entries[index], line - sheet.tops[index]
        rows = sheet.rows(entry)
        if number >= len(rows):
            return Strip.blank(width, ground)
        strip = rows[number].strip
        span = None if selection is None else selection.get_span(row_y(index, number))
        marked = entry is self._marked and number == self._sheet.gap(entry) and self.has_focus
        if marked:
            strip = Strip.join([_overlaid(strip.crop(0, GUTTER), RichStyle(reverse=True)), strip.crop(GUTTER)])
        if span is not None:
            strip = self._selected(strip, *span)
        return strip.adjust_cell_length(width, ground)

    def _selected(self, strip: Strip, start: int, end: int) -> Strip:
        text = strip.text
        left = cell_len(text[:start])
        right = strip.cell_length if end < 0 else cell_len(text[:end])
        if left >= right:
            return strip
        look = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([strip.crop(0, left), _overlaid(strip.crop(left, right), look), strip.crop(right)])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where the mouse was pressed; a click that ends elsewhere was a selection."""
        self._is_clicked = True
        self._pressed = event.screen_offset

    def on_click(self, event: events.Click) -> None:
        """Follow a link, choose an entry by its heading, or select a word (two clicks) or an entry (three clicks)."""
        event.prevent_default()
        line = event.y + self.scroll_offset.y - self._above
        if line < 0 or self._pressed != event.screen_offset or not self._sheet.entries or line >= self._sheet.height:
            return
        if self.has_unseen and event.y == self._rows_shown - 1 and event.x >= self.size.width - len(MORE_BELOW):
            self.to_end()
            return
        index = self._sheet.at(line)
        self._clicked(event, self._sheet.entries[index], line - self._sheet.tops[index])

    def _clicked(self, event: events.Click, entry: LogEntry, number: int) -> None:
        url = event.style.meta.get(LINK)
        if event.chain == 1 and url is not None:
            self.post_message(self.LinkClicked(str(url)))
        elif event.chain == 1 and event.style.meta.get(WHOLE):
            self.toggle_whole(entry)
        elif number == self._sheet.gap(entry) and entry.folds:
            self.choose(entry)
        elif event.chain == 1 and number >= self._sheet.gap(entry):
            self._marked = entry
            self.refresh()
        elif event.chain > 1:
            rows = self._sheet.rows(entry)
            spans = word_span(entry.index, number, rows, event.x) if event.chain == 2 else entry_span(entry.index, rows)
            if spans is not None:
                self.screen.selections = {self: spans}

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without the line breaks that wrapping added."""
        if selection.start is None and selection.end is None:
            return "\n\n".join(entry.text.rstrip("\n") for entry in self._sheet.entries), "\n"
        if not self._sheet.entries:
            return None
        first = 0 if selection.start is None else selection.start.y // _ROWS
        last = len(self._sheet.entries) - 1 if selection.end is None else selection.end.y // _ROWS
        entries = self._sheet.entries[first : last + 1]
        return copied(selection, ((entry.index, self._sheet.rows(entry)) for entry in entries)), "\n"

    def toggle(self, entry: LogEntry) -> None:
        """Fold or unfold an entry; the upper edge stays where it is."""
        if entry.folds and entry.index >= 0:
            entry.folded = not entry.folded
            self._remake(entry)

    def toggle_whole(self, entry: LogEntry) -> None:
        """Show the left-out lines of an entry, or leave them out again."""
        entry.whole = not entry.whole
        entry.folded = False
        self._remake(entry)

    def takes(self, key: str) -> bool:
        """Return whether a key is for the focused log; until a key has marked an entry, letters begin a prompt."""
        is_ours = (self._marked is not None and key in LETTERS) or key in self._keys
        is_focused = self.screen.focused is self  # ``has_focus`` is set later, after keys that are for the prompt
        return is_focused and not self._is_clicked and is_ours

    @property
    def _keys(self) -> Mapping[str, Callable[[], object]]:
        """The keys of the marked entry itself, or else of the last one."""
        entry = self._marked or next(reversed(self._sheet.entries), None)
        return {} if entry is None else entry.keys

    @on(events.Key)
    def _act(self, event: events.Key) -> None:
        """Handle a key of the entry itself."""
        if event.key in self._keys and self.takes(event.key):
            event.stop()
            self._keys[event.key]()

    def on_blur(self) -> None:
        """Forget that the log was clicked."""
        self._is_clicked = False

    def choose(self, entry: LogEntry) -> None:
        """Mark an entry, and fold or unfold it if it folds."""
        self._marked = entry
        self.toggle(entry)
        self.refresh()

    def drop_before(self, index: int) -> bool:
        """Drop the entries before an index; return False, dropping none, if the person scrolled up or selected text."""
        if not self._follow or self.text_selection is not None:
            return False
        self.cut(0, index)
        return True

    def cut(self, index: int, end: int | None = None) -> None:
        """Drop the entries from an index on, up to another one if it is given."""
        top = self._top()
        self._sheet.cut(max(0, index), end)
        if self._marked is not None and self._marked.index < 0:
            self._marked = None
        self._deselect()
        self._keep_place(top, is_new=False)

    def action_copy(self) -> None:
        """Copy the selection, else the marked entry, else the last answer in sight."""
        text = self.screen.get_selected_text()
        if not text:
            entry = next(iter(self._to_copy()), None)
            text = "" if entry is None else entry.text.strip("\n") or entry.diff
        self._copy(text)

    def action_copy_code(self) -> None:
        """Copy the last code block of the marked entry or the answers in sight; pressed again, the one before it."""
        blocks = [block for entry in self._to_copy() for block in reversed(code_blocks(entry.text))]
        last = self._copied
        number = blocks.index(last) + 1 if last in blocks else 0
        self._copied = blocks[number % len(blocks)] if blocks else ""
        self._copy(self._copied)

    def _to_copy(self) -> Sequence[LogEntry]:
        """Return the marked entry, else the answers in sight, last first."""
        shown = self._sheet.entries[self._top()[0] : self._bottom() + 1]
        if self._marked in shown:
            return [self._marked]
        return [entry for entry in reversed(shown) if entry.kind == "answer"]

    def _copy(self, text: str) -> None:
        if text:
            app_of(self).copy_to_clipboard(text)
            self.notify(f"copied {counted(len(text), 'character')}", timeout=COPIED_SECONDS, markup=False)


def _overlaid(strip: Strip, look: RichStyle) -> Strip:
    """Return a strip with a style added on top of its own."""
    return Strip([Segment(text, style + look if style else look) for text, style, _ in strip], strip.cell_length)
