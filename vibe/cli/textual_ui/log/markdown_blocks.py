"""Turns Markdown into log blocks, using markdown-it and Pygments, which are loaded on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.content import Content, Span
from textual.style import Style

from vibe.cli.textual_ui.log.entry import clean
from vibe.cli.textual_ui.log.rows import LogBlock

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from textual.highlight import HighlightTheme


LINK: Final = "url"
"""The meta key under which the style of a link holds its address."""
_STYLES: Final = {"em": "italic", "strong": "bold", "s": "strike", "link": "underline $text-accent"}
_CODE: Final = "$text-accent on $foreground 6%"
_PAIRED: Final = frozenset("*_~`[\\")
"""The marks whose text changes with what follows them, be it their counterpart."""
_WEB: Final = ("http://", "https://", "mailto:")


def inline(token: Token, style: str = "") -> Content:
    """Return the text of an inline token, with a style added to its own."""
    return _InlineText(token.children or [], style).content()


def inline_content(text: str) -> tuple[Content, bool]:
    """Return the content of a paragraph's text, and whether it stays the same if a space and more text follow."""
    (token,) = _parser().parseInline(text)
    is_final = all(child.type != "text" or _PAIRED.isdisjoint(child.content) for child in token.children or [])
    return inline(token), is_final


def link_style(url: str) -> Style:
    """Return the style of a link: it holds the address for clicks, and for the terminal if it is a web address."""
    meta = Style.from_meta({LINK: url})
    return meta + Style(link=url) if url.startswith(_WEB) else meta


class _InlineText:
    def __init__(self, tokens: Sequence[Token], style: str) -> None:
        self._text = ""
        self._spans: list[Span] = []
        self._open: list[tuple[int, str]] = []
        self._style = style
        for token in tokens:
            self._take(token)

    def content(self) -> Content:
        """Return all the text with its styles."""
        spans = [Span(0, len(self._text), self._style), *self._spans] if self._style else self._spans
        return Content(self._text, spans)

    def _take(self, token: Token) -> None:
        name, _, side = token.type.rpartition("_")
        if side == "open":
            self._open.append((len(self._text), str(token.attrs.get("href", ""))))
        elif side == "close":
            start, url = self._open.pop()
            self._close(start, name, clean(url))
        elif token.type == "code_inline":
            self._add(token.content, _CODE)
        elif token.type in {"softbreak", "hardbreak"}:
            self._text += "\n"
        elif token.type == "image":
            start = len(self._text)
            self._add(f"[image: {token.content or 'without a name'}]")
            self._close(start, "link", clean(str(token.attrs.get("src", ""))))
        else:
            # The parser has resolved entities, so the characters they stand for must be cleaned, too.
            self._add(clean(token.content))

    def _add(self, text: str, style: str = "") -> None:
        if style:
            self._spans.append(Span(len(self._text), len(self._text) + len(text), style))
        self._text += text

    def _close(self, start: int, name: str, url: str) -> None:
        end = len(self._text)
        if name != "link":
            self._spans.insert(0, Span(start, end, _STYLES.get(name, "")))
            return
        label = self._text[start:end]
        self._spans += [Span(start, end, _STYLES["link"]), Span(start, end, link_style(url))]
        if url.startswith(_WEB) and label not in {url, url.partition("://")[2], url.removeprefix("mailto:")}:
            self._add(f" ({url})", "$foreground-muted")


_BETWEEN: Final = " │ "

_LEAST: Final = 4
"""The fewest columns of a cell."""


class Table:
    """Collects the tokens of a table and lays out its lines."""

    def __init__(self) -> None:
        self._rows: list[list[Content]] = []
        self._sides: list[str] = []
        self._is_head = False

    def take(self, token: Token) -> None:
        """Add the next token."""
        match token.type:
            case "tr_open":
                self._rows.append([])
            case "th_open":
                self._is_head = True
                self._sides.append(str(token.attrs.get("style", "")).rpartition(":")[2])
            case "td_open":
                self._is_head = False
            case "inline":
                self._rows[-1].append(inline(token, "bold" if self._is_head else ""))
            case _:
                return

    def lines(self, cols: int) -> Iterator[Content]:
        """Yield the table's lines, at most ``cols`` wide as long as every cell has ``_LEAST`` columns."""
        widths = self._widths(cols)
        for number, row in enumerate(self._rows):
            yield from self._line(row, widths)
            if not number:
                yield Content.styled("─┼─".join("─" * width for width in widths), "$foreground-muted")

    def _widths(self, cols: int) -> list[int]:
        widths = [max(_cells(row[at]) if at < len(row) else 0 for row in self._rows) for at in range(len(self._sides))]
        widths = [max(1, width) for width in widths]
        room = max(cols - len(_BETWEEN) * (len(widths) - 1), _LEAST * len(widths))
        fitting = (most for most in range(room, 0, -1) if sum(min(width, most) for width in widths) <= room)
        most = next(fitting)
        return [min(width, most) for width in widths]

    def _line(self, row: list[Content], widths: list[int]) -> Iterator[Content]:
        cells = [cell.wrap(width) for cell, width in zip(row, widths, strict=False)]
        between = Content.styled(_BETWEEN, "$foreground-muted")
        for number in range(max(map(len, cells), default=0)):
            parts = [
                _beside(cell[number] if number < len(cell) else Content(""), width, side)
                for cell, width, side in zip(cells, widths, self._sides, strict=False)
            ]
            yield between.join(parts)


def _cells(content: Content) -> int:
    return max((line.cell_length for line in content.split("\n")), default=0)


def _beside(content: Content, width: int, side: str) -> Content:
    room = max(0, width - content.cell_length)
    if side == "right":
        return content.pad_left(room)
    return content.pad(room // 2, room - room // 2) if side == "center" else content.pad_right(room)


CODE: Final = "chat-log--code"
PIECE: Final = 200
"""The most lines of code highlighted together; a longer listing is split, so that no piece takes long."""
_TAB: Final = 4
_KEPT: Final = 512
_BULLETS: Final = ("•", "◦", "▪")
_QUOTED: Final = "▌ "
_NO_LANGUAGE: Final = frozenset({"", "text", "txt", "plain", "plaintext", "console", "output"})
_HEADINGS: Final = {"h1": "bold underline $text-primary", "h2": "bold $text-primary"}


class TopBlock(NamedTuple):
    """A top-level block: the range of its lines in the source, and its tokens."""

    start: int
    end: int
    tokens: Sequence[Token]

    def blocks(self, cols: int, *, is_open: bool = False) -> Iterator[LogBlock]:
        """Yield its log blocks; for ``is_open`` see ``blocks_of``."""
        return _BlockWalk(self.tokens, cols, is_open=is_open).blocks()


def blocks_of(text: str, cols: int, *, is_open: bool = False) -> Iterator[LogBlock]:
    """Yield the log blocks of a text, with an empty one between two top-level blocks.

    If more text is to come (``is_open``), each line of code is highlighted by itself.
    """
    gap: list[LogBlock] = []
    for top in top_blocks(text):
        blocks = list(top.blocks(cols, is_open=is_open))
        if blocks:
            yield from (*gap, *blocks)
            gap = [LogBlock(Content(""))]


def top_blocks(text: str) -> Iterator[TopBlock]:
    """Yield the top-level blocks of a text."""
    first = 0
    tokens = _parser().parse(text)
    for number, token in enumerate(tokens):
        if token.level == 0 and token.nesting != 1:
            start, end = tokens[first].map or (0, 0)
            yield TopBlock(start, end, tokens[first : number + 1])
            first = number + 1


@lru_cache(_KEPT)
def _highlighted_listing(code: str, language: str) -> Content:
    """Highlight code, unless its language has no colours; recent results are cached, as they are needed again."""
    code = code.expandtabs(_TAB)
    return Content(code) if language in _NO_LANGUAGE or not code.strip() else highlighted(code, language)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  takes half of the startup time

    # Without reference links, the beginning of a text never depends on its end, which streaming relies on.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    return parser.enable(["table", "strikethrough", "linkify"]).disable(["reference"])


def warm() -> None:
    """Load the parser and the highlighter, so that the first answer need not wait; may be called in a thread."""
    for _ in blocks_of("*a*\n```python\npass\n```\n", 80):
        continue


class _BlockWalk:
    """Walks through the tokens of one top-level block."""

    def __init__(self, tokens: Sequence[Token], cols: int, *, is_open: bool) -> None:
        self._tokens, self._cols, self._is_open = tokens, cols, is_open
        self._prefixes: list[tuple[str, str]] = []
        self._lists: list[int | None] = []
        self._style = ""
        self._gap = False

    def blocks(self) -> Iterator[LogBlock]:
        """Yield the log blocks of the tokens."""
        table: Table | None = None
        for token in self._tokens:
            if table is not None:
                table.take(token)
                if token.type == "table_close":
                    yield from self._table(table)
                    table = None
            elif token.type == "table_open":
                table = Table()
            elif token.type == "inline":
                yield from self._block(inline(token, self._style))
            elif token.type in {"fence", "code_block"}:
                yield from self._code(token)
            elif token.type == "hr":
                yield from self._block(Content.styled("─" * 12, "$foreground-muted"))
                self._gap = True
            else:
                yield from self._structure(token)

    def _table(self, table: Table) -> Iterator[LogBlock]:
        for content in table.lines(self._cols - sum(len(first) for first, _ in self._prefixes)):
            yield from self._block(content)
        self._gap = True

    def _structure(self, token: Token) -> Iterator[LogBlock]:
        """Enter or leave a container."""
        match token.type.rpartition("_"):
            case ("heading", _, side):
                self._style = _HEADINGS.get(token.tag, "bold") if side == "open" else ""
                self._gap = self._gap if side == "open" else True
            case ("paragraph", _, "close"):
                self._gap = not token.hidden
            case ("bullet_list" | "ordered_list", _, "open"):
                self._lists.append(int(token.attrs.get("start", 1)) if token.tag == "ol" else None)
            case ("bullet_list" | "ordered_list", _, "close"):
                self._lists.pop()
            case ("list_item" | "blockquote" as name, _, "open"):
                self._prefixes.append(self._mark() if name == "list_item" else (_QUOTED, _QUOTED))
            case ("list_item" | "blockquote", _, "close"):
                if self._prefixes[-1][0].strip(f" {_QUOTED}"):
                    yield from self._block(Content(""))
                self._prefixes.pop()
                self._gap = self._gap or token.type == "blockquote_close"
            case _:
                return

    def _mark(self) -> tuple[str, str]:
        number = self._lists[-1]
        if number is None:
            mark = f"{_BULLETS[(self._lists.count(None) - 1) % len(_BULLETS)]} "
        else:
            mark = f"{number}. "
            self._lists[-1] = number + 1
        return mark, " " * len(mark)

    def _code(self, token: Token) -> Iterator[LogBlock]:
        language = token.info.strip().partition(" ")[0].lower()
        lines = token.content.removesuffix("\n").split("\n")
        for start in range(0, len(lines), PIECE):
            piece = lines[start : start + PIECE]
            parts = piece if self._is_open and len(piece) < PIECE else ["\n".join(piece)]
            for part in parts:
                yield from self._block(_highlighted_listing(part, language), CODE)
        self._gap = True

    def _block(self, content: Content, look: str = "") -> Iterator[LogBlock]:
        if self._gap:
            self._gap = False
            rest = "".join(rest for _, rest in self._prefixes)
            yield LogBlock(Content(""), rest, rest)
        first = "".join(first for first, _ in self._prefixes)
        self._prefixes = [(rest, rest) for _, rest in self._prefixes]
        yield LogBlock(content, first, "".join(rest for _, rest in self._prefixes), look)


@cache
def _syntax() -> type[HighlightTheme]:
    """Return the styles of code, without amber and red: those mean that a person is needed or something failed."""
    from pygments.token import Token  # noqa: PLC0415  Pygments takes a third of the startup time
    from textual.highlight import HighlightTheme  # noqa: PLC0415  as above

    neutral = {
        Token.Error: "",
        Token.Generic.Error: "bold",
        Token.Keyword.Namespace: "$text-accent",
        Token.Literal.Number: "",
        Token.Name.Attribute: "",
        Token.Name.Class: "bold",
        Token.Name.Constant: "bold",
        Token.Name.Function: "bold",
        Token.Name.Function.Magic: "bold",
        Token.Number: "",
        Token.Operator.Word: "bold $text-accent",
    }

    class Syntax(HighlightTheme):
        STYLES = HighlightTheme.STYLES | neutral

    return Syntax


def highlighted(code: str, language: str) -> Content:
    """Return code highlighted in its language."""
    from textual.highlight import highlight  # noqa: PLC0415  Pygments takes a third of the startup time

    content = highlight(code, language=language, theme=_syntax())
    # A lexer may add a line end; if it changed more than that, its spans don't fit the code.
    if content.plain.rstrip("\n") != code.rstrip("\n"):
        return Content(code)
    spans = [Span(start, min(end, len(code)), style) for start, end, style in content.spans if start < len(code)]
    return Content(code, spans)
