"""A picker: a list to choose from, what the marked row stands for at its right, and the keys below; drawn as lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from textwrap import wrap
from typing import Final

from msgspec import Struct

from vibe.front.cells import Line, cells_of, cut, fit, spread

WIDE: Final = 74
"""Cells of a picker from which on the preview stands beside the list: those it has in a window of 80 columns."""
PREVIEW_CELLS: Final = 42
"""Those of a preview in a window of 80 columns."""
LIST_SHARE: Final = 0.4
FRAME: Final = 4
"""Rows besides the list: the head, the keys, and an empty one each."""
FACT_SHARE: Final = 0.6


class PickRow(Struct, frozen=True):
    """A row. Choosing it carries ``line`` out, as if it had been typed; one that ends in a blank is begun in the line.

    ``fact`` stands at the right edge; ``words`` are looked through, too, by who filters.
    """

    line: str
    title: str
    fact: str = ""
    words: str = ""


class Picker(Struct, kw_only=True):
    """Rows and what becomes of them; all functions are given the mode: which of ``modes`` the person has gone on to.

    A mode has a name and what is put behind the line that is chosen. ``mode_key`` are its keys as they are shown.
    ``preview`` may read files: it is called in a thread. ``look`` is told of each row that is marked, and of None where
    none was chosen in the end. ``search`` returns the lines of rows whose contents have a text; in a thread, too.
    ``first`` is the line of the row that is marked at the beginning, ``enter`` says what Enter does.
    """

    title: str
    rows: Callable[[int], Sequence[PickRow]]
    preview: Callable[[PickRow, int], Sequence[Line]] | None = None
    modes: Sequence[tuple[str, str]] = ()
    mode: int = 0
    mode_key: str = "Tab"
    look: Callable[[PickRow | None], object] = bool
    search: Callable[[str], Collection[str]] | None = None
    first: str = ""
    enter: str = "choose"


class PickState(Struct, kw_only=True):
    """The state of a picker: what was typed, the rows that fit, the marked one, and its preview as far as known."""

    query: str = ""
    rows: Sequence[PickRow] = ()
    marked: int = 0
    mode: int = 0
    preview: Sequence[Line] = ()


def fitting(rows: Sequence[PickRow], query: str, found: Collection[str] = ()) -> list[PickRow]:
    """The rows that have all words of a query, and those ``found`` otherwise; commands that begin so first, by name."""
    words = query.casefold().split()
    texts = (f"{row.title} {row.fact} {row.words} {row.line}".casefold() for row in rows)
    fits = (
        row for row, text in zip(rows, texts, strict=True) if row.line in found or all(map(text.__contains__, words))
    )
    begins = f"/{query.strip()}" if words else ""
    return sorted(fits, key=lambda row: (0, row.line) if begins and row.line.startswith(begins) else (1, ""))


def told(title: str, facts: Iterable[tuple[str, str]]) -> list[Line]:
    """A preview: a title, and facts with their names; those that are blank are left out."""
    return [[(title, "bold")], [], *([(f"{name:<10}", "muted"), (fact, "")] for name, fact in facts if fact)]


def wrapped(text: str, style: str = "", most: int = 4) -> list[Line]:
    """The first lines of a text for a preview."""
    return [[(line, style)] for line in wrap(text, PREVIEW_CELLS, max_lines=most, placeholder="…")]


def picker_lines(picker: Picker, state: PickState, cols: int, rows: int) -> list[Line]:
    """The picker in so many cells and rows."""
    room = max(1, rows - FRAME)
    left, right = cols - 1, list[Line]()
    if picker.preview is not None and cols >= WIDE:
        left, right = int(cols * LIST_SHARE), [[("  ", ""), *line] for line in state.preview[:room]]
    right += [[]] * (room - len(right))
    body = [[*row, *more] for row, more in zip(_list(state, left, room), right, strict=True)]
    typed = [] if state.query else [("type to filter", "muted")]
    head = [(f" {picker.title}  ", "bold"), (state.query, ""), ("▏", "accent"), *typed]
    lines = [spread(head, [(f"{len(state.rows)} ", "muted")], cols), [], *body, [], _keys(picker, state, cols)]
    return [fit(line, cols) for line in lines[: rows - 1] + lines[-1:]]


def first_shown(state: PickState, room: int) -> int:
    """The place of the first row that is shown where there is room for so many."""
    return min(max(0, state.marked - room // 2), max(0, len(state.rows) - room))


def _list(state: PickState, cols: int, room: int) -> list[Line]:
    """The rows round the marked one, and empty ones below them."""
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
    """The keys, with all modes, or where there is no room only the one that counts."""
    for modes in (range(len(picker.modes)), [state.mode]):
        line: Line = [(" ", ""), ("↑↓", "accent bold"), (" move", "muted")]
        for number in modes if picker.modes else ():
            before = (" | ", "muted") if number != modes[0] else (f"   {picker.mode_key} ", "accent bold")
            line += [before, (picker.modes[number][0], "bold" if number == state.mode else "muted")]
        if state.rows:
            line += [("   Enter", "accent bold"), (f" {picker.enter}", "muted")]
        line += [("   Esc", "accent bold"), (" back", "muted")]
        if cells_of(line) <= cols:
            break
    return line
