"""Draws a picker as lines: a list to choose from, a preview of the marked row on its right, and the keys below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

from msgspec import Struct

from vibe.front.cells import Line, cells_of, cut, fit, spread

WIDE: Final = 74
"""Width in cells from which the preview stands beside the list: the picker's width in an 80-column window."""
PREVIEW_CELLS: Final = 42
"""The preview's width in cells in an 80-column window."""
LIST_SHARE: Final = 0.4
FRAME: Final = 4
"""Rows besides the list: the head, the keys, and an empty row next to each."""
FACT_SHARE: Final = 0.6


class PickRow(Struct, frozen=True):
    """A row of the list.

    Choosing it carries out ``line`` as if it had been typed; a line that ends in a blank is put into the input instead.
    A row with a blank line is only to be read.
    ``fact`` is shown at the right edge. ``words`` isn't shown, but the filter searches it.
    """

    line: str
    title: str
    fact: str = ""
    words: str = ""


class Picker(Struct, kw_only=True):
    """A list of rows, and what happens when one is marked or chosen.

    All functions get the mode, which is the index of the entry of ``modes`` that the person has switched to. A mode has
    a name and a text that is appended to the chosen line; ``mode_key`` names its keys. ``preview`` runs in a thread, so
    it may read files; with ``is_previewed``, Enter chooses nothing whose preview was not shown. ``look`` is called with
    each row as it is marked, and with None if none is chosen in the end. ``search`` also runs in a thread and returns
    the lines of the rows whose contents include a text. ``first`` is the line of the row marked at the start, and
    ``enter`` says what Enter does.
    """

    title: str
    rows: Callable[[int], Sequence[PickRow]]
    preview: Callable[[PickRow, int], Sequence[Line]] | None = None
    modes: Sequence[tuple[str, str]] = ()
    mode: int = 0
    mode_key: str = "Tab"
    is_previewed: bool = False
    look: Callable[[PickRow | None], object] = bool
    search: Callable[[str], Collection[str]] | None = None
    first: str = ""
    enter: str = "choose"


class PickState(Struct, kw_only=True):
    """A picker's state: the text typed, the matching rows, the marked one, and its preview if it is known."""

    query: str = ""
    rows: Sequence[PickRow] = ()
    marked: int = 0
    mode: int = 0
    preview: Sequence[Line] = ()


def matching_rows(rows: Sequence[PickRow], query: str, found: Collection[str] = ()) -> list[PickRow]:
    """Return the rows that contain all words of the query, and the rows whose line is in ``found``.

    Rows whose command begins with the query come first, sorted by name.
    """
    words = query.casefold().split()
    texts = (f"{row.title} {row.fact} {row.words} {row.line}".casefold() for row in rows)
    fits = (
        row for row, text in zip(rows, texts, strict=True) if row.line in found or all(map(text.__contains__, words))
    )
    begins = f"/{query.strip()}" if words else ""
    return sorted(fits, key=lambda row: (0, row.line) if begins and row.line.startswith(begins) else (1, ""))


def titled(title: str, facts: Iterable[tuple[str, str]]) -> list[Line]:
    """Return a preview with a title and named facts; blank facts are left out."""
    return [[(title, "bold")], [], *([(f"{name:<10}", "muted"), (fact, "")] for name, fact in facts if fact)]


def wrapped(text: str, style: str = "", most: int = 4) -> list[Line]:
    """Return the first lines of a text, wrapped for the preview."""
    return [[(line, style)] for line in wrap(text, PREVIEW_CELLS, max_lines=most, placeholder="…")]


def picker_lines(picker: Picker, state: PickState, cols: int, rows: int) -> list[Line]:
    """Return the picker as ``rows`` lines of ``cols`` cells."""
    room, empty = max(1, rows - FRAME), Line()
    preview = [[("  ", ""), *line] for line in state.preview if line or cols >= WIDE]
    left, right = cols - 1, list[Line]()
    if picker.preview is not None and cols >= WIDE:
        left, right = int(cols * LIST_SHARE), preview[:room]
    listed = [*_list(state, left, list_room(picker, cols, rows)), *preview][:room]
    body = [[*row, *more] for row, more, _ in zip_longest(listed, right, [empty] * room, fillvalue=empty)]
    typed = [] if state.query else [("type to filter", "muted")]
    head = [(f" {picker.title}  ", "bold"), (state.query, ""), ("▏", "accent"), *typed]
    lines = [spread(head, [(f"{len(state.rows)} ", "muted")], cols), [], *body, [], _keys(picker, state, cols)]
    return [fit(line, cols) for line in lines[: rows - 1] + lines[-1:]]


def list_room(picker: Picker, cols: int, rows: int) -> int:
    """Return how many rows the list has; where the window is narrow, a preview that must be seen is below it."""
    room = max(1, rows - FRAME)
    return (room + 1) // 2 if picker.is_previewed and cols < WIDE else room


def first_shown(state: PickState, room: int) -> int:
    """Return the index of the first row shown when there is room for ``room`` rows."""
    return min(max(0, state.marked - room // 2), max(0, len(state.rows) - room))


def _list(state: PickState, cols: int, room: int) -> list[Line]:
    """Return the rows around the marked one, padded with empty rows below."""
    first = first_shown(state, room)
    shown = [
        _row(row, cols, is_marked=first + number == state.marked)
        for number, row in enumerate(state.rows[first : first + room])
    ] or [fit([("  nothing fits: Ctrl+U shows all" if state.query else "  none here", "muted")], cols)]
    return [*shown, *([[(" " * cols, "")]] * (room - len(shown)))]


def _row(row: PickRow, cols: int, *, is_marked: bool) -> Line:
    fact = cut(row.fact, int(cols * FACT_SHARE))
    facts = [(f"{fact} ", "muted")] if fact else []
    title = (row.title, "bold" if is_marked else "")
    line = spread([("▸ " if is_marked else "  ", "accent bold"), title], facts, cols)
    return [(text, f"{style} marked".strip()) for text, style in line] if is_marked else line


def _keys(picker: Picker, state: PickState, cols: int) -> Line:
    """Return the line of keys with all modes, or only the current mode where there is too little room."""
    for modes in (range(len(picker.modes)), [state.mode]):
        line: Line = [(" ", ""), ("↑↓", "accent bold"), (" move", "muted")]
        for number in modes if picker.modes else ():
            before = (" | ", "muted") if number != modes[0] else (f"   {picker.mode_key} ", "accent bold")
            line += [before, (picker.modes[number][0], "bold" if number == state.mode else "muted")]
        if state.rows and state.rows[state.marked].line:
            line += [("   Enter", "accent bold"), (f" {picker.enter}", "muted")]
        line += [("   Esc", "accent bold"), (" back", "muted")]
        if cells_of(line) <= cols:
            break
    return line
