"""Lines of styled text, measured in cells of a terminal; what a style looks like is the front end's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The mark of what is at work, eight pictures of it a second."""
Piece: TypeAlias = tuple[str, str]
"""Text and its style: some of ``bold``, ``muted``, ``accent``, ``done``, ``warn``, ``failed`` and ``chosen``."""
Line: TypeAlias = list[Piece]


def cells_of(line: Iterable[Piece]) -> int:
    """The cells that a line takes."""
    return sum(cell_len(text) for text, _ in line)


def cut(text: str, cells: int) -> str:
    """Text of at most so many cells, with an ellipsis at its end if something is missing."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""


def fit(line: Iterable[Piece], cells: int) -> Line:
    """The line in exactly so many cells: cut, or filled with blanks."""
    fitted: Line = []
    left = cells
    for text, style in line:
        shown = cut(text, left)
        if shown:
            fitted.append((shown, style))
        left -= cell_len(shown)
        if left <= 0 or shown != text:
            break
    return [*fitted, (" " * left, "")] if left > 0 else fitted


def spread(left: Iterable[Piece], right: Iterable[Piece], cells: int) -> Line:
    """A line of exactly so many cells, with pieces at its right edge; those at the left give way to them."""
    facts = list(right)
    room = cells - cells_of(facts)
    if not facts or room < 2:
        return fit(left, cells)
    return [*fit(left, room - 2), ("  ", ""), *facts]


def joined(pieces: Iterable[Piece]) -> Line:
    """The same line with neighbours of one style as one piece."""
    line: Line = []
    for text, style in pieces:
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + text, style)
        else:
            line.append((text, style))
    return line


def text_of(line: Iterable[Piece]) -> str:
    """The characters of a line, without the blanks at its end."""
    return "".join(text for text, _ in line).rstrip()
