"""Words of Markdown with their weights and links, as styled text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content, Span
from textual.style import Style

from vibe.cli.textual_ui.log.clean import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

LINK: Final = "url"
"""The name under which the style of a link keeps its address."""
_STYLES: Final = {"em": "italic", "strong": "bold", "s": "strike", "link": "underline $text-accent"}
_CODE: Final = "$text-accent on $foreground 6%"
_WEB: Final = ("http://", "https://", "mailto:")


def inline(token: Token, style: str = "") -> Content:
    """The text of an inline token, in a style besides its own."""
    return _Words(token.children or [], style).content()


def link_style(url: str) -> Style:
    """The style of a link: a click finds the address in it, and a terminal gets it as such if it is on the web."""
    meta = Style.from_meta({LINK: url})
    return meta + Style(link=url) if url.startswith(_WEB) else meta


class _Words:
    def __init__(self, tokens: Sequence[Token], style: str) -> None:
        self._text = ""
        self._spans: list[Span] = []
        self._open: list[tuple[int, str]] = []
        self._style = style
        for token in tokens:
            self._take(token)

    def content(self) -> Content:
        """All of it."""
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
            # Entities were resolved: what they stand for is cleaned as the rest was.
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
        said = self._text[start:end]
        self._spans += [Span(start, end, _STYLES["link"]), Span(start, end, link_style(url))]
        if url.startswith(_WEB) and said not in {url, url.partition("://")[2], url.removeprefix("mailto:")}:
            self._add(f" ({url})", "$foreground-muted")
