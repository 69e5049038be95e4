"""Painter: makes the rows of log entries by their kind, including diffs and Markdown that is still streaming."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import PurePath
from typing import Final, TypeAlias

from msgspec import Struct, field
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from vibe.cli.textual_ui.log.entry import LogEntry, clean, clean_line, last_with_words, middle_cut
from vibe.cli.textual_ui.log.markdown_blocks import blocks_of, highlighted, inline_content, top_blocks
from vibe.cli.textual_ui.log.rows import GUTTER, LOOKS, LogBlock, Row, drawn, drawn_row, lay_out, styled
from vibe.core.told_files import split_files
from vibe.front.cells import Line, Piece, text_of
from vibe.front.diff_lines import SIGNS, DiffLine, diff_lines
from vibe.front.event_text import CALL_MARKS
from vibe.system.plain_text import counted

_MARGIN: Final = " " * 6
_MOST_HIGHLIGHTED: Final = 20_000
"""The most characters of a change that are highlighted; more would take too long."""


def diff_blocks(diff: str) -> Iterator[LogBlock]:
    """Yield the lines of a diff of one or more files; text that is not a diff is yielded as it is.

    Each file's name precedes its lines. A single file that existed before goes without, as the call names it.
    """
    lines = list(diff_lines(clean(diff)))
    names = [line.text for line in lines if line.sign == "@"]
    name_is_known = len(names) == 1 and not names[0].endswith(")")
    language = ""
    for is_code, group in groupby(lines, key=lambda line: line.sign in SIGNS):
        if is_code:
            yield from _highlighted(list(group), language)
            continue
        for line in group:
            if line.sign == "@":
                language = PurePath(line.text.partition(" (")[0]).suffix[1:]
            if line.sign != "@" or not name_is_known:
                yield LogBlock(styled(line.text, "bold" if line.sign else "$foreground-muted"), _MARGIN, _MARGIN)


def _highlighted(lines: Sequence[DiffLine], language: str) -> Iterator[LogBlock]:
    """Yield adjacent lines, highlighted in their language if they have at most ``_MOST_HIGHLIGHTED`` characters."""
    code = "\n".join(line.text for line in lines)
    is_coloured = language and code.strip() and len(code) <= _MOST_HIGHLIGHTED
    shown = (highlighted(code, language) if is_coloured else Content(code)).split("\n", allow_blank=True)
    for line, text in zip(lines, shown, strict=True):
        background, colour = SIGNS[line.sign]
        look = background and f"chat-log--{background}"
        yield LogBlock(drawn([(f"{line.sign} ", colour)]) + text, line.number, _MARGIN, look, flush=bool(look))


LayOut: TypeAlias = Callable[[Iterable[LogBlock]], list[Row]]

_BLANK: Final = LogBlock(Content(""))
_PARAGRAPH: Final = re.compile(r"[*_`\"'(\[\u201c]{0,2}[^\W\d_][^\t\n]*")
"""A line that is a paragraph, whatever follows in it, and has no tabs, whose width depends on what is before them."""


class GrowingLine(Struct):
    """Lays out a paragraph's only line while it grows, parsing and wrapping no more than its last rows.

    ``finished`` are the rows that stay, those before the paragraph included. The beginning of the line that was
    ``read`` is in them or is the ``content`` of the next row, and ``glue`` is what wrapping removed before that one.
    """

    lay_out: LayOut
    finished: list[Row]
    read: str = ""
    content: Content = Content("")
    glue: str | None = None

    def rows(self, line: str) -> list[Row]:
        """Return the rows of the line as it is now, and those before it."""
        more = line[len(self.read) : line.rfind(" ") + 1].rstrip()
        content, is_final = inline_content(more)
        if is_final:
            self.read, self.content = self.read + more, self.content + content
        rest, _ = inline_content(line[len(self.read) :].rstrip())
        rows = self.lay_out([LogBlock(self.content + rest)])
        rows[0].glue = self.glue
        while len(rows) > 1 and (glue := rows[1].glue) and len(rows[0].text + glue) - GUTTER < len(self.content):
            first = rows.pop(0)
            self.finished.append(first)
            self.content, self.glue = self.content[len(first.text + glue) - GUTTER :], glue
        return [*self.finished, *rows]


class AnswerRows(Struct, eq=False):
    """Lays out one Markdown answer at a fixed width, reusing finished rows while the text is still streaming.

    A top-level block is finished once an empty line or complete lines of another one follow it. Finished blocks are the
    text that is ``done``, and the ``_kept`` rows; the next characters up to ``_seen`` have been searched for them.
    ``_parts`` holds the rows of the unfinished block's parts, which are reused for parts that did not change.
    """

    _lay_out: LayOut
    cols: int
    done: str = ""
    _seen: int = 0
    _kept: list[Row] = field(default_factory=list[Row])
    _parts: dict[object, list[Row]] = field(default_factory=dict[object, list[Row]])
    _line: GrowingLine | None = None

    def rows(self, text: str, *, ended: bool) -> list[Row]:
        """Return the rows of a text that is still streaming or has ``ended``, and begins with what is ``done``."""
        if ended and text and not text.endswith("\n"):
            text += "\n"
        whole = text.rfind("\n") + 1
        if not ended and whole > self._seen:
            self._seen = whole
            self._finish_blocks(text[:whole])
        if not text[whole:].strip("`~"):  # what may become a closing fence is not shown as code
            text = text[:whole]
        rest = text[len(self.done) :]
        if _PARAGRAPH.fullmatch(rest):
            if self._line is None or not rest.startswith(self._line.read):
                self._line = GrowingLine(self._lay_out, self._kept + self._lay_out([_BLANK] if self._kept else []))
            return self._line.rows(rest)
        before, self._parts = self._parts, {}
        for block in self._after_kept(blocks_of(rest, self.cols, is_open=not ended)):
            key = (len(self._parts), block.content.plain, tuple(block.content.spans), block[1:])
            self._parts[key] = before.get(key) or self._lay_out([block])
        return [*self._kept, *chain.from_iterable(self._parts.values())]

    def _finish_blocks(self, text: str) -> None:
        """Move the rows of blocks that more text can't change to ``_kept``."""
        self._line = None
        rest = text[len(self.done) :]
        tops, lines = list(top_blocks(rest)), rest.split("\n")
        if tops and (tops[-1].tokens[0].type != "paragraph_open" or tops[-1].end == len(lines) - 1):
            lines = lines[: tops.pop().start + 1]  # no empty line has ended it
        for top in tops:
            self._kept += self._lay_out(self._after_kept(top.blocks(self.cols)))
        self.done += "".join(f"{line}\n" for line in lines[:-1])

    def _after_kept(self, blocks: Iterable[LogBlock]) -> list[LogBlock]:
        """Return the blocks, preceded by an empty one if rows are kept already."""
        new = list(blocks)
        return [_BLANK, *new] if new and self._kept else new


USER: Final = "chat-log--user"
MOST_PROMPT_LINES: Final = 40
"""The most lines shown of a prompt; the same key as for a tool's output shows the others."""
MOST_LINES: Final = 200
"""The most lines shown of a tool's output; a key shows those left out between the first and the last ones."""
ALL_LINES: Final = 4000
"""The most lines of output shown, even after the user asks for all of it."""
LEAST_TITLE: Final = 24
"""The cells that a call's title keeps beside right-aligned facts; if there is less room, they follow the title."""
_BESIDE: Final = "│ "

WHOLE: Final = "whole"
"""The meta key in the style of text that a click replaces by the lines left out."""
_NOTES: Final = {"typed": (">", "$foreground-muted"), "warning": ("!", "$text-warning"), "error": ("✗", "$text-error")}


class Painter:
    """Makes rows in the style of a widget, and keeps the finished rows of streaming answers."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._answers: dict[LogEntry, AnswerRows] = {}
        self._drawn: dict[LogEntry, dict[tuple[int, tuple[Piece, ...]], Row]] = {}

    def rows(self, entry: LogEntry, cols: int) -> list[Row]:
        """Return all rows of an entry at a width."""
        if entry.draw is not None:
            return self._draw(entry, entry.draw(cols - 1), cols)
        if entry.kind == "call":
            return lay_out(self._widget, _call(entry, cols), cols)
        if entry.kind == "turn":
            line = styled(clean_line(entry.text), "$foreground-muted").truncate(cols - GUTTER - 1, ellipsis=True)
            return lay_out(self._widget, [LogBlock(line)], cols)
        kind = _KINDS.get(entry.kind)
        return self._answer(entry, cols) if kind is None else lay_out(self._widget, kind(entry), cols)

    def forget(self) -> None:
        """Drop what is kept of all entries."""
        self._answers.clear()
        self._drawn.clear()

    def _draw(self, entry: LogEntry, lines: Sequence[Line], cols: int) -> list[Row]:
        """Return the rows of drawn lines, reusing those of lines that did not change."""
        known = self._drawn.get(entry, {})
        rows: dict[tuple[int, tuple[Piece, ...]], Row] = {}
        for number, line in enumerate(lines):
            key = (number, tuple(line))
            rows[key] = known.get(key) or drawn_row(self._widget, line, cols)
        self._drawn[entry] = rows
        entry.text = "\n".join(map(text_of, lines))
        return list(rows.values())

    def _answer(self, entry: LogEntry, cols: int) -> list[Row]:
        answer = self._answers.pop(entry, None)
        if answer is None or answer.cols != cols - GUTTER or not entry.text.startswith(answer.done):
            answer = AnswerRows(partial(lay_out, self._widget, cols=cols), cols - GUTTER)
        rows = answer.rows(entry.text, ended=not entry.is_open)
        if entry.is_open:
            self._answers[entry] = answer
        elif entry.status == "interrupted":
            rows += lay_out(self._widget, [LogBlock(styled("(stopped)", "$text-warning"))], cols)
        return rows


def _prompt(entry: LogEntry) -> Iterator[LogBlock]:
    prompt, files = (entry.text, ()) if entry.whole else split_files(entry.text)
    head, hidden, tail = middle_cut(prompt.rstrip("\n").split("\n"), ALL_LINES if entry.whole else MOST_PROMPT_LINES)
    yield LogBlock(Content("\n".join(head)), look=USER, mark=styled(">", "bold $text-primary"), flush=True)
    if hidden:
        yield LogBlock(_hidden(hidden, entry), look=USER, flush=True)
        yield LogBlock(Content("\n".join(tail)), look=USER, flush=True)
    for name, text in files:
        size = counted(len(text.splitlines()), "line")
        yield LogBlock(styled(f"[{name}: {size}]", "$foreground-muted"), look=USER, flush=True)
    if entry.detail:
        yield LogBlock(styled(entry.detail, "$foreground-muted"), look=USER, flush=True)
    if entry.images:
        yield LogBlock(styled(f"[{counted(entry.images, 'image')}]", "$foreground-muted"), look=USER, flush=True)


def _note(entry: LogEntry) -> Iterator[LogBlock]:
    sign, style = _NOTES.get(entry.status, ("·", "$foreground-muted"))
    yield LogBlock(styled(entry.text.rstrip("\n"), style), mark=styled(sign, style))


def _reasoning(entry: LogEntry) -> Iterator[LogBlock]:
    title = clean_line(entry.title) or ("thinking" if entry.is_open else "thought")
    yield LogBlock(Content.styled(title, "italic $foreground-muted"))
    if not entry.folded:
        yield LogBlock(styled(entry.text.rstrip("\n"), "italic $foreground-muted"))


def _call(entry: LogEntry, cols: int) -> Iterator[LogBlock]:
    sign, style = CALL_MARKS.get(entry.status, ("·", "muted"))
    name, blank, rest = (clean_line(entry.title) or "call").partition(" ")
    title = Content.assemble((name, "bold"), blank, rest)
    if entry.images:
        title += styled(f"  [images: {entry.images}]", "$foreground-muted")
    failed = entry.status in {"error", "failed"}
    facts = styled(clean_line(entry.detail), "$text-error" if failed else "$foreground-muted")
    yield LogBlock(_spread(title, facts, cols - GUTTER - 1, whole=not entry.folded), mark=styled(sign, LOOKS[style]))
    if entry.folded:
        if failed or entry.status == "running":
            yield from _last_lines(entry, cols, counts=failed)
        return
    if entry.diff:
        yield from diff_blocks(entry.diff)
    if entry.text.strip() and (not entry.diff or entry.status != "ok"):
        for part in _parts(entry):
            yield from _lines(part) if isinstance(part, list) else [part]


def _last_lines(entry: LogEntry, cols: int, *, counts: bool) -> Iterator[LogBlock]:
    """Yield the last lines of a call's output; if ``counts``, say on the last one how many more there are."""
    lines = entry.text.rstrip("\n").split("\n")
    shown = last_with_words(lines)
    if not counts or len(shown) == len(lines):
        yield from _lines(shown)
        return
    yield from _lines(shown[:-1])
    hint = styled(f"{counted(len(lines) - len(shown), 'more line')} · Enter", "$foreground-muted")
    last = styled(shown[-1], "$foreground-muted")
    yield LogBlock(_spread(last, hint, cols - GUTTER - len(_BESIDE) - 1), _BESIDE, _BESIDE)


def _spread(left: Content, facts: Content, cells: int, *, whole: bool = False) -> Content:
    """Return a line with facts at its right edge; the left part is cut to make room, unless it is to stay ``whole``."""
    if not facts:
        return left if whole else left.truncate(cells, ellipsis=True)
    room = cells - facts.cell_length - 2
    if left.cell_length > room:
        if whole or room < LEAST_TITLE:
            return left + styled("  ", "") + facts
        left = left.truncate(room, ellipsis=True)
    return left.pad_right(cells - left.cell_length - facts.cell_length) + facts


def _shell(entry: LogEntry) -> Iterator[LogBlock]:
    from rich.text import Text  # noqa: PLC0415  only for what a person runs

    mark = styled("!", "$foreground-muted")
    if entry.title:
        yield LogBlock(styled(clean_line(entry.title), "bold"), mark=mark)
    for part in _parts(entry):
        if isinstance(part, LogBlock):
            yield part
        elif any(part):
            yield LogBlock(Content.from_rich_text(Text.from_ansi("\n".join(part))))
    if detail := clean_line(entry.detail):
        yield LogBlock(styled(detail, "$text-error"))


def _lines(lines: list[str]) -> Iterator[LogBlock]:
    if any(lines):
        yield LogBlock(styled("\n".join(lines), "$foreground-muted"), _BESIDE, _BESIDE)


def _parts(entry: LogEntry) -> list[list[str] | LogBlock]:
    """Return the lines of a call's output; if there are too many, the first ones, a block for the rest, the last."""
    lines = entry.text.rstrip("\n").split("\n")
    head, hidden, tail = middle_cut(lines, ALL_LINES if entry.whole else MOST_LINES)
    return [head, LogBlock(_hidden(hidden, entry)), tail] if hidden else [head]


def _hidden(count: int, entry: LogEntry) -> Content:
    """Return the line in place of those left out; a click on it shows them."""
    text = f"… {count} more lines" + ("" if entry.whole else ": click, or Alt+M in the chat")
    return styled(text, "italic $foreground-muted").stylize(Style.from_meta({WHOLE: True}))


_KINDS: Final = {"user": _prompt, "reasoning": _reasoning, "note": _note, "shell": _shell}
