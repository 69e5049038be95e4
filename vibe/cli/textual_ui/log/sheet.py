"""Sheet: the entries one below the other at a width, exact where their rows were made and estimated elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from textual.strip import Strip
from textual.widget import Widget

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.painter import Painter
from vibe.cli.textual_ui.log.rows import Row

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

    def warm(self) -> None:
        """Load what Markdown and code need."""
        self._painter.warm()

    @property
    def height(self) -> int:
        """All its rows."""
        return self.tops[-1]

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Have more entries at its end."""
        first = len(self.entries)
        self.entries.extend(entries)
        for index in range(first, len(self.entries)):
            entry = self.entries[index]
            entry.index = index
            self._estimate(entry)
        self._sum_up(first)

    def put_before(self, entries: Iterable[LogEntry]) -> int:
        """Have more entries at its beginning, and return the rows by which the first of before is taller now."""
        first = self.entries[0] if self.entries else None
        height = 0 if first is None else first.height
        new = list(entries)
        self.entries[:0] = new
        for index, entry in enumerate(self.entries):
            entry.index = index
        for entry in new:
            self._estimate(entry)
        taller = 0
        if first is not None and new:
            self._drop(first)
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
            self._painter.forget(entry)
        for number, entry in enumerate(self.entries):
            entry.index = number
        if self.entries and gone:
            self._estimate(self.entries[0])
        self._forget_rows()
        self._sum_up(0)

    def cut(self, index: int) -> None:
        """Have no entry from that one on."""
        for entry in self.entries[index:]:
            entry.index = -1
            self._drop(entry)
            self._painter.forget(entry)
        del self.entries[index:]
        del self.tops[len(self.entries) + 1 :]

    def changed(self, entry: LogEntry) -> None:
        """Make its rows again; one that looks as before stays, with what was painted of it."""
        before = self._cache.get(entry, ())
        self._drop(entry)
        entry.exact = False
        self.measure(entry.index, 1)
        rows = self.rows(entry)
        for number, (old, new) in enumerate(zip(before, rows, strict=False)):
            if old is not new and old.glue == new.glue and old.strip == new.strip:
                rows[number] = old

    def estimate_all(self) -> None:
        """Know no height any more."""
        for entry in self.entries:
            self._estimate(entry)
        self._sum_up(0)

    def reflow(self, cols: int) -> None:
        """Have another width."""
        self.cols = cols
        self.repaint()
        self.estimate_all()

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

    def _estimate(self, entry: LogEntry) -> None:
        entry.height, entry.exact = self.gap(entry) + entry.estimate(self.cols or 80), False

    def _sum_up(self, low: int) -> None:
        self.tops[low:] = accumulate((entry.height for entry in self.entries[low:]), initial=self.tops[low])

    def _forget_rows(self) -> None:
        self._cache.clear()
        self._kept = 0

    def _drop(self, entry: LogEntry) -> None:
        self._kept -= len(self._cache.pop(entry, ()))
