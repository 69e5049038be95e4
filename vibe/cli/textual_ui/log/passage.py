"""Selected passages of the log: places that stay true while rows come and go above them, and the text to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from textual.geometry import Offset
from textual.selection import Selection

from vibe.cli.textual_ui.log.rows import GUTTER, Row

_ROWS: Final = 1 << 20
"""Of an entry, at most."""


def row_y(index: int, row: int) -> int:
    """The line of a selection that a row of an entry is."""
    return index * _ROWS + row


def row_of(y: int) -> tuple[int, int]:
    """The entry and the row that a line of a selection is."""
    return divmod(y, _ROWS)


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
