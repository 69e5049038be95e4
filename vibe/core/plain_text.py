"""Text from models, files and tools, made safe to show: it moves no cursor, turns no line around, hides nothing."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_ORDINARY = re.compile(r"[^ -~\n\t]")


def plain(text: str) -> str:
    """Text of several lines without escape sequences, control, direction and unassigned characters."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n")) if "\x1b" in text or "\r" in text else text
    return _ORDINARY.sub(_kept, text)


def plain_line(text: str) -> str:
    """The same on one line: every white space and line break is one blank."""
    return " ".join(plain(" ".join(_ESCAPES.sub("", text).split())).split())


def _kept(match: re.Match[str]) -> str:
    char = match.group()
    return "" if unicodedata.category(char) in _UNPRINTABLE else char
