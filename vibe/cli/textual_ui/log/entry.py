"""LogEntry: one entry of the chat log, and functions that clean text from outside for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from vibe.front.cells import Line

COLUMNS: Final = 4000
"""The most characters shown of a line; a longer one is cut, with a note of how many are missing."""
FOLDED_LINES: Final = 3
"""The most lines shown of the output of a folded call that is running or has failed."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Final = (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, *_DIRECTIONS, *range(0xD800, 0xE000))
_REMOVED: Final = dict.fromkeys(code for code in _CONTROLS if code not in {9, 10})
_REMOVED_BUT_ESCAPE: Final = {code: None for code in _REMOVED if code != 27}


def clean(text: str, cols: int = COLUMNS) -> str:
    """Remove escapes, control characters and direction marks; keep the last state of a line rewritten after CR."""
    if not text.replace("\n", "").replace("\t", "").isprintable():  # a cheap check that seldom holds
        text = _ESCAPES.sub("", _last_states(text)).translate(_REMOVED)
    return text if len(text) <= cols else "\n".join(_cut(line, cols) for line in text.split("\n"))


def last_with_words(lines: list[str]) -> list[str]:
    """Return the last few lines that are more than blanks and rules, in order; if all are no more, the last ones."""
    telling = (line for line in reversed(lines) if any(map(str.isalnum, clean(line))))
    return [*islice(telling, FOLDED_LINES)][::-1] or lines[-FOLDED_LINES:]


def clean_coloured(text: str, cols: int = COLUMNS) -> str:
    """Clean text as ``clean`` does, but keep escapes that only set colours and weights, except in lines too long."""
    text = _ESCAPES.sub(_only_colour, _last_states(text)).translate(_REMOVED_BUT_ESCAPE)
    if len(text) <= cols:
        return text
    return "\n".join(line if len(line) <= cols else _cut(_COLOURS.sub("", line), cols) for line in text.split("\n"))


def clean_line(text: str, cols: int = COLUMNS) -> str:
    """Clean text as ``clean`` does, and join it into one line."""
    return clean(" ".join(text.split()), cols)


def middle_cut(lines: list[str], most: int) -> tuple[list[str], int, list[str]]:
    """Cut lines in the middle to at most ``most``: return the first ones, how many are left out, and the last ones."""
    if len(lines) <= most:
        return lines, 0, []
    head = most // 2
    return lines[:head], len(lines) - most, lines[head - most :]


def _last_states(text: str) -> str:
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _only_colour(match: re.Match[str]) -> str:
    escape = match.group()
    return escape if _COLOURS.fullmatch(escape) else ""


def _cut(line: str, cols: int) -> str:
    return line if len(line) <= cols else f"{line[:cols]} …(+{len(line) - cols})"


FOLDING: Final = frozenset({"call", "reasoning"})
"""Kinds of entries that have a heading under which the rest can be folded."""
OPEN: Final = frozenset({"streaming", "writing", "queued", "running"})
"""Statuses of entries that are still going on."""


class LogEntry(Struct, eq=False):
    """One entry of the log; it is changed in place, after which ``ChatLog.changed`` must be called.

    ``kind`` is ``user`` (told to the agent), ``answer`` (Markdown), ``reasoning``, ``call`` (of a tool), ``note`` (a
    line of the host), ``turn`` (the totals of a turn, in one row), ``shell`` (output of the user's own command, with
    colours) or ``drawn`` (lines that ``draw`` returns for a width in cells).

    ``status`` is ``streaming``, ``done`` or ``interrupted``. A call's is ``writing``, ``queued``, ``running``, ``ok``,
    ``error``, ``denied`` or ``cancelled``. A note's is ``note``, ``typed`` (a command), ``warning`` or ``error``.

    Of an answer or reasoning that ``attempt`` streams, the presenter has passed on ``streamed`` characters.

    ``title`` is the heading of a call or of reasoning, and ``detail`` follows it. A drawn entry with a title draws less
    while it is folded. ``text`` is cleaned; a call's is all that it printed. ``key`` identifies the entry to the
    presenter. ``whole`` shows all lines, also those in the middle that are left out otherwise. ``keys`` maps keys to
    what they do while the entry is marked, or is the last one and none is marked.
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
    attempt: int = 0
    streamed: int = 0
    whole: bool = False
    draw: Callable[[int], Sequence[Line]] | None = None
    keys: Mapping[str, Callable[[], object]] = {}
    # The log keeps these: the entry's index, its height and whether that is exact.
    index: int = -1
    height: int = 0
    exact: bool = False
    settled: int = 0
    """The length of the part of the text that more text won't change: its complete lines."""
    rest: str = ""
    """The last, incomplete line as it was received."""

    def __post_init__(self) -> None:
        text, self.text = self.text, ""
        self.add_text(text)

    @property
    def folds(self) -> bool:
        """True if it has a heading under which the rest can be folded."""
        return self.kind in FOLDING or (self.kind == "drawn" and bool(self.title))

    @property
    def is_open(self) -> bool:
        """True while it is still going on."""
        return self.status in OPEN

    def set_text(self, text: str) -> None:
        """Replace the text."""
        self.text, self.rest, self.settled = "", "", 0
        self.add_text(text)

    def add_text(self, piece: str) -> None:
        """Append a piece of text; escapes and rewritten lines may be split between pieces."""
        lines, newline, self.rest = (self.rest + piece).rpartition("\n")
        if newline:
            self.text = f"{self.text[: self.settled]}{self._cleaned(lines)}\n"
            self.settled = len(self.text)
        if len(self.rest) > 2 * COLUMNS:
            # No more of so long a line is shown; only a CR that rewrites it matters.
            self.rest = self.rest.rpartition("\r")[2][: 2 * COLUMNS]
        self.text = self.text[: self.settled] + self._cleaned(self.rest)

    def _cleaned(self, text: str) -> str:
        return clean_coloured(text) if self.kind == "shell" else clean(text)

    def estimate(self, cols: int) -> int:
        """Estimate how many rows it takes at a width."""
        if self.folds and self.folded:
            return 1
        size = len(self.text) + len(self.diff)
        return 2 + self.text.count("\n") + self.diff.count("\n") + size // max(1, cols)
