"""Reads a git configuration file exactly as git does, so that git sees no setting in it that is missed here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vibe.system.files import text_of

SPACE = " \t\r\n"
HEADER = re.compile(r"\[(?P<section>[A-Za-z0-9.-]*)(?:[ \t]+\"(?P<subsection>(?:[^\"\\\n]|\\[^\n])*)\")?\]")
ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"', "\n": "", "": ""}
SETTING = re.compile(
    r"""(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*
    (?:=(?P<value>(?:[^"\\\n\#;]|\\[ntb\\"\n]|"(?:[^"\\\n]|\\[ntb\\"\n])*")*+(?:\\\Z)?)(?:[\#;][^\n]*)?)?(?=\n|\Z)""",
    re.VERBOSE,
)
SKIPPED = re.compile(r"[ \t\r\n]+|[#;][^\n]*")


class GitConfigError(ValueError):
    """A file can't be parsed. Git may refuse it, too."""


class GitSetting(NamedTuple):
    """A setting, with ``section`` and ``key`` in lower case. A key without a value has the value ``true``."""

    section: str
    subsection: str
    key: str
    value: str


def read_settings(text: str) -> Iterator[GitSetting]:
    """Yield every setting in order, and for every section header a setting without a key.

    Raises:
        GitConfigError: the text does not follow the rules of the format.
    """
    text = text.replace("\r\n", "\n")
    section = subsection = ""
    at = 0
    while at < len(text):
        if found := HEADER.match(text, at):
            section, _, dotted = found["section"].lower().partition(".")
            subsection = dotted if found["subsection"] is None else re.sub(r"\\(.)", r"\1", found["subsection"])
            yield GitSetting(section, subsection, "", "")
        elif found := SETTING.match(text, at):
            value = "true" if found["value"] is None else _unescaped(found["value"]).strip(SPACE)
            yield GitSetting(section, subsection, found["key"].lower(), value)
        elif not (found := SKIPPED.match(text, at)):
            raise GitConfigError(text[at])
        at = found.end()


def _unescaped(value: str) -> str:
    """Return a value without quotes, its escapes as what they stand for: nothing, if a line break is escaped."""
    return re.sub(r'\\(.?)|"', lambda found: ESCAPES[found[1] or ""], value, flags=re.DOTALL)


NAMES = frozenset({"config", "config.worktree", ".gitconfig", "gitconfig", ".gitmodules"})
"""Names of files with git's settings, apart from those that others include."""

MOST_BYTES = 256 * 1024
"""The most characters of a file that are read."""

LONGEST_NAME = 15
"""The most characters of a user name in an address. A longer one without a password is taken for a token."""

_HINT = re.compile(r"://[^/\s]*@|extraheader|pass|token|secret|api_?key|authorization|bearer", re.IGNORECASE)

_PERSON = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#\s\"'@]*)@", re.IGNORECASE)

_KEY = re.compile(r"extraheader|(?!askpass$).*(?:token|pass(?!ive)|secret|api_?key|oauth).*", re.IGNORECASE)

_VALUE = re.compile(r"authorization:|bearer\s|(?:password|passwd|token|secret|api_?key)\s*[=:]", re.IGNORECASE)


def without_credentials(text: str) -> str | None:
    """Return the settings without any credentials, complete otherwise, or None if the text contains no credentials.

    Raises:
        GitConfigError: the text does not follow the rules of the format.
    """
    if not _HINT.search(text.replace("\\\n", "")):
        return None
    lines: list[str] = []
    found = False
    for one in read_settings(text):
        subsection, value = _without_users(one.subsection), _without_users(one.value)
        is_secret = bool(_KEY.fullmatch(one.key) or _VALUE.search(one.value))
        found = found or is_secret or (subsection, value) != (one.subsection, one.value)
        if not one.key:
            lines.append(f"[{one.section} {quoted(subsection)}]" if subsection else f"[{one.section}]")
        elif not is_secret:
            lines.append(f"\t{one.key} = {quoted(value)}")
    return "\n".join((*lines, "")) if found else None


def has_credentials(path: str | Path) -> bool:
    """Return whether a file named like git's settings, or a folder named like a repository's, contains credentials.

    Reads the file.
    """
    folder, name = os.path.split(path)
    if name == ".git":
        folder, name = os.path.join(folder, name), "config"  # noqa: PTH118  thousands of times for a line
    return name in NAMES and cleaned(Path(folder, name)) is not None


def cleaned(path: Path) -> str | None:
    """Return a file's settings without credentials, or None if it has no credentials or no git settings.

    Reads the file.

    A file that has the name of git's settings but can't be parsed is not shown at all.
    """
    try:
        return without_credentials(text_of(path, MOST_BYTES))
    except GitConfigError:
        return "" if path.name in NAMES else None


def _without_users(text: str) -> str:
    """Return a text without the user names in its addresses, except for short names without passwords."""
    return _PERSON.sub(lambda found: found[1] if _is_credential(found[2]) else found[0], text)


def _is_credential(person: str) -> bool:
    name, _, password = person.partition(":")
    return bool(password) or len(name) > LONGEST_NAME


def quoted(text: str) -> str:
    """Return a value or a subsection, quoted for a file of settings."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
