"""Printed text as a terminal shows it in the end: of lines that were rewritten the last, and no colours."""

from __future__ import annotations

import re

ROWS = 50
"""The last so many lines can still change; a cursor goes no higher, as at a terminal."""
COLUMNS = 1_000
"""A cursor is sent no further to the right."""
MOST = 64 * 1024
"""Characters that wait to be looked at, together with those that can still change."""

_STRING = r"\x1b[\]PX^_][^\x07\x1b\n]*"
"""A title, a link, a picture: never on one line with what is shown."""
_UNSHOWN = re.compile(rf"\x1b\[[0-?]*[ -/]*m|{_STRING}(?:\x07|\x1b\\|(?=[\x1b\n])|\Z)|\x1b[ -/]+[0-~]|\x07")
_CUT = re.compile(rf"(?:{_STRING}\x1b?|\x1b(?:\[[0-?]*[ -/]*|[ -/]*)?)\Z")
_MOVING = re.compile(r"[\r\b\x1b]")
_PART = re.compile(r"\x1b\[(\d*)(?:;(\d*))?([@-~])|([^\x1b\r\n\b]+)|[\r\n\b]|\x1b(?:\[[0-?]*[ -/]*[@-~]|[0-~])")


class Screen:
    """Text in, in any pieces; out comes what can't change any more."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> str:
        """Take a piece; return what has scrolled out of reach."""
        self._text += text
        if len(self._text) < MOST:
            return ""
        last = max(self._text.rfind("\x1b", 0, -1), 0)
        cut = found.group() if (found := _CUT.search(self._text, last)) else ""
        grid = _Grid(self._text[: len(self._text) - len(cut)])
        settled = grid.settled()
        # Of a string that goes on nothing is shown: its opening is enough, and what may be half of its end.
        is_string = len(cut) > 1 and cut[1] in "]PX^_"
        self._text = grid.as_text() + (cut[:2] + "\x1b" * cut.endswith("\x1b") if is_string else cut)
        return settled

    def flush(self) -> str:
        """Return what is left at the end; a new screen begins."""
        rest = "\n".join(_Grid(self._text).lines())
        self._text = ""
        return rest


class _Grid:
    """Lines, and a cursor among them."""

    def __init__(self, text: str) -> None:
        text = _UNSHOWN.sub("", text).replace("\r\n", "\n")
        is_moving = _MOVING.search(text) is not None
        self._rows: list[str] = [""] if is_moving else text.split("\n")
        self._row = len(self._rows) - 1
        self._column = len(self._rows[-1])
        self._rewritten: set[int] = set()
        """Lines whose blanks at the end only hide what was there."""
        for part in _PART.finditer(text if is_moving else ""):
            self._show(part)

    def lines(self) -> list[str]:
        """All of them."""
        return [row.rstrip(" ") if number in self._rewritten else row for number, row in enumerate(self._rows)]

    def settled(self) -> str:
        """Take away all but the last lines, and the beginning of a last one that is long."""
        self._rows, self._rewritten = self.lines(), set()
        count, room = len(self._rows), MOST // 2
        while count > max(len(self._rows) - ROWS, 0) and room >= len(self._rows[count - 1]):
            count -= 1
            room -= len(self._rows[count]) + 1
        taken = "".join(f"{row}\n" for row in self._rows[:count])
        self._rows, self._row = self._rows[count:], self._row - count
        if not self._rows:  # the last line alone is too long
            self._rows, taken = [taken[-MOST // 4 : -1]], taken[: -MOST // 4]
            self._column = max(self._column - max(len(taken) - taken.rfind("\n") - 1, 0), 0)
        self._row = max(self._row, 0)
        return taken

    def as_text(self) -> str:
        """Return text that shows it again, cursor and all."""
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
            self._go(self._row + 1, 0)
        elif part.group() in "\r\b":
            self._column = 0 if part.group() == "\r" else max(self._column - 1, 0)

    @property
    def _top(self) -> int:
        return max(len(self._rows) - ROWS, 0)

    def _go(self, row: int, column: int) -> None:
        """Move the cursor, to a line that may be new."""
        self._row, self._column = max(row, self._top), column
        self._rows += [""] * (self._row + 1 - len(self._rows))

    def _control(self, final: str, first: int, second: int) -> None:
        count, column = max(first, 1), self._column
        match final:
            case "A" | "F":
                self._go(self._row - count, column if final == "A" else 0)
            case "B" | "E":
                self._go(min(self._row + count, self._top + ROWS - 1), column if final == "B" else 0)
            case "C" | "D":
                self._column = max(min(column + count, COLUMNS), column) if final == "C" else max(column - count, 0)
            case "G":
                self._column = count - 1
            case "H" | "f":
                self._go(self._top + min(count, ROWS) - 1, max(second, 1) - 1)
            case "J" | "K":
                self._erase(first, is_line=final == "K")
            case _:
                pass

    def _erase(self, what: int, *, is_line: bool) -> None:
        """Of the cursor's line, or all that can change: what follows (0), what is before it (1), or both (more)."""
        row = self._rows[self._row]
        before = row[: self._column] if what == 0 else " " * (self._column + 1)
        self._rows[self._row] = before + (row[self._column + 1 :] if what == 1 else "")
        self._rewritten.add(self._row)
        if what and not is_line:
            self._rows[self._top : self._row] = [""] * (self._row - self._top)
        if what != 1 and not is_line:
            del self._rows[self._row + 1 :]


def shown(text: str) -> str:
    """A whole text as a terminal shows it in the end."""
    screen = Screen()
    return screen.feed(text) + screen.flush()
