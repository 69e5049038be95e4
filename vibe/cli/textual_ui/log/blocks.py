"""LogBlock: text of an entry that wraps as one, with what stands before its rows."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content


class LogBlock(NamedTuple):
    """Lines of text. ``first`` stands before its first row, ``rest`` before the others; both are equally wide.

    ``look`` names the part of the log (a component class) whose background fills the rows, the gutter too if they are
    ``flush``. ``mark`` stands in the gutter of the first row.
    """

    content: Content
    first: str = ""
    rest: str = ""
    look: str = ""
    mark: Content | None = None
    flush: bool = False


def styled(text: str, style: str) -> Content:
    """Text in a style, whose colours are variables of the theme; nothing in the text is markup."""
    return Content.styled(text, style) if text else Content("")
