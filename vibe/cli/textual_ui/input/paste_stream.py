"""PasteStream: tells in what a terminal sends pastes from keys, so that no parser of keys reads through a paste."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

BEGIN: Final = "\x1b[200~"
END: Final = "\x1b[201~"
TYPED_AT_ONCE: Final = 32
"""The most characters of one read that can be a person's keys, after a paste whose end did not come."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """A paste, as one piece."""

    text: str = field(repr=False)


class _Within(Enum):
    KEYS = auto()
    PASTE = auto()
    LOST_PASTE = auto()
    """A paste was given up; the rest of it may come late, and so may keys."""


class PasteStream:
    """Takes text as it is read, cut anywhere, and yields keys (a string) and pastes.

    What could be the beginning of a mark is held back until more comes, or until ``release``; a paste until its end
    comes, or until ``give_up``.
    """

    def __init__(self) -> None:
        self._within = _Within.KEYS
        self._held = ""
        """The end of the last text: it may be the beginning of a mark."""
        self._pieces: list[str] = []

    @property
    def is_holding(self) -> bool:
        """True while keys are held back."""
        return self._within is not _Within.PASTE and bool(self._held)

    @property
    def is_pasting(self) -> bool:
        """True while the end of a paste is awaited."""
        return self._within is _Within.PASTE

    def feed(self, text: str) -> Iterator[str | Pasted]:
        """Take what was read, and yield what is complete."""
        rest, self._held = self._held + text, ""
        while rest:
            match self._within:
                case _Within.KEYS:
                    keys, mark, rest = self._split(rest, BEGIN)
                    if keys:
                        yield keys
                    if mark:
                        self._within = _Within.PASTE
                case _Within.PASTE:
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    if mark:
                        yield self._taken(_Within.KEYS)
                case _Within.LOST_PASTE:
                    if END not in rest and (len(rest) <= TYPED_AT_ONCE or rest.startswith("\x1b")):
                        self._within = _Within.KEYS
                        continue
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    yield self._taken(_Within.KEYS if mark else _Within.LOST_PASTE)

    def release(self) -> Iterator[str]:
        """Yield the keys that were held back: they are no mark, as nothing followed."""
        if self.is_holding:
            held, self._held = self._held, ""
            yield held

    def give_up(self) -> Iterator[Pasted]:
        """Yield a paste as far as it came: its end does not come, and what is typed now are keys again."""
        if self.is_pasting:
            yield self._taken(_Within.LOST_PASTE)

    def _split(self, text: str, mark: str) -> tuple[str, str, str]:
        """Part a text at a mark; without one, hold back what may be its beginning."""
        before, found, behind = text.partition(mark)
        if found:
            return before, found, behind
        size = next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size], "", ""

    def _taken(self, within: _Within) -> Pasted:
        self._within = within
        text = "".join(self._pieces)
        self._pieces.clear()
        if within is _Within.LOST_PASTE:
            text, self._held = text + self._held, ""
        return Pasted(text)
