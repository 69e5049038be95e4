"""Credentials that stand in git's settings, as tokens in addresses do, and the settings without them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vibe.core.system.git.config_file import GitConfigError, read_settings

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
            lines.append(f"[{one.section} {_quoted(subsection)}]" if subsection else f"[{one.section}]")
        elif not is_secret:
            lines.append(f"\t{one.key} = {_quoted(value)}")
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
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            return without_credentials(file.read(MOST_BYTES))
    except GitConfigError:
        return "" if path.name in NAMES else None
    except OSError:
        return None


def _nameless(text: str) -> str:
    """A text without who calls in its addresses, where that is more than a short name."""
    return _PERSON.sub(lambda found: found[1] if _is_credential(found[2]) else found[0], text)


def _is_credential(person: str) -> bool:
    name, _, password = person.partition(":")
    return bool(password) or len(name) > LONGEST_NAME


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
