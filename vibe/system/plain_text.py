"""Makes text from models, files and tools safe to show: it moves no cursor, hides nothing, and is not too long."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

ESCAPE = "\x1b"
"""The Esc key when read from a person, and the first character of a terminal's sequences."""

_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_SIGN = "[\u2122-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_LOOK = "[\ufe0f\U0001f3fb-\U0001f3ff]"
JOINED = re.compile(
    f"({_SIGN}{_LOOK}?(?:\u200d{_SIGN}{_LOOK}?)+|{_SIGN}{_LOOK}|[#*0-9]\ufe0f\u20e3|[\U0001f1e6-\U0001f1ff]{{2}}"
    "|\U0001f3f4[\U000e0030-\U000e007a]{1,6}\U000e007f)"
)
"""Matches an emoji of several characters, as a group."""
_LETTER = "[\u0600-\u06ff\u0750-\u077f\u0900-\u0dff]"
_KEPT = re.compile(f"({JOINED.pattern[1:-1]}|(?<={_LETTER})[\u200c\u200d](?={_LETTER}))")
"""Matches what is kept: such an emoji, and what joins Arabic or Indic letters or keeps them apart, without which words
are misspelt."""
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
LINE_LENGTH = 160
_ESCAPED = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return text of several lines without escape sequences and control, direction and unassigned characters.

    Emoji, and the letters of Arabic and Indic scripts, keep those that join them.
    """
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():  # True of nearly all texts, and quick to find out.
        return text
    text = _ESCAPES.sub("", text)
    bad = {ord(char): None for char in set(text) if not _is_shown(char)}
    parts = _KEPT.split(text)
    return "".join(part if at % 2 else part.translate(bad) for at, part in enumerate(parts))


def plain_line(text: str) -> str:
    """Return safe text on one line, with each run of white space replaced by one blank."""
    return " ".join(plain(" ".join(_ESCAPES.sub("", text).split())).split())


def printable(text: str) -> str:
    """Return text on one line, with escapes for what would break the line or control a terminal."""
    return _ESCAPED.sub(lambda found: ascii(found[0])[1:-1], text)


def shown_lines(lines: Sequence[str], *, more: str, none: str) -> str:
    """Return one result per line, followed by ``more`` unless it is empty; or ``none`` if there are no results.

    Characters that would break the line, or control a terminal, are escaped.
    """
    return "\n".join(filter(None, [*map(printable, lines), more])) or none


def date_text(at: float, form: str, *, utc: bool = False) -> str:
    """Format a moment (Unix seconds) like ``strftime``, in local time.

    A moment that no calendar has is shown as a number.
    """
    from datetime import UTC, datetime  # noqa: PLC0415  costs what most texts do without

    try:
        return datetime.fromtimestamp(at, UTC if utc else None).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def one_line(text: str, limit: int = LINE_LENGTH) -> str:
    """Return the text on one line, at most ``limit`` characters long and safe to print.

    Escape sequences, control characters, direction characters and line breaks are removed.
    """
    return shortened(plain_line(text[: limit * 8]), limit)


def counted(number: int, noun: str) -> str:
    """Return a number with the noun it counts: ``1 call``, ``1,200 calls``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plus_minus(files: Sequence[Any]) -> str:
    """Return how many lines were ``added`` to and ``removed`` from the files in total."""
    added, removed = (sum(getattr(file, name) for file in files) for name in ("added", "removed"))
    return f"+{added} −{removed}"  # noqa: RUF001  a minus


def some_of(names: Iterable[str], most: int) -> str:
    """Return the first ``most`` names, separated by commas, and how many more there are."""
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def shortened(text: str, most: int) -> str:
    """Return at most ``most`` characters of a text, with an ellipsis at the end if something is missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def beginning(text: str, most: int, place: str = "") -> str:
    """Return the first characters of a text, and the number of those left out.

    ``place`` says where the whole text is.
    """
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most} characters left out{place}]"


def both_ends(text: str, most: int) -> str:
    """Return about ``most`` characters of a text, with the number of those left out in its middle."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


AROUND = 80
"""The most characters of an excerpt on each side of what was found."""


def excerpt(text: str, wanted: str) -> str:
    """Return the line of a text that contains the wanted one, case folded, or the part around it."""
    at = max(text.casefold().find(wanted), 0)
    start = max(text.rfind("\n", 0, at) + 1, at - AROUND)
    end = text.find("\n", at + len(wanted))
    return plain_line(text[start : min(len(text) if end < 0 else end, at + len(wanted) + AROUND)])


def _is_shown(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in _UNPRINTABLE


def whole_characters(data: bytes) -> bytes:
    """Return ``data`` without an incomplete UTF-8 character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if width > back else data
    return data
