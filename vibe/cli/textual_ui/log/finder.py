"""Finder: the next place of a text in the log, by its rows as they are shown."""

from __future__ import annotations

from collections.abc import Iterator

from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.rows import GUTTER
from vibe.cli.textual_ui.log.sheet import Sheet


def has_text(entry: LogEntry, text: str) -> bool:
    """Return whether a text, in lower case, is in an entry."""
    return text in f"{entry.title}\n{entry.text}\n{entry.diff}".casefold()


class Finder:
    """Goes on from the place it found last."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._last: tuple[str, LogEntry, int, int] | None = None

    def find(self, text: str, index: int, *, backwards: bool, wraps: bool) -> tuple[int, int, int, int] | None:
        """The entry, its row, and the columns from and to of the next place of a text, beginning with that entry.

        What is folded is opened if the text is in it; upper and lower case are alike. ``wraps``: round the ends.
        """
        entries, wanted = self._sheet.entries, text.casefold()
        if not wanted or not entries or not self._sheet.cols:
            return None
        after: tuple[int, int] | None = None
        if self._last is not None and self._last[0] == wanted and self._last[1].index >= 0:
            index, after = self._last[1].index, self._last[2:]
        step = -1 if backwards else 1
        for number in range(len(entries) + 1):
            place = index + step * number
            if not wraps and not 0 <= place < len(entries):
                return None
            entry = entries[place % len(entries)]
            if not has_text(entry, wanted):
                continue
            places = self._places(entry, wanted)
            if backwards:
                places.reverse()
            if after is not None and number == 0:
                places = [place for place in places if (place < after if backwards else place > after)]
            if places:
                row, column = places[0]
                self._last = (wanted, entry, row, column)
                return entry.index, row, column, column + len(wanted)
        return None

    def _places(self, entry: LogEntry, wanted: str) -> list[tuple[int, int]]:
        places = list(self._in_rows(entry, wanted))
        if not places and entry.folds and entry.folded:
            entry.folded = False
            self._sheet.changed(entry)
            places = list(self._in_rows(entry, wanted))
        if not places and not entry.whole:  # among the lines that are left out
            entry.whole = True
            self._sheet.changed(entry)
            places = list(self._in_rows(entry, wanted))
        return places or [(self._sheet.gap(entry), GUTTER)]

    def _in_rows(self, entry: LogEntry, wanted: str) -> Iterator[tuple[int, int]]:
        for number, row in enumerate(self._sheet.rows(entry)):
            text = row.text.casefold()
            column = text.find(wanted)
            while column >= 0:
                yield number, column
                column = text.find(wanted, column + 1)
