"""Changes or removes one variable of the user's ``.env``; all else in it stays, and nobody else can read it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from vibe.core.config.dotenv import parsed_line
from vibe.core.config.toml_source import read_text
from vibe.core.config.writer import changing_alone, put_settings
from vibe.core.system.files import PRIVATE

_HARMLESS = re.compile(r"[\w.~+/=:@%-]*", re.ASCII)
_IN_QUOTES = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*\"""")
_COMMENT = re.compile(r"(?<=[\s'\"=])(#.*)")


def write_variable(path: Path, label: str, name: str, value: str) -> None:
    """Have the file set ``name`` to a value of one line. Blocks.

    Raises:
        ConfigError: the file can't be read, or is not UTF-8.
        ConfigWriteError: the disk refuses; the old file stays.
        ConfigBusyError: another process is changing it.
    """
    with changing_alone(path, label):
        _put(path, label, with_variable(read_text(path, label) or "", name, value))


def remove_variable(path: Path, label: str, name: str) -> bool:
    """Take ``name`` out of the file; False: it sets no such variable. Blocks.

    Raises:
        ConfigError, ConfigWriteError, ConfigBusyError: as ``write_variable``.
    """
    if not path.exists():
        return False
    with changing_alone(path, label):
        lines = (read_text(path, label) or "").splitlines(keepends=True)
        kept = [line for line in lines if not _sets(line, name)]
        if len(kept) == len(lines):
            return False
        _put(path, label, "".join(kept))
    return True


def with_variable(text: str, name: str, value: str) -> str:
    """Return the text of a ``.env`` file with another value: in the line that counts, else in a new one at its end."""
    lines = text.splitlines(keepends=True)
    for number in reversed(range(len(lines))):
        if _sets(lines[number], name):
            lines[number] = _changed(lines[number], value)
            return "".join(lines)
    begun = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{begun}{name}={_quoted(value)}\n"


def _sets(line: str, name: str) -> bool:
    """Return whether a line sets the variable."""
    bare = line.strip()
    pair = None if bare.startswith("#") else parsed_line(bare)
    return pair is not None and pair[0] == name


def _put(path: Path, label: str, text: str) -> None:
    with suppress(OSError):  # there is none, or it is another user's
        path.chmod(PRIVATE)
    put_settings(path, label, text)


def _changed(line: str, value: str) -> str:
    """Return a line that sets a variable, with another value; its comment stays."""
    bare = line.rstrip("\r\n")
    start = len(bare.partition("=")[0]) + 1
    start += len(bare[start:]) - len(bare[start:].lstrip())
    quoted = _IN_QUOTES.match(bare, start)
    comment = _COMMENT.search(bare, quoted.end() if quoted else start)
    note = f"  {comment[1]}" if comment else ""
    return f"{bare[:start]}{_quoted(value)}{note}{line[len(bare) :]}"


def _quoted(value: str) -> str:
    if _HARMLESS.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
