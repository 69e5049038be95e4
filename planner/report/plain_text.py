"""Text from models, files and tools, made fit for a document: no control or direction characters, escaped, cut."""

from __future__ import annotations

import html
import re
import unicodedata

from vibe.core.plain_text import plain, plain_line

_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"^(\d*)([#+\-=.)]+)(?=\s|$)")
"""Text that would begin a heading or an entry of a list."""


def one_line(text: str, cells: int = 0) -> str:
    """Text as ``plain`` on one line, cut to so many cells of a fixed-width font (0: not at all).

    Wide characters take two.
    """
    line = plain_line(text[: cells * 8] if cells else text)
    return clipped(line, cells) if cells else line


def clipped(line: str, cells: int) -> str:
    """A line cut to so many cells, an ellipsis at its end if something is missing."""
    if len(line) * 2 <= cells or (line.isascii() and len(line) <= cells):
        return line
    used = 0
    for position, char in enumerate(line):
        used += _cells(char)
        if used >= cells and (used > cells or position + 1 < len(line)):
            return line[:position].rstrip() + "…"
    return line


def escaped(text: str) -> str:
    """Plain text as it may stand in HTML or XML, in an attribute too."""
    return html.escape(plain(text), quote=True)


def escaped_line(text: str, cells: int = 0) -> str:
    """One plain line as it may stand in HTML or XML."""
    return html.escape(one_line(text, cells), quote=True)


def markdown_line(text: str, cells: int = 0) -> str:
    """One plain line that Markdown shows as it is: no link, no HTML, no end of a table's cell."""
    return _BLOCK.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", one_line(text, cells)))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
