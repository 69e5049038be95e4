"""Lays out blocks of text as rows of the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct
from rich._wrap import divide_line
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from vibe.cli.textual_ui.refresher import app_of
from vibe.front.cells import Line
from vibe.system.plain_text import plain_line


class LogBlock(NamedTuple):
    """Lines of text with a prefix: ``first`` before the first row and ``rest``, equally wide, before the others.

    ``look`` names the component class of the log whose background fills the rows, including the gutter if the block is
    ``flush``. ``mark`` is shown in the gutter of the first row.
    """

    content: Content
    first: str = ""
    rest: str = ""
    look: str = ""
    mark: Content | None = None
    flush: bool = False


def styled(text: str, style: str) -> Content:
    """Return text in a style whose colours are theme variables; the text is never read as markup."""
    return Content.styled(text, style) if text else Content("")


GUTTER: Final = 2
"""The columns to the left of all text, for marks; they are not copied."""
MUTED: Final = "chat-log--muted"
"""The component class for what is shown before the text."""


class Row(Struct, eq=False):
    """One row of the screen.

    ``glue`` is the white space that wrapping removed between the previous row and this one; None if this row begins a
    line.
    """

    strip: Strip
    glue: str | None = None

    @property
    def text(self) -> str:
        """The row's characters, including the gutter."""
        return self.strip.text


def lay_out(widget: Widget, blocks: Iterable[LogBlock], cols: int) -> list[Row]:
    """Return the rows of blocks at a width in columns."""
    rows: list[Row] = []
    plain = widget.visual_style
    for block in blocks:
        style = widget.get_visual_style(block.look) if block.look else plain
        width = max(1, cols - GUTTER - len(block.first))
        gutter = style if block.flush else plain
        first = _prefix(widget, block.mark, block.first, gutter)
        rest = first if block.rest == block.first and block.mark is None else _prefix(widget, None, block.rest, gutter)
        for number, (strip, glue) in enumerate(_wrapped(widget, block.content, width, style)):
            filled = strip.adjust_cell_length(width, style.rich_style) if block.look else strip
            rows.append(Row(Strip.join([rest if number else first, filled]), glue))
    return rows


LOOKS: Final = {
    "muted": "$foreground-muted",
    "accent": "$text-primary",
    "done": "$text-success",
    "warn": "$text-warning",
    "failed": "$text-error",
    "chosen": "reverse",
    "marked": "on $panel",
    "added": "on $success 12%",
    "removed": "on $error 12%",
}
"""The styles for the words that ``vibe.front`` uses in its lines; all other words are Textual's own."""


def drawn(line: Line) -> Content:
    """Return a line's pieces as content in the colours of the theme."""
    return Content.assemble(*((text, _look(style)) for text, style in line))


@lru_cache(maxsize=512)
def _look(style: str) -> str:
    return " ".join(LOOKS.get(word, word) for word in style.split())


class LinesPage(Widget):
    """A widget that shows the lines ``lines`` returns for its columns and rows."""

    DEFAULT_CSS = "LinesPage { width: 100%; height: 100%; }"

    def __init__(self, lines: Callable[[int, int], Iterable[Line]]) -> None:
        super().__init__()
        self._of_size = lines

    def render(self) -> Content:
        """Return the lines for the current size."""
        return Content("\n").join(map(drawn, self._of_size(*self.size)))


def drawn_row(widget: Widget, line: Line, cols: int) -> Row:
    """Return the row of a line that brings its own gutter; it needs none of Textual's steps for wrapping."""
    ground, parsed = widget.visual_style, app_of(widget).stylesheet.parse_style
    texts = [(text if text.isprintable() else plain_line(text), parsed(_look(style))) for text, style in line]
    segments = [Segment(text, _rich(ground, style)) for text, style in texts]
    return Row(Strip(segments).simplify().crop(0, cols))


@lru_cache(maxsize=512)
def _rich(ground: Style, style: Style) -> RichStyle:
    return (ground + style).rich_style


def _wrapped(widget: Widget, content: Content, width: int, style: Style) -> Iterator[tuple[Strip, str | None]]:
    """Yield the rows of a text, each with the white space that wrapping removed before it, or None if it begins a line.

    Their styles hold no offsets, which Textual's own steps would add, so that rows and pieces of them can be shared.
    """
    for line in content.split(allow_blank=True):
        text, end = line.expand_tabs(), 0
        starts = [0, *divide_line(text.plain, width)]
        for start, part in zip(starts, text.divide(starts[1:]), strict=True):
            shown = (part if start == starts[-1] else part.rstrip()).truncate(width).rstrip_end(width)
            yield _strip(widget, shown, style), " " * max(0, start - end) if start else None
            end = start + len(shown)


def _strip(widget: Widget, content: Content, ground: Style) -> Strip:
    pieces = content.render(ground, "", app_of(widget).stylesheet.parse_style)
    return Strip([Segment(text, _rich(ground, style)) for text, style in pieces], content.cell_length)


def _prefix(widget: Widget, mark: Content | None, text: str, style: Style) -> Strip:
    """Return the gutter with its mark, followed by the prefix."""
    blank = Strip.blank(GUTTER, style.rich_style)
    gutter = blank if mark is None else _strip(widget, mark.pad_right(GUTTER - mark.cell_length), style)
    if not text:
        return gutter
    muted = (style + widget.get_visual_style(MUTED, partial=True)).rich_style
    return Strip.join([gutter, Strip([Segment(text, muted)], len(text))])
