"""OptionChooser: numbered options with a cursor, one or several of them picked, and the lines that show them."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.choice_text import Choosing
from vibe.cli.textual_ui.panels.line_view import Line

OTHER: Final = "other: in your own words"
TYPED: Final = "type an answer"


class OptionChooser:
    """The options of one question while a person chooses."""

    def __init__(self, choosing: Choosing) -> None:
        self.choosing = choosing
        self.cursor = len(choosing.options) if choosing.typed else choosing.default[0] if choosing.default else 0
        self.picked = set(choosing.default) if choosing.several else set[int]()

    @property
    def count(self) -> int:
        """The number of rows to choose from; the last may stand for the person's own words."""
        return len(self.choosing.options) + self.choosing.own_words

    @property
    def is_on_other(self) -> bool:
        """The cursor is on the person's own words."""
        return self.cursor == len(self.choosing.options)

    @property
    def key(self) -> str:
        """The key of the lines under the cursor."""
        return f"option {self.cursor}"

    def point(self, key: str) -> bool:
        """Put the cursor on the option of a line; False: the line is none."""
        name, _, number = key.partition(" ")
        if name != "option":
            return False
        self.cursor = int(number)
        return True

    def move(self, step: int) -> bool:
        """Move the cursor; False: it is at the end."""
        moved = min(max(self.cursor + step, 0), self.count - 1)
        has_moved, self.cursor = moved != self.cursor, moved
        return has_moved

    def go_to(self, digit: str) -> bool:
        """Put the cursor on the option of a number; False: there is none."""
        number = int(digit) if digit.isascii() and digit.isdecimal() else 0
        if self.choosing.typed or not 1 <= number <= self.count:
            return False
        self.cursor = number - 1
        return True

    def toggle(self) -> None:
        """Pick the option under the cursor, or take it back."""
        self.picked ^= {self.cursor}

    def lines(self) -> list[Line]:
        """Return a line for each option."""
        lines: list[Line] = []
        for position, option in enumerate(self.choosing.options):
            about = f": {visible(option.description)}" if option.description else ""
            mark = "*" if position in self.choosing.default and not self.choosing.several else ""
            lines.append(self._line(position, f"{visible(option.label)}{mark}", about))
        if self.choosing.own_words:
            lines.append(self._line(len(self.choosing.options), TYPED if self.choosing.typed else OTHER, ""))
        return lines

    def _line(self, position: int, label: str, about: str) -> Line:
        is_here = position == self.cursor
        is_option = position < len(self.choosing.options)
        box = ("[x] " if position in self.picked else "[ ] ") if self.choosing.several and is_option else ""
        text = Content.assemble(
            (f"{'▸' if is_here else ' '} {' ' if self.choosing.typed else position + 1} ", "bold $text-accent"),
            box,
            (label, "bold $text-accent" if is_here else "bold"),
            (about, "$foreground-muted"),
        )
        return Line(text=text, indent=4, key=f"option {position}")
