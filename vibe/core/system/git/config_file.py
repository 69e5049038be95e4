"""Reads a git configuration file as git reads it, so that nothing in it is seen by git alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SPACE = " \t\r\n"
HEADER = re.compile(r"\[(?P<section>[A-Za-z0-9.-]*)(?:[ \t]+\"(?P<subsection>(?:[^\"\\\n]|\\[^\n])*)\")?\]")
KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


class GitConfigError(ValueError):
    """A file that is not understood; git may refuse it, too."""


class GitSetting(NamedTuple):
    """``section`` and ``key`` in lower case; a key alone has the value ``true``."""

    section: str
    subsection: str
    key: str
    value: str


def read_settings(text: str) -> Iterator[GitSetting]:
    """Every setting, and every section's header as a setting without a key, in the order they stand.

    Raises:
        GitConfigError: it does not follow the rules of the format.
    """
    text = text.replace("\r\n", "\n")
    section = subsection = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char in SPACE:
            at += 1
        elif char in "#;":
            at = _line_end(text, at)
        elif header := HEADER.match(text, at):
            section, _, dotted = header["section"].lower().partition(".")
            subsection = dotted if header["subsection"] is None else re.sub(r"\\(.)", r"\1", header["subsection"])
            at = header.end()
            yield GitSetting(section, subsection, "", "")
        elif key := KEY.match(text, at):
            value, at = _value(text, key.end())
            yield GitSetting(section, subsection, key[0].lower(), value)
        else:
            raise GitConfigError(char)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _value(text: str, at: int) -> tuple[str, int]:
    """The value after a key, and where it ends."""
    while at < len(text) and text[at] in " \t":
        at += 1
    if at >= len(text) or text[at] == "\n":
        return "true", at
    if text[at] != "=":
        raise GitConfigError(text[at])
    at += 1
    found: list[str] = []
    quoted = False
    while at < len(text) and (quoted or text[at] != "\n"):
        char = text[at]
        at += 1
        if char == "\n":
            raise GitConfigError(char)
        if char in "#;" and not quoted:
            at = _line_end(text, at)
        elif char == '"':
            quoted = not quoted
        elif char == "\\":
            found.append(_escaped(text[at : at + 1]))
            at += 1
        else:
            found.append(char)
    if quoted:
        raise GitConfigError('"')
    return "".join(found).strip(SPACE), at


def _escaped(char: str) -> str:
    """Return what a backslash makes of the next character; nothing of a line break."""
    if char in {"", "\n"}:
        return ""
    if char not in ESCAPES:
        raise GitConfigError(char)
    return ESCAPES[char]
