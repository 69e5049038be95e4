"""LogEntry: one thing in the chat log, as the presenter sets it."""

from __future__ import annotations

from typing import Final

from vibe.cli.textual_ui.log.clean import COLUMNS, clean, clean_coloured

FOLDING: Final = frozenset({"call", "reasoning"})
"""Kinds with a heading under which the rest can be folded away."""
OPEN: Final = frozenset({"streaming", "writing", "queued", "running"})
"""Statuses of what goes on."""


class LogEntry:
    """Text with a kind; changed in place, after which the log is told with ``changed``.

    ``kind``: ``user`` (told to the agent), ``answer`` (Markdown), ``reasoning``, ``call`` (of a tool), ``note`` (a line
    of the host) or ``shell`` (output of the user's own command, with colours). ``status`` is ``streaming``, ``done`` or
    ``interrupted``; of a call ``writing``, ``queued``, ``running``, ``ok``, ``error``, ``denied`` or ``cancelled``;
    of a note ``note``, ``typed`` (a command), ``warning`` or ``error``. ``title`` is the heading of a call or a
    reasoning, ``detail`` what is said behind it, ``text`` all that a call printed. ``key`` is its name for the
    presenter. ``whole``: no line is left out in the middle of it.
    """

    __slots__ = (
        "_from",
        "_raw",
        "_text",
        "detail",
        "diff",
        "epoch",
        "exact",
        "folded",
        "height",
        "images",
        "index",
        "key",
        "kind",
        "message_index",
        "status",
        "title",
        "whole",
    )

    def __init__(  # noqa: PLR0913  a record, by keyword
        self,
        kind: str,
        text: str = "",
        *,
        title: str = "",
        detail: str = "",
        status: str = "done",
        diff: str = "",
        folded: bool | None = None,
        images: int = 0,
        key: str = "",
        message_index: int | None = None,
    ) -> None:
        self.kind = kind
        self.title = title
        self.detail = detail
        self.status = status
        self.diff = diff
        self.folded = kind in FOLDING if folded is None else folded
        self.images = images
        self.key = key
        self.message_index = message_index
        self.whole = False
        # Kept by the log: its place, its rows as far as they are known, and the number of the text it is a part of.
        self.index = -1
        self.height = 0
        self.exact = False
        self.epoch = 0
        self._text: str = ""
        self._raw: str = ""
        self._from: int = 0
        self.add_text(text)

    @property
    def text(self) -> str:
        """Its text, fit to show."""
        return self._text

    @property
    def folds(self) -> bool:
        """It has a heading to fold the rest under."""
        return self.kind in FOLDING

    @property
    def is_open(self) -> bool:
        """It goes on."""
        return self.status in OPEN

    @property
    def settled(self) -> int:
        """The length of the text that more of it will not change: its whole lines."""
        return self._from

    def set_text(self, text: str) -> None:
        """Have this text; one that only grew is shown as a stream is."""
        old, settled = self._text, self._from
        self._text, self._raw, self._from = "", "", 0
        self.add_text(text)
        if self._from < settled or self._text[:settled] != old[:settled]:
            self.epoch += 1

    def add_text(self, piece: str) -> None:
        """Have this behind its text. Escapes and rewritten lines may be cut anywhere by the pieces."""
        raw = self._raw + piece
        lines, newline, self._raw = raw.rpartition("\n")
        if newline:
            self._text = f"{self._text[: self._from]}{self._cleaned(lines)}\n"
            self._from = len(self._text)
        if len(self._raw) > 2 * COLUMNS:
            # More of so long a line is not shown; only what may rewrite it counts.
            self._raw = self._raw.rpartition("\r")[2][: 2 * COLUMNS]
        self._text = self._text[: self._from] + self._cleaned(self._raw)

    def _cleaned(self, text: str) -> str:
        return clean_coloured(text) if self.kind == "shell" else clean(text)

    def estimate(self, cols: int) -> int:
        """About how many rows it takes at that width."""
        if self.folds and self.folded:
            return 1
        size = len(self._text) + len(self.diff)
        return 2 + self._text.count("\n") + self.diff.count("\n") + size // max(1, cols)
