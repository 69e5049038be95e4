"""A table of Markdown, laid out in the columns there are; what does not fit wraps in its cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from textual.content import Content

from vibe.cli.textual_ui.log.markdown_inline import inline

if TYPE_CHECKING:
    from markdown_it.token import Token

_BETWEEN: Final = " │ "
_LEAST: Final = 4
"""Columns of a cell."""


class Table:
    """Takes the tokens of a table, and gives its lines."""

    def __init__(self) -> None:
        self._rows: list[list[Content]] = []
        self._sides: list[str] = []
        self._is_head = False

    def take(self, token: Token) -> None:
        """Take the next token."""
        match token.type:
            case "tr_open":
                self._rows.append([])
            case "th_open":
                self._is_head = True
                self._sides.append(str(token.attrs.get("style", "")).rpartition(":")[2])
            case "td_open":
                self._is_head = False
            case "inline":
                self._rows[-1].append(inline(token, "bold" if self._is_head else ""))
            case _:
                return

    def lines(self, cols: int) -> Iterator[Content]:
        """Yield its lines, at most so many columns wide as long as there is room for every cell."""
        widths = self._widths(cols)
        for number, row in enumerate(self._rows):
            yield from self._line(row, widths)
            if not number:
                yield Content.styled("─┼─".join("─" * width for width in widths), "$foreground-muted")

    def _widths(self, cols: int) -> list[int]:
        widths = [max(_cells(row[at]) if at < len(row) else 0 for row in self._rows) for at in range(len(self._sides))]
        widths = [max(1, width) for width in widths]
        room = max(cols - len(_BETWEEN) * (len(widths) - 1), _LEAST * len(widths))
        while sum(widths) > room:
            widest = max(widths)
            others = sum(width for width in widths if width < widest)
            many = widths.count(widest)
            next_widest = max((width for width in widths if width < widest), default=0)
            narrower = max(next_widest, (room - others) // many, 1)
            if narrower >= widest:
                narrower = widest - 1
            widths = [narrower if width == widest else width for width in widths]
        return widths

    def _line(self, row: list[Content], widths: list[int]) -> Iterator[Content]:
        cells = [cell.wrap(width) for cell, width in zip(row, widths, strict=False)]
        between = Content.styled(_BETWEEN, "$foreground-muted")
        for number in range(max(map(len, cells), default=0)):
            parts = [
                _beside(cell[number] if number < len(cell) else Content(""), width, side)
                for cell, width, side in zip(cells, widths, self._sides, strict=False)
            ]
            yield between.join(parts)


def _cells(content: Content) -> int:
    return max((line.cell_length for line in content.split("\n")), default=0)


def _beside(content: Content, width: int, side: str) -> Content:
    room = max(0, width - content.cell_length)
    if side == "right":
        return content.pad_left(room)
    return content.pad(room // 2, room - room // 2) if side == "center" else content.pad_right(room)
