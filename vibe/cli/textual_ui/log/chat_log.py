"""ChatLog: the widget that shows a transcript, painting its lines itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.painted_sheet import PaintedSheet, row_y
from vibe.cli.textual_ui.log.rows import GUTTER
from vibe.cli.textual_ui.refresher import SECONDS_PER_FRAME, Refresher


def has_text(entry: LogEntry, text: str) -> bool:
    """Return whether an entry contains a text, which must be casefolded."""
    return text in f"{entry.title}\n{entry.text}\n{entry.diff}".casefold()


class ChatLog(PaintedSheet, can_focus=True):
    """A scrolling list of entries that follows its end until the person scrolls up.

    If there are older entries, ``OlderWanted`` is posted once the first one comes near.
    """

    DEFAULT_CSS = """
    ChatLog {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    ChatLog > .chat-log--user { background: $surface; color: $foreground; }
    ChatLog > .chat-log--code { background: $foreground 4%; }
    ChatLog > .chat-log--added { background: $success 12%; }
    ChatLog > .chat-log--removed { background: $error 12%; }
    ChatLog > .chat-log--muted { color: $foreground-muted; }
    ChatLog > .chat-log--more { background: $primary; color: $text; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"chat-log--{part}" for part in ("user", "code", "added", "removed", "more", "muted")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k,ctrl+up", "mark(-1)", "Mark the entry above", show=False),
        Binding("j,ctrl+down", "mark(1)", "Mark the entry below", show=False),
        Binding("enter", "choose", "Fold it, or open it"),
        Binding("tab,escape", "screen.leave_log", "Back to the line", show=False),
        Binding("m,alt+m", "whole", "Show the lines that were left out", show=False),
    ]
    OF_ENTRY: ClassVar[list[BindingType]] = [*BINDINGS, *PaintedSheet.BINDINGS]

    KEYS: ClassVar[str] = "j k mark · Enter fold · m all lines · c copy · b code · Esc back"

    class OlderWanted(Message, namespace="chat_log"):
        """Posted when the beginning of the log is near: ``prepend`` what comes before it."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  Textual's names
        super().__init__(id=id, classes=classes)
        self._has_older = False
        self._is_asking = False
        self._last: tuple[str, LogEntry, int, int] | None = None
        """The last search result: the text, the entry, its row and the column."""
        self._streamed: set[LogEntry] = set()
        self._refresher = Refresher(self, self.settle, SECONDS_PER_FRAME)

    @property
    def entries(self) -> Sequence[LogEntry]:
        """All entries, oldest first."""
        return self._sheet.entries

    def append(self, entry: LogEntry) -> None:
        """Add an entry at the end."""
        self.extend([entry])

    def extend(self, entries: Iterable[LogEntry]) -> None:
        """Add entries at the end."""
        self._sheet.add(entries)
        self._keep_place(self._top(), is_new=True)

    def prepend(self, entries: Iterable[LogEntry], *, more: bool) -> None:
        """Add entries at the beginning, without moving what is in sight; ``more`` if there are still older ones."""
        self._has_older, self._is_asking = more, False
        index, row = self._top()
        known = len(self.entries)
        taller = self._sheet.put_before(entries)
        self._deselect()
        self._keep_place((index + len(self.entries) - known, row + taller if not index else row), is_new=False)
        self._ask_for_older()

    def _set_y(self, y: int) -> None:
        super()._set_y(y)
        self._ask_for_older()

    def _ask_for_older(self) -> None:
        if self._has_older and not self._is_asking and self._sheet.cols and self.scroll_offset.y < self._rows_shown:
            self._is_asking = True
            self.post_message(self.OlderWanted())

    def changed(self, entry: LogEntry) -> None:
        """Show an entry as it is now; a streaming one is redrawn at most 8 times a second, and at its end."""
        if entry.index < 0:
            return
        if entry.draw is not None and entry.is_open and not self.shows(entry):
            self._sheet.forget(entry)  # it will be drawn when it comes into sight
            return
        self._streamed.add(entry)
        if entry.is_open:
            self._refresher.request()
        else:
            self.settle()

    def settle(self) -> None:
        """Show now what has changed since the last time."""
        entries = sorted((one for one in self._streamed if one.index >= 0), key=lambda one: one.index)
        self._streamed.clear()
        if not self._sheet.cols:
            return
        top, height = self._top(), self._sheet.height
        lines = [line for entry in entries for line in self._sheet.changed(entry)]
        if not entries:
            return
        if self._sheet.height != height:
            self._keep_place(top, is_new=self._sheet.height > height and entries[-1].index >= self._bottom())
            return
        for line in lines:
            if 0 <= line - self.scroll_offset.y < self._rows_shown:
                self.refresh_lines(line + self._above)

    def reset(self) -> None:
        """Drop all entries."""
        self._has_older = False
        self.cut(0)
        self.to_end()

    def toggle_all_calls(self) -> None:
        """Unfold all calls, or fold them all if most are unfolded."""
        calls = [entry for entry in self._sheet.entries if entry.kind == "call"]
        folded = sum(entry.folded for entry in calls) * 2 < len(calls)
        for entry in calls:
            entry.folded = folded
        index, _ = self._top()
        self._sheet.reflow(self._sheet.cols)
        self._deselect()
        self._keep_place((index, 0), is_new=False)

    def find(self, text: str, *, wraps: bool = True) -> bool:
        """Scroll up to the next occurrence of a text and select it, going on from the last one found.

        ``wraps`` continues from the end after the first entry. Return False if the text is not found.
        """
        found = self._next_place(text, self._bottom(), wraps=wraps)
        if found is None:
            return False
        index, row, start, end = found
        self._sheet.measure(index, 1)
        self._scroll_to_row(index, max(0, row - self._rows_shown // 3), clamp=False)
        y = row_y(index, row)
        self.screen.selections = {self: Selection(Offset(start, y), Offset(end, y))}
        return True

    def _next_place(self, text: str, index: int, *, wraps: bool) -> tuple[int, int, int, int] | None:
        """Find the next occurrence of a text, starting with the entry at ``index`` and ignoring case.

        Return the entry's index, its row, and the first column and the one after the last. An entry is unfolded if the
        text is in it. For ``wraps`` see ``find``.
        """
        entries, wanted = self._sheet.entries, text.casefold()
        if not wanted or not entries or not self._sheet.cols:
            return None
        after: tuple[int, int] | None = None
        if self._last is not None and self._last[0] == wanted and self._last[1].index >= 0:
            index, after = self._last[1].index, self._last[2:]
        for number in range(len(entries) + 1 if wraps else index + 1):
            entry = entries[(index - number) % len(entries)]
            if not has_text(entry, wanted):
                continue
            places = self._places(entry, wanted)
            if after is not None and number == 0:
                places = [place for place in places if place < after]
            if places:
                row, column = places[-1]
                self._last = (wanted, entry, row, column)
                return entry.index, row, column, column + len(wanted)
        return None

    def _places(self, entry: LogEntry, wanted: str) -> list[tuple[int, int]]:
        places = list(self._in_rows(entry, wanted))
        if not places and entry.folds and entry.folded:
            entry.folded = False
            self._sheet.changed(entry)
            places = list(self._in_rows(entry, wanted))
        if not places and not entry.whole:  # the text may be among the lines that are left out
            entry.whole = True
            self._sheet.changed(entry)
            places = list(self._in_rows(entry, wanted))
        return places or [(self._sheet.gap(entry), GUTTER)]

    def _in_rows(self, entry: LogEntry, wanted: str) -> Iterator[tuple[int, int]]:
        for number, row in enumerate(self._sheet.rows(entry)):
            text, column = row.text.casefold(), -1
            while (column := text.find(wanted, column + 1)) >= 0:
                yield number, column

    # --- keys

    def action_mark(self, step: int) -> None:
        """Mark the next entry below (1) or above (-1), or the one that was marked before (0)."""
        entries = self._sheet.entries
        if not entries:
            return
        shown = range(self._top()[0], self._bottom() + 1)
        if self._marked is None or self._marked.index not in shown:
            index = shown[0] if step > 0 else shown[-1]
        else:
            index = max(0, min(self._marked.index + step, len(entries) - 1))
        self._marked = entries[index]
        self._show_heading(self._marked)

    def unmark(self) -> bool:
        """Remove the mark; return False if no entry was marked."""
        was, self._marked = self._marked, None
        self.refresh()
        return was is not None

    def action_choose(self) -> None:
        """Fold or unfold the marked entry, else the last one in sight that folds."""
        if (entry := self._chosen()) is not None:
            self.choose(entry)

    def action_whole(self) -> None:
        """Show or hide the left-out lines of the marked entry, else of the last one in sight that folds."""
        if (entry := self._chosen()) is not None:
            self.toggle_whole(entry)

    def _chosen(self) -> LogEntry | None:
        shown = self._sheet.entries[self._top()[0] : self._bottom() + 1]
        if self._marked in shown:
            return self._marked
        return next((entry for entry in reversed(shown) if entry.folds), None)

    def _show_heading(self, entry: LogEntry) -> None:
        self._sheet.measure(entry.index, 1)
        y = self._sheet.tops[entry.index]
        if y < self.scroll_offset.y:
            self._scroll_to_row(entry.index, 0)
        elif y + 1 >= self.scroll_offset.y + self._rows_shown:
            self._move(y + 2 - self.scroll_offset.y - self._rows_shown)
        self.refresh()
