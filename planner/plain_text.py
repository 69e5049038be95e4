"""Text from models, files and tools, made fit for a document: no control or direction characters, escaped, cut."""

from __future__ import annotations

import html
import re
import unicodedata

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"^(\d*)([#+\-=.)]+)(?=\s|$)")
"""What would begin a heading or an entry of a list."""
_ORDINARY = re.compile(r"[^ -~\n\t]")


def plain(text: str) -> str:
    """Text of several lines without escape sequences, control, direction and unassigned characters."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n")) if "\x1b" in text or "\r" in text else text
    return _ORDINARY.sub(_kept, text)


def one_line(text: str, cells: int = 0) -> str:
    """The same on one line, cut to so many cells of a fixed-width font (0: not at all); wide characters take two."""
    line = " ".join(plain(text[: cells * 8] if cells else text).split())
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


def _kept(match: re.Match[str]) -> str:
    char = match.group()
    return "" if unicodedata.category(char) in _UNPRINTABLE else char


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
