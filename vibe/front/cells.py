"""Lines of styled text, measured in terminal cells; each front end decides what a style looks like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The frames of the mark for work in progress, shown eight a second."""
Piece: TypeAlias = tuple[str, str]
"""Text and its style: any of ``bold``, ``muted``, ``accent``, ``done``, ``warn``, ``failed`` and ``chosen``."""
Line: TypeAlias = list[Piece]


def cells_of(line: Iterable[Piece]) -> int:
    """Return the width of a line in cells."""
    return sum(cell_len(text) for text, _ in line)


def cut(text: str, cells: int) -> str:
    """Return the text in at most ``cells`` cells, with an ellipsis at the end if something was cut off."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""


def fit(line: Iterable[Piece], cells: int) -> Line:
    """Return the line in exactly ``cells`` cells, cut or padded with blanks."""
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
    """Return a line of exactly ``cells`` cells with ``right`` at its right edge; ``left`` is cut to make room."""
    facts = list(right)
    room = cells - cells_of(facts)
    if not facts or room < 2:
        return fit(left, cells)
    return [*fit(left, room - 2), ("  ", ""), *facts]


def chained(parts: Iterable[Line], between: Piece) -> Line:
    """Return the parts that are not empty in one line, with a piece between each two."""
    line: Line = []
    for part in parts:
        if cells_of(part):
            line += [between, *part] if line else part
    return line


def joined(pieces: Iterable[Piece]) -> Line:
    """Return the same line with neighbouring pieces of one style merged."""
    line: Line = []
    for text, style in pieces:
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + text, style)
        else:
            line.append((text, style))
    return line


def text_of(line: Iterable[Piece]) -> str:
    """Return the characters of a line without trailing blanks."""
    return "".join(text for text, _ in line).rstrip()
