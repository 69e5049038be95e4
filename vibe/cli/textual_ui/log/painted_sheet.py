"""PaintedSheet: the chat log as it scrolls and paints lines, with what is selected, marked and clicked on them."""

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
from vibe.front.event_text import counted

_KEPT: Final = 1000
"""Rows in all, of more entries than a screen has: a painted row takes 8 kB."""
_ON_SCREEN: Final = 64
"""Entries that are kept, however long: those in sight."""
_MOST_KEPT: Final = 4000
"""Rows in all, of however few entries."""
_CLOSE: Final = frozenset({"call", "note", "reasoning"})
"""Kinds between which there is no empty row."""


class Sheet:
    """``tops`` are the rows at which entries begin, and the one behind the last; ``cols`` is 0 while none is known."""

    def __init__(self, widget: Widget) -> None:
        self._painter = Painter(widget)
        self.entries: list[LogEntry] = []
        self.tops: list[int] = [0]
        self.cols = 0
        self._cache: OrderedDict[LogEntry, list[Row]] = OrderedDict()
        self._kept = 0

    @property
    def height(self) -> int:
        """All its rows."""
        return self.tops[-1]

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Have more entries at its end."""
        first = len(self.entries)
        self.entries.extend(entries)
        self._number(first)
        for entry in self.entries[first:]:
            self._estimate(entry)
        self._sum_up(first)

    def put_before(self, entries: Iterable[LogEntry]) -> int:
        """Have more entries at its beginning, and return the rows by which the first of before is taller now."""
        first = self.entries[0] if self.entries else None
        height = 0 if first is None else first.height
        new = list(entries)
        self.entries[:0] = new
        self._number(0)
        for entry in new:
            self._estimate(entry)
        taller = 0
        if first is not None and new:
            self.forget(first)
            taller = self.gap(first)
            first.height = height + taller
        self._forget_rows()  # where they are selected is a part of them
        self._sum_up(0)
        return taller

    def cut_before(self, index: int) -> None:
        """Have no entry before that one."""
        gone = self.entries[:index]
        del self.entries[:index]
        for entry in gone:
            entry.index = -1
        self._number(0)
        if self.entries and gone:
            self._estimate(self.entries[0])
        self.repaint()
        self._sum_up(0)

    def cut(self, index: int) -> None:
        """Have no entry from that one on."""
        for entry in self.entries[index:]:
            entry.index = -1
            self.forget(entry)
        self._painter.forget()
        del self.entries[index:]
        del self.tops[len(self.entries) + 1 :]

    def changed(self, entry: LogEntry) -> Iterable[int]:
        """Make its rows again, and return the lines of the sheet that look other than before.

        What was painted of a row that looks as before stays.
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
                new.shown = old.shown
            else:
                lines.append(top + number)
        return lines

    def forget(self, entry: LogEntry) -> None:
        """Make its rows again when they are wanted; their number is the same."""
        self._kept -= len(self._cache.pop(entry, ()))

    def reflow(self, cols: int) -> None:
        """Have another width."""
        self.cols = cols
        self.repaint()
        for entry in self.entries:
            self._estimate(entry)
        self._sum_up(0)

    def repaint(self) -> None:
        """Make all rows again when they are wanted; their number is the same."""
        self._forget_rows()
        self._painter.forget()

    def rows(self, entry: LogEntry) -> list[Row]:
        """The rows of an entry, with the empty one before it."""
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
        """The empty rows before it."""
        if not entry.index:
            return 0
        return int(not (entry.kind in _CLOSE and self.entries[entry.index - 1].kind in _CLOSE))

    def measure(self, index: int, lines: int, step: int = 1) -> None:
        """Know the exact heights from that entry on, down or up, until so many rows are covered."""
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
        """The entry at a row; the nearest if there is none."""
        return max(0, min(bisect_right(self.tops, y) - 1, len(self.entries) - 1))

    def _number(self, first: int) -> None:
        for index, entry in enumerate(self.entries[first:], first):
            entry.index = index

    def _estimate(self, entry: LogEntry) -> None:
        entry.height, entry.exact = self.gap(entry) + entry.estimate(self.cols or 80), False

    def _sum_up(self, low: int) -> None:
        self.tops[low:] = accumulate((entry.height for entry in self.entries[low:]), initial=self.tops[low])

    def _forget_rows(self) -> None:
        self._cache.clear()
        self._kept = 0


class SheetView(ScrollView):
    """Shows a part of a sheet.

    Rows are made as they come into sight, and those of one screen above it as well: so moving up by any means does not
    shift the text. ``has_unseen``: something came below what is in sight.
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
        self._is_moving = False
        self._anchor: tuple[int, int] | None = None

    @property
    def _rows_shown(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _above(self) -> int:
        """The empty rows above a sheet that is lower than the window: it stands on what is below it."""
        return max(0, self._rows_shown - self._sheet.height)

    @property
    def _end(self) -> int:
        return max(0, self._sheet.height - self._rows_shown)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return lines of the screen; whole as they are made, there is nothing around them that Textual would paint."""
        strips, ground = [self.render_line(y) for y in crop.line_range], self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, ground) for strip in strips]
        return strips if crop.width == self.size.width else [strip.crop(*crop.column_span) for strip in strips]

    def to_end(self) -> None:
        """Show the end, and go on with it."""
        if not self._sheet.cols:
            self._follow = True
            return
        self._sheet.measure(len(self._sheet.entries) - 1, 2 * self._rows_shown, -1)
        self._set_y(self._end)

    def go_back(self) -> None:
        """Show the end, if the person has looked further up."""
        if not self._follow:
            self.to_end()

    def _top(self) -> tuple[int, int]:
        """The entry at the upper edge, and which of its rows."""
        y = self.scroll_offset.y
        index = self._sheet.at(y)
        return index, max(0, y - self._sheet.tops[index])

    def _bottom(self) -> int:
        """The entry at the lower edge."""
        return self._sheet.at(self.scroll_offset.y + self._rows_shown - 1)

    def shows(self, entry: LogEntry) -> bool:
        """Return whether a row of an entry is in sight."""
        return entry.index >= 0 and self._top()[0] <= entry.index <= self._bottom()

    def reveal(self, entry: LogEntry) -> None:
        """Have an entry at the upper edge, or as far up as there is something below it."""
        if entry.index >= 0:
            self._place(entry.index, 0)

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
        size = Size(self._sheet.cols, self._sheet.height)
        self.set_reactive(cast("Any", Widget.virtual_size), size)  # no other widget moves by it: no layout
        self.vertical_scrollbar.window_virtual_size = self._sheet.height
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
        """Textual's own ways to move: wheel, scrollbar and calls; all at once, as rows change while it moves."""
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
        if cols == self._sheet.cols:
            self._after(self._top(), is_new=False)
            return
        anchor = self._anchor or self._characters(*self._top())
        self._sheet.reflow(cols)
        self._deselect()
        self._after(self._row_with(*anchor), is_new=False)
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
        pages = {"pageup": -1, "pagedown": 1}.get(key, 0)
        if pages:
            self.action_move(-pages, pages)
        elif key == "ctrl+home":
            self.action_scroll_home()
        else:
            self.to_end()

    def action_move(self, rows: int, pages: int = 0) -> None:
        """So many rows and pages down, or up."""
        self._move(rows + pages * self._rows_shown)

    def action_scroll_home(self) -> None:
        """The first row."""
        self._place(0, 0)

    def action_scroll_end(self) -> None:
        """The last row."""
        self.to_end()


_ROWS: Final = 1 << 20
"""Of an entry, at most."""


def row_y(index: int, row: int) -> int:
    """The line of a selection that a row of an entry is."""
    return index * _ROWS + row


def copied(selection: Selection, entries: Iterable[tuple[int, Sequence[Row]]]) -> str:
    """The selected text of entries and their rows, without gutters and without the breaks that wrapping made."""
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
    """The word at a column; None if there is none."""
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
    """All of an entry."""
    last = len(rows) - 1
    return Selection(Offset(0, row_y(index, 0)), Offset(len(rows[last].text), row_y(index, last)))


LETTERS: Final = frozenset("bcjkm")
"""Keys of the log that a prompt may begin with."""
COPIED_SECONDS: Final = 2.0
MORE_BELOW: Final = " ↓ more below, End "
STYLES_KEPT_FOR: Final = 500
"""Painted rows after which Textual's cache of rendered styles is cleared: as each row's styles hold its place, it would
fill with 16 384 styles (8 MB) that never come again."""


class PaintedSheet(SheetView):
    """Selected rows are known by entry and row, whatever is above them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c,ctrl+c,alt+c", "copy", "Copy it", show=False),
        Binding("b,alt+b", "copy_code", "Copy its last block of code", show=False),
    ]

    @dataclass
    class LinkClicked(Message, namespace="chat_log"):
        """A link was clicked; it may lead anywhere, and is as the model wrote it."""

        url: str

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's names
        super().__init__(id=id, classes=classes)
        self.auto_links = False
        self._marked: LogEntry | None = None
        self._pressed: Offset | None = None
        self._painted = 0
        self._copied = ""
        self._is_clicked = False

    def on_mount(self) -> None:
        """Take other colours with another theme."""
        app_of(self).theme_changed_signal.subscribe(self, self._take_theme)

    def _take_theme(self, _theme: object) -> None:
        self._sheet.repaint()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        width = self.size.width
        sheet, line = self._sheet, y + self.scroll_offset.y - self._above
        if not 0 <= line < sheet.height or not sheet.cols:
            return Strip.blank(width, self.rich_style)
        index = sheet.at(line)
        strip = self._line(index, line - sheet.tops[index], width)
        if self.has_unseen and y == self.size.height - 1 and width > 2 * len(MORE_BELOW):
            look = self.get_component_rich_style("chat-log--more")
            more = Strip([Segment(MORE_BELOW, look)], len(MORE_BELOW))
            strip = Strip.join([strip.crop(0, width - len(MORE_BELOW)), more])
        return strip

    def _line(self, index: int, number: int, width: int) -> Strip:
        entry = self._sheet.entries[index]
        rows = self._sheet.rows(entry)
        if number >= len(rows):
            return Strip.blank(width, self.rich_style)
        row = rows[number]
        y = row_y(index, number)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(y)
        marked = entry is self._marked and number == self._sheet.gap(entry) and self.has_focus
        if span is None and not marked:
            if row.shown is None or row.shown.cell_length != width:
                row.shown = self._extended(row.strip, y, width)
            return row.shown
        strip = row.strip
        if marked:
            reverse = RichStyle(reverse=True)
            strip = Strip.join([_over(strip.crop(0, GUTTER), reverse), strip.crop(GUTTER)])
        if span is not None:
            strip = self._selected(strip, *span)
        return self._extended(strip, y, width)

    def _extended(self, strip: Strip, y: int, width: int) -> Strip:
        self._painted += 1
        if self._painted % STYLES_KEPT_FOR == 0:
            Strip.render_ansi.cache_clear()
        if strip.cell_length > width:
            strip = strip.crop(0, width)
        return strip.extend_cell_length(width, self.rich_style).apply_offsets(0, y)

    def _selected(self, strip: Strip, start: int, end: int) -> Strip:
        text = strip.text
        left = cell_len(text[:start])
        right = strip.cell_length if end < 0 else cell_len(text[:end])
        if left >= right:
            return strip
        look = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([strip.crop(0, left), _over(strip.crop(left, right), look), strip.crop(right)])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Know where a click began: one that ends elsewhere was a selection."""
        self._is_clicked = True
        self._pressed = event.screen_offset

    def on_click(self, event: events.Click) -> None:
        """Follow a link, choose an entry by its heading, select a word (twice) or an entry (three times)."""
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
        """The selected text, without the breaks that wrapping made."""
        if selection.start is None and selection.end is None:
            return "\n\n".join(entry.text.rstrip("\n") for entry in self._sheet.entries), "\n"
        if not self._sheet.entries:
            return None
        first = 0 if selection.start is None else selection.start.y // _ROWS
        last = len(self._sheet.entries) - 1 if selection.end is None else selection.end.y // _ROWS
        entries = self._sheet.entries[first : last + 1]
        return copied(selection, ((entry.index, self._sheet.rows(entry)) for entry in entries)), "\n"

    def toggle(self, entry: LogEntry) -> None:
        """Fold an entry, or open it; its heading stays where it is, if it is in sight."""
        if entry.folds and entry.index >= 0:
            entry.folded = not entry.folded
            self._remade(entry)

    def toggle_whole(self, entry: LogEntry) -> None:
        """Show the lines that were left out of an entry, or leave them out again."""
        entry.whole = not entry.whole
        entry.folded = False
        self._remade(entry)

    def takes(self, key: str) -> bool:
        """Return whether a letter is for the log: once a key has marked an entry; else it begins a prompt."""
        is_ours = (self._marked is not None and key in LETTERS) or key in self._keys
        is_focused = self.screen.focused is self  # ``has_focus`` is told later, when keys came that are for the line
        return is_focused and not self._is_clicked and is_ours

    @property
    def _keys(self) -> Mapping[str, Callable[[], object]]:
        """The keys that only the marked entry has, or else the last."""
        entry = self._marked or next(reversed(self._sheet.entries), None)
        return {} if entry is None else entry.keys

    @on(events.Key)
    def _act(self, event: events.Key) -> None:
        """Do what such a key does."""
        if event.key in self._keys and self.takes(event.key):
            event.stop()
            self._keys[event.key]()

    def on_blur(self) -> None:
        """Know nothing of the click any more."""
        self._is_clicked = False

    def choose(self, entry: LogEntry) -> None:
        """Mark an entry, and fold or open it if it can be."""
        self._marked = entry
        self.toggle(entry)
        self.refresh()

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002  as Textual calls it
        """Paint it."""
        self.refresh()

    def drop_before(self, index: int) -> bool:
        """Drop the entries before one. False: the person looks further up, or has selected a text; none goes then."""
        if not self._follow or self.text_selection is not None:
            return False
        self._sheet.cut_before(index)
        if self._marked is not None and self._marked.index < 0:
            self._marked = None
        self.to_end()
        return True

    def action_copy(self) -> None:
        """Copy what is selected, else the marked entry, else the last answer in sight."""
        text = self.screen.get_selected_text()
        if not text:
            entry = next(iter(self._to_copy()), None)
            text = "" if entry is None else entry.text.strip("\n") or entry.diff
        self._copy(text)

    def action_copy_code(self) -> None:
        """Copy the last block of code of the marked entry, else of those in sight; pressed again, the one before it."""
        blocks = [block for entry in self._to_copy() for block in reversed(code_blocks(entry.text))]
        last = self._copied
        number = blocks.index(last) + 1 if last in blocks else 0
        self._copied = blocks[number % len(blocks)] if blocks else ""
        self._copy(self._copied)

    def _to_copy(self) -> Sequence[LogEntry]:
        """The marked entry, else the answers in sight, the last first."""
        shown = self._sheet.entries[self._top()[0] : self._bottom() + 1]
        if self._marked in shown:
            return [self._marked]
        return [entry for entry in reversed(shown) if entry.kind == "answer"]

    def _copy(self, text: str) -> None:
        if text:
            app_of(self).copy_to_clipboard(text)
            self.notify(f"copied {counted(len(text), 'character')}", timeout=COPIED_SECONDS, markup=False)


def _over(strip: Strip, look: RichStyle) -> Strip:
    """A strip with a look on top of its own."""
    return Strip([Segment(text, style + look if style else look) for text, style, _ in strip], strip.cell_length)
