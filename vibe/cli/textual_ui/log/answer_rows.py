"""AnswerRows: the rows of Markdown that still comes; what is finished is never read again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from textual.content import Content

from vibe.cli.textual_ui.log.blocks import LogBlock
from vibe.cli.textual_ui.log.markdown_blocks import CODE, PIECE, MarkdownBlocks, TopBlock
from vibe.cli.textual_ui.log.rows import Row

LayOut: TypeAlias = Callable[[Iterable[LogBlock]], list[Row]]

_FENCE: Final = re.compile(r"`{3,}|~{3,}")
"""That of a listing in a list, or set in, is read anew each time."""
_BLANK: Final = LogBlock(Content(""))


class AnswerRows:
    """Of one text at one width.

    A block at the top is finished once another one stands behind it in whole lines. ``_done`` characters are of such
    blocks, and ``_kept`` rows; lines up to ``_seen`` were looked through for them. Of a listing that is open at the
    end, only new lines are read.
    """

    def __init__(self, markdown: MarkdownBlocks, lay_out: LayOut, cols: int, epoch: int) -> None:
        self._markdown, self._lay_out = markdown, lay_out
        self.cols, self.epoch = cols, epoch
        self._done = self._seen = 0
        self._kept: list[Row] = []
        self._listing: _Listing | None = None

    def streamed(self, text: str) -> list[Row]:
        """The rows of a text that goes on."""
        whole = text.rfind("\n") + 1
        if whole > self._seen:
            self._seen = whole
            self._look_through(text[:whole])
        if self._listing is not None:
            return [*self._kept, *self._listing.open_rows(text[whole:])]
        return [*self._kept, *self._tail(text)]

    def finished(self, text: str) -> list[Row]:
        """The rows of the text that is all."""
        if text and not text.endswith("\n"):
            text += "\n"
        if not self._seen:
            return self._tail(text)
        if len(text) > self._seen:
            self._seen = len(text)
            self._look_through(text)
        if self._listing is not None:
            return [*self._kept, *self._listing.closed_rows()]
        return [*self._kept, *self._tail(text)]

    def _tail(self, text: str) -> list[Row]:
        rows = self._lay_out(self._markdown.blocks(text[self._done :], self.cols))
        return [*self._gap(), *rows] if rows else rows

    def _gap(self) -> list[Row]:
        return self._lay_out([_BLANK]) if self._kept else []

    def _look_through(self, text: str) -> None:
        """Keep the rows of what more text does not change."""
        if self._listing is not None:
            end = self._listing.take(text)
            if end is None:
                return
            self._kept += self._listing.closed_rows()
            self._listing, self._done = None, end
        self._finish_blocks(text)

    def _finish_blocks(self, text: str) -> None:
        tops = self._markdown.top_blocks(text[self._done :])
        if not tops:
            return
        *finished, last = tops
        for top in finished:
            rows = self._lay_out(self._markdown.of_top(top, self.cols))
            self._kept += [*self._gap(), *rows] if rows else []
        lines = text[self._done :].split("\n")
        self._done += sum(len(line) + 1 for line in lines[: last.start])
        self._open_listing(text, last, lines[last.start])

    def _open_listing(self, text: str, last: TopBlock, head: str) -> None:
        opening = _FENCE.match(head)
        if last.fence is None or opening is None:
            return
        language = last.fence.info.strip().partition(" ")[0].lower()

        def rows(code: str) -> list[Row]:
            return self._lay_out([LogBlock(self._markdown.listing(code, language), look=CODE)])

        self._listing = _Listing(rows, opening, self._done + len(head) + 1, self._gap())
        self._look_through(text)


class _Listing:
    """Code whose end has not come: its lines are coloured as they come, and once more when a piece of them is whole."""

    def __init__(self, rows: Callable[[str], list[Row]], opening: re.Match[str], start: int, gap: list[Row]) -> None:
        self._rows = rows
        self._fence = opening[0]
        self._end = re.compile(rf" {{0,3}}{re.escape(self._fence[0])}{{{len(self._fence)},}}[ \t]*")
        self._at = start
        self._gap = gap
        self._pieces: list[Row] = []
        self._lines: list[str] = []
        self._open: list[Row] = []

    def take(self, text: str) -> int | None:
        """Take in the whole lines that came; returns the place behind the code if it has ended."""
        new: list[str] = []
        end: int | None = None
        for line in text[self._at :].split("\n")[:-1]:
            self._at += len(line) + 1
            if self._end.fullmatch(line):
                end = self._at
                break
            new.append(line)
        self._colour(new)
        return end

    def open_rows(self, last: str) -> list[Row]:
        """The rows of all there is so far; ``last`` is the line that is not whole."""
        may_end = last.strip() and not last.strip().strip(self._fence[0])
        rows = self._rows(last) if last and not may_end else []
        return [*self._gap, *(self._pieces + self._open + rows or self._rows(""))]

    def closed_rows(self) -> list[Row]:
        """The rows of the whole of it, as if it had been read at once."""
        rows = self._rows("\n".join(self._lines)) if self._lines else []
        return [*self._gap, *(self._pieces + rows or self._rows(""))]

    def _colour(self, new: list[str]) -> None:
        self._lines += new
        whole = len(self._lines) - len(self._lines) % PIECE
        if whole:
            for start in range(0, whole, PIECE):
                self._pieces += self._rows("\n".join(self._lines[start : start + PIECE]))
            self._lines = self._lines[whole:]
            self._open = self._rows("\n".join(self._lines)) if self._lines else []
        elif new:
            self._open += self._rows("\n".join(new))
