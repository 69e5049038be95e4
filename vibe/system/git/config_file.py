"""Reads a git configuration file as git reads it, so that nothing in it is seen by git alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vibe.system.files import text_of

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


NAMES = frozenset({"config", "config.worktree", ".gitconfig", "gitconfig", ".gitmodules"})
"""Files of git's settings, but for those that others include."""

MOST_BYTES = 256 * 1024

LONGEST_NAME = 15
"""In an address, a name without a password that is longer is taken for a token."""

_HINT = re.compile(r"://[^/\s]*@|extraheader|pass|token|secret|api_?key|authorization|bearer", re.IGNORECASE)

_PERSON = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#\s\"'@]*)@", re.IGNORECASE)

_KEY = re.compile(r"extraheader|(?!askpass$).*(?:token|pass(?!ive)|secret|api_?key|oauth).*", re.IGNORECASE)

_VALUE = re.compile(r"authorization:|bearer\s|(?:password|passwd|token|secret|api_?key)\s*[=:]", re.IGNORECASE)


def without_credentials(text: str) -> str | None:
    """Settings without the credentials in them, in which git finds all else; None: there are none in the text.

    Raises:
        GitConfigError: it does not follow the rules of the format.
    """
    if not _HINT.search(text.replace("\\\n", "")):
        return None
    lines: list[str] = []
    found = False
    for one in read_settings(text):
        subsection, value = _nameless(one.subsection), _nameless(one.value)
        is_secret = bool(_KEY.fullmatch(one.key) or _VALUE.search(one.value))
        found = found or is_secret or (subsection, value) != (one.subsection, one.value)
        if not one.key:
            lines.append(f"[{one.section} {quoted(subsection)}]" if subsection else f"[{one.section}]")
        elif not is_secret:
            lines.append(f"\t{one.key} = {quoted(value)}")
    return "\n".join((*lines, "")) if found else None


def has_credentials(path: str | Path) -> bool:
    """Return whether a file is called as git's settings are, or a folder as its repositories, and holds credentials.

    Reads the file.
    """
    folder, name = os.path.split(path)
    if name == ".git":
        folder, name = os.path.join(folder, name), "config"  # noqa: PTH118  thousands of times for a line
    return name in NAMES and cleaned(Path(folder, name)) is not None


def cleaned(path: Path) -> str | None:
    """The settings in a file without credentials; None: it holds none, or no settings of git's. Reads it.

    One that has the name of git's settings but can't be understood is not shown at all.
    """
    try:
        return without_credentials(text_of(path, MOST_BYTES))
    except GitConfigError:
        return "" if path.name in NAMES else None


def _nameless(text: str) -> str:
    """A text without who calls in its addresses, where that is more than a short name."""
    return _PERSON.sub(lambda found: found[1] if _is_credential(found[2]) else found[0], text)


def _is_credential(person: str) -> bool:
    name, _, password = person.partition(":")
    return bool(password) or len(name) > LONGEST_NAME


def quoted(text: str) -> str:
    """A value, or a subsection, as git reads it from a file of settings."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
