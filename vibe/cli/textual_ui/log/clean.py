"""Text from outside, made fit for the log: it moves no cursor, reverses nothing, and has no endless lines."""

from __future__ import annotations

import re
from typing import Final

COLUMNS: Final = 4000
"""Of a line; what is longer is cut, with a note."""

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
_DIRECTIONS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Final = (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, *_DIRECTIONS, *range(0xD800, 0xE000))
_GONE: Final = dict.fromkeys(code for code in _CONTROLS if code not in {9, 10})
_GONE_BUT_COLOURS: Final = {code: None for code in _GONE if code != 27}


def clean(text: str, cols: int = COLUMNS) -> str:
    """Text without escapes, controls and direction marks; of a line that was rewritten (CR), its last state."""
    if not text.replace("\n", "").replace("\t", "").isprintable():  # seldom, and quickly told
        text = _ESCAPES.sub("", _rewritten(text)).translate(_GONE)
    if len(text) <= cols:
        return text
    return "\n".join(line if len(line) <= cols else _cut(line, cols) for line in text.split("\n"))


def clean_coloured(text: str, cols: int = COLUMNS) -> str:
    """The same, but escapes that only set colours and weights stay; a line that is too long loses them."""
    text = _ESCAPES.sub(_only_colour, _rewritten(text)).translate(_GONE_BUT_COLOURS)
    if len(text) <= cols:
        return text
    return "\n".join(line if len(line) <= cols else _cut(_COLOURS.sub("", line), cols) for line in text.split("\n"))


def clean_line(text: str, cols: int = COLUMNS) -> str:
    """The same as ``clean`` on one line."""
    return clean(" ".join(text.split()), cols)


def middle_cut(lines: list[str], most: int) -> tuple[list[str], int, list[str]]:
    """The first and the last of so many lines, and the number of those between them that are left out."""
    if len(lines) <= most:
        return lines, 0, []
    head = most // 2
    tail = most - head
    return lines[:head], len(lines) - most, lines[len(lines) - tail :]


def _rewritten(text: str) -> str:
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _only_colour(match: re.Match[str]) -> str:
    escape = match.group()
    return escape if _COLOURS.fullmatch(escape) else ""


def _cut(line: str, cols: int) -> str:
    return line if len(line) <= cols else f"{line[:cols]} …(+{len(line) - cols})"
