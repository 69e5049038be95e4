"""Turns printed text into what a terminal shows in the end: the last version of rewritten lines, without colours."""

from __future__ import annotations

import re

ROWS = 50
"""Number of last lines that can still change. As on a terminal, the cursor goes no higher."""
COLUMNS = 1_000
"""The column beyond which no control sequence moves the cursor."""
MAX_CHARACTERS = 64 * 1024
"""Characters to collect, including those that can still change, before they are processed."""

_STRING = r"\x1b[\]PX^_][^\x07\x1b\n]*"
"""A control string that isn't shown, such as a title, a link or a picture. It never contains a line break."""
_UNSHOWN = re.compile(rf"\x1b\[[0-?]*[ -/]*m|{_STRING}(?:\x07|\x1b\\|(?=[\x1b\n])|\Z)|\x1b[ -/]+[0-~]|\x07")
_UNFINISHED = re.compile(rf"(?:{_STRING}\x1b?|\x1b(?:\[[0-?]*[ -/]*|[ -/]*)?)\Z")
_MOVING = re.compile(r"[\r\b\x1b]")
_PART = re.compile(r"\x1b\[(\d*)(?:;(\d*))?([@-~])|([^\x1b\r\n\b]+)|[\r\n\b]|\x1b(?:\[[0-?]*[ -/]*[@-~]|[0-~])")


class Screen:
    """Takes text in pieces and returns the text that can't change any more."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> str:
        """Add a piece and return the text that has scrolled out of the cursor's reach."""
        # These three characters are short for the beginnings and the end of escape sequences.
        self._text += text.replace("\x9b", "\x1b[").replace("\x9c", "\x1b\\").replace("\x9d", "\x1b]")
        if len(self._text) < MAX_CHARACTERS:
            return ""
        last = max(self._text.rfind("\x1b", 0, -1), 0)
        unfinished = found.group() if (found := _UNFINISHED.search(self._text, last)) else ""
        grid = _Grid(self._text[: len(self._text) - len(unfinished)])
        settled = grid.settled()
        # Nothing of an unfinished string is shown, so its opening is kept, and an ESC that may begin its end.
        if len(unfinished) > 1 and unfinished[1] in "]PX^_":
            unfinished = unfinished[:2] + "\x1b" * unfinished.endswith("\x1b")
        self._text = grid.as_text() + unfinished
        return settled

    def flush(self) -> str:
        """Return the rest of the text and start again with an empty screen."""
        rest = "\n".join(_Grid(self._text).lines())
        self._text = ""
        return rest


class _Grid:
    """Lines of text with a cursor."""

    def __init__(self, text: str) -> None:
        text = _UNSHOWN.sub("", text).replace("\r\n", "\n")
        is_moving = _MOVING.search(text) is not None
        self._rows: list[str] = [""] if is_moving else text.split("\n")
        self._row = len(self._rows) - 1
        self._column = len(self._rows[-1])
        self._rewritten: set[int] = set()
        """Rows that were overwritten. Their trailing blanks only hide earlier text."""
        for part in _PART.finditer(text if is_moving else ""):
            self._show(part)

    def lines(self) -> list[str]:
        """Return all lines."""
        rows, new = self._rows, self._rewritten
        return [row.rstrip(" ") if number in new else row for number, row in enumerate(rows)] if new else rows

    def settled(self) -> str:
        """Remove and return all but the last lines, and the beginning of the last one if that is long."""
        self._rows, self._rewritten = self.lines(), set()
        count, room = len(self._rows), MAX_CHARACTERS // 2
        while count > max(len(self._rows) - ROWS, 0) and room >= len(self._rows[count - 1]):
            count -= 1
            room -= len(self._rows[count]) + 1
        taken = "\n".join([*self._rows[:count], ""])
        self._rows, self._row = self._rows[count:], self._row - count
        if not self._rows:  # the last line alone is too long
            self._rows, taken = [taken[-MAX_CHARACTERS // 4 : -1]], taken[: -MAX_CHARACTERS // 4]
            self._column = max(self._column - max(len(taken) - taken.rfind("\n") - 1, 0), 0)
        self._row = max(self._row, 0)
        return taken

    def as_text(self) -> str:
        """Return text that reproduces the lines and the position of the cursor."""
        up, is_at_end = len(self._rows) - 1 - self._row, self._column == len(self._rows[self._row])
        moves = (f"\x1b[{up}A" if up else "") + ("" if is_at_end and not up else f"\x1b[{self._column + 1}G")
        return "\n".join(self._rows) + moves

    def _show(self, part: re.Match[str]) -> None:
        first, second, final, text = part.groups()
        row = self._rows[self._row]
        if text:
            if self._column < len(row):
                self._rewritten.add(self._row)
            end = self._column + len(text)
            self._rows[self._row] = row[: self._column].ljust(self._column) + text + row[end:]
            self._column = end
        elif final:
            self._control(final, *(min(int(number[:6]), COLUMNS) if number else 0 for number in (first, second)))
        elif part.group() == "\n":
            self._move_cursor(self._row + 1, 0)
        elif part.group() in "\r\b":
            self._column = 0 if part.group() == "\r" else max(self._column - 1, 0)

    @property
    def _top(self) -> int:
        return max(len(self._rows) - ROWS, 0)

    def _move_cursor(self, row: int, column: int) -> None:
        """Move the cursor, adding lines if needed."""
        self._row, self._column = max(row, self._top), column
        self._rows += [""] * (self._row + 1 - len(self._rows))

    def _control(self, final: str, first: int, second: int) -> None:
        count, column = max(first, 1), self._column
        match final:
            case "A" | "F":
                self._move_cursor(self._row - count, column if final == "A" else 0)
            case "B" | "E":
                self._move_cursor(min(self._row + count, self._top + ROWS - 1), column if final == "B" else 0)
            case "C" | "D":
                self._column = max(min(column + count, COLUMNS), column) if final == "C" else max(column - count, 0)
            case "G":
                self._column = count - 1
            case "H" | "f":
                self._move_cursor(self._top + min(count, ROWS) - 1, max(second, 1) - 1)
            case "J" | "K":
                self._erase(first, is_line=final == "K")
            case _:
                pass

    def _erase(self, what: int, *, is_line: bool) -> None:
        """Erase part of the cursor's line, or of all lines that can change.

        ``what`` is 0 for the part after the cursor, 1 for the part before it, and more for both.
        """
        row = self._rows[self._row]
        before = row[: self._column] if what == 0 else " " * (self._column + 1)
        self._rows[self._row] = before + (row[self._column + 1 :] if what == 1 else "")
        self._rewritten.add(self._row)
        if what and not is_line:
            self._rows[self._top : self._row] = [""] * (self._row - self._top)
        if what != 1 and not is_line:
            del self._rows[self._row + 1 :]


def shown(text: str) -> str:
    """Return a complete text as a terminal shows it in the end."""
    screen = Screen()
    return screen.feed(text) + screen.flush()
