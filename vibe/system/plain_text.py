"""Text from models, files and tools, made fit to show: it moves no cursor, hides nothing, and is not too long."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

ESCAPE = "\x1b"
"""The Esc key, where a person's answer is read; and the beginning of a terminal's sequences."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def plain(text: str) -> str:
    """Text of several lines without escape sequences, control, direction and unassigned characters."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n")) if "\x1b" in text or "\r" in text else text
    if text.replace("\n", "").replace("\t", "").isprintable():  # the most by far, and quickly told
        return text
    bad = {ord(char): None for char in set(text) if not _is_shown(char)}
    return text.translate(bad) if bad else text


def plain_line(text: str) -> str:
    """The same on one line: every white space and line break is one blank."""
    return " ".join(plain(" ".join(_ESCAPES.sub("", text).split())).split())


def date_text(at: float, form: str, *, utc: bool = False) -> str:
    """A moment (unix seconds) as ``strftime`` writes it, in local time; what no calendar has is told as a number."""
    from datetime import UTC, datetime  # noqa: PLC0415  costs what most texts do without

    try:
        return datetime.fromtimestamp(at, UTC if utc else None).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def some_of(names: Iterable[str], most: int) -> str:
    """The first so many names, in a row, and how many more there are."""
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def shortened(text: str, most: int) -> str:
    """Text of at most so many characters, with an ellipsis at its end if something is missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def beginning(text: str, most: int, place: str = "") -> str:
    """The first characters of a text, with what was left out counted at its end; ``place`` says where it is whole."""
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most} characters left out{place}]"


def both_ends(text: str, most: int) -> str:
    """Text of at most about so many characters, with what was left out counted in its middle."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


def _is_shown(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in _UNPRINTABLE


def whole_characters(data: bytes) -> bytes:
    """``data`` without a UTF-8 character cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if width > back else data
    return data
