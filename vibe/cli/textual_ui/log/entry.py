"""LogEntry: one thing in the chat log, as the presenter sets it; text from outside made fit for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from vibe.front.cells import Line

COLUMNS: Final = 4000
"""Of a line; what is longer is cut, with a note."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Final = (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, *_DIRECTIONS, *range(0xD800, 0xE000))
_GONE: Final = dict.fromkeys(code for code in _CONTROLS if code not in {9, 10})
_GONE_BUT_COLOURS: Final = {code: None for code in _GONE if code != 27}


def clean(text: str, cols: int = COLUMNS) -> str:
    """Text without escapes, controls and direction marks; of a line that was rewritten (CR), its last state."""
    if not text.replace("\n", "").replace("\t", "").isprintable():  # seldom, and quickly told
        text = _ESCAPES.sub("", _rewritten(text)).translate(_GONE)
    if len(text) <= cols:
        return text
    return "\n".join(line if len(line) <= cols else _cut(line, cols) for line in text.split("\n"))


def clean_coloured(text: str, cols: int = COLUMNS) -> str:
    """The same, but escapes that only set colours and weights stay; a line that is too long loses them."""
    text = _ESCAPES.sub(_only_colour, _rewritten(text)).translate(_GONE_BUT_COLOURS)
    if len(text) <= cols:
        return text
    return "\n".join(line if len(line) <= cols else _cut(_COLOURS.sub("", line), cols) for line in text.split("\n"))


def clean_line(text: str, cols: int = COLUMNS) -> str:
    """The same as ``clean`` on one line."""
    return clean(" ".join(text.split()), cols)


def middle_cut(lines: list[str], most: int) -> tuple[list[str], int, list[str]]:
    """The first and the last of so many lines, and the number of those between them that are left out."""
    if len(lines) <= most:
        return lines, 0, []
    head = most // 2
    tail = most - head
    return lines[:head], len(lines) - most, lines[len(lines) - tail :]


def _rewritten(text: str) -> str:
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _only_colour(match: re.Match[str]) -> str:
    escape = match.group()
    return escape if _COLOURS.fullmatch(escape) else ""


def _cut(line: str, cols: int) -> str:
    return line if len(line) <= cols else f"{line[:cols]} …(+{len(line) - cols})"


FOLDING: Final = frozenset({"call", "reasoning"})
"""Kinds with a heading under which the rest can be folded away."""
OPEN: Final = frozenset({"streaming", "writing", "queued", "running"})
"""Statuses of what goes on."""


class LogEntry(Struct, eq=False):
    """Text with a kind; changed in place, after which the log is told with ``changed``.

    ``kind``: ``user`` (told to the agent), ``answer`` (Markdown), ``reasoning``, ``call`` (of a tool), ``note`` (a line
    of the host), ``turn`` (the sum of one, in a row), ``shell`` (output of the user's own command, with colours) or
    ``drawn`` (lines that ``draw`` returns for so many cells). ``status`` is ``streaming``, ``done`` or
    ``interrupted``; of a call ``writing``, ``queued``, ``running``, ``ok``, ``error``, ``denied`` or ``cancelled``;
    of a note ``note``, ``typed`` (a command), ``warning`` or ``error``. ``title`` is the heading of a call or a
    reasoning, ``detail`` what is said behind it, ``text`` all that a call printed; it is fit to show; a drawn one with
    a title draws less while it is folded. ``key`` is its name for the presenter. ``whole``: no line is left out in the
    middle of it. ``keys`` are what some keys do while it is marked, or is the last.
    """

    kind: str
    text: str = ""
    title: str = ""
    detail: str = ""
    status: str = "done"
    diff: str = ""
    folded: bool = True
    images: int = 0
    key: str = ""
    message_index: int | None = None
    whole: bool = False
    draw: Callable[[int], Sequence[Line]] | None = None
    keys: Mapping[str, Callable[[], object]] = {}
    # Kept by the log: its place, its rows as far as they are known, and the number of the text it is a part of.
    index: int = -1
    height: int = 0
    exact: bool = False
    epoch: int = 0
    settled: int = 0
    """The length of the text that more of it will not change: its whole lines."""
    rest: str = ""
    """The line that is not whole, as it came."""

    def __post_init__(self) -> None:
        text, self.text = self.text, ""
        self.add_text(text)

    @property
    def folds(self) -> bool:
        """It has a heading to fold the rest under."""
        return self.kind in FOLDING or (self.kind == "drawn" and bool(self.title))

    @property
    def is_open(self) -> bool:
        """It goes on."""
        return self.status in OPEN

    def set_text(self, text: str) -> None:
        """Have this text; one that only grew is shown as a stream is."""
        old, settled = self.text, self.settled
        self.text, self.rest, self.settled = "", "", 0
        self.add_text(text)
        if self.settled < settled or self.text[:settled] != old[:settled]:
            self.epoch += 1

    def add_text(self, piece: str) -> None:
        """Have this behind its text. Escapes and rewritten lines may be cut anywhere by the pieces."""
        lines, newline, self.rest = (self.rest + piece).rpartition("\n")
        if newline:
            self.text = f"{self.text[: self.settled]}{self._cleaned(lines)}\n"
            self.settled = len(self.text)
        if len(self.rest) > 2 * COLUMNS:
            # More of so long a line is not shown; only what may rewrite it counts.
            self.rest = self.rest.rpartition("\r")[2][: 2 * COLUMNS]
        self.text = self.text[: self.settled] + self._cleaned(self.rest)

    def _cleaned(self, text: str) -> str:
        return clean_coloured(text) if self.kind == "shell" else clean(text)

    def estimate(self, cols: int) -> int:
        """About how many rows it takes at that width."""
        if self.folds and self.folded:
            return 1
        size = len(self.text) + len(self.diff)
        return 2 + self.text.count("\n") + self.diff.count("\n") + size // max(1, cols)
