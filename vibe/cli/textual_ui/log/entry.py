"""LogEntry: one thing in the chat log, as the presenter sets it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from vibe.cli.textual_ui.log.clean import COLUMNS, clean, clean_coloured

FOLDING: Final = frozenset({"call", "reasoning"})
"""Kinds with a heading under which the rest can be folded away."""
OPEN: Final = frozenset({"streaming", "writing", "queued", "running"})
"""Statuses of what goes on."""


class LogEntry(Struct, eq=False):
    """Text with a kind; changed in place, after which the log is told with ``changed``.

    ``kind``: ``user`` (told to the agent), ``answer`` (Markdown), ``reasoning``, ``call`` (of a tool), ``note`` (a line
    of the host) or ``shell`` (output of the user's own command, with colours). ``status`` is ``streaming``, ``done`` or
    ``interrupted``; of a call ``writing``, ``queued``, ``running``, ``ok``, ``error``, ``denied`` or ``cancelled``;
    of a note ``note``, ``typed`` (a command), ``warning`` or ``error``. ``title`` is the heading of a call or a
    reasoning, ``detail`` what is said behind it, ``text`` all that a call printed; it is fit to show. ``key`` is its
    name for the presenter. ``whole``: no line is left out in the middle of it.
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
        return self.kind in FOLDING

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
