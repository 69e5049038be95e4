"""The user's ``.env`` file: ``KEY=VALUE`` lines whose values are never shown; read and changed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vibe.core.config.toml_source import read_text
from vibe.core.config.writer import changing_alone, put_settings
from vibe.system.files import PRIVATE

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'(?P<plain>[^']*)'|"(?P<escaped>(?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFile(Struct, frozen=True, kw_only=True):
    """Variables a file sets; ``lines`` tells where, from 1."""

    values: Mapping[str, str]
    lines: Mapping[str, int]
    warnings: tuple[str, ...]


def read_env_file(path: Path, label: str) -> EnvFile:
    """Read ``path``; a file that is not there sets nothing. Lines that make no sense are warned about by number.

    Raises:
        ConfigError: It cannot be read or is not UTF-8.
    """
    text = read_text(path, label)
    if text is None:
        return EnvFile(values={}, lines={}, warnings=())
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    warnings = _exposure(path, label)
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        pair = parsed_line(stripped)
        if pair is None:
            warnings.append(f"{label}:{number}: is ignored, write KEY=VALUE")
            continue
        values[pair[0]], lines[pair[0]] = pair[1], number
    return EnvFile(values=values, lines=lines, warnings=tuple(warnings))


def _exposure(path: Path, label: str) -> list[str]:
    readable = path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    if os.name == "nt" or not readable:
        return []
    return [f"{label}: other users can read the keys in it, run: chmod 600 {label}"]


def parsed_line(line: str) -> tuple[str, str] | None:
    """Return the variable that a line without blanks around it sets, and its value; None: it sets none."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, raw = match[1], match[2]
    if not raw.startswith(("'", '"')):
        return name, re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].rstrip()
    quoted = _QUOTED.fullmatch(raw)
    if quoted is None:
        return None
    if quoted["plain"] is not None:
        return name, quoted["plain"]
    return name, re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted["escaped"])


_HARMLESS = re.compile(r"[\w.~+/=:@%-]*", re.ASCII)

_IN_QUOTES = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*\"""")

_COMMENT = re.compile(r"(?<=[\s'\"=])(#.*)")


def write_variable(path: Path, label: str, name: str, value: str) -> None:
    """Have the file set ``name`` to a value of one line. Blocks.

    Raises:
        ConfigError: the file can't be read, or is not UTF-8.
        ConfigWriteError: the disk refuses; the old file stays.
        EnvironmentFailure: another process is changing it.
    """
    with changing_alone(path, label):
        _put(path, label, with_variable(read_text(path, label) or "", name, value))


def remove_variable(path: Path, label: str, name: str) -> bool:
    """Take ``name`` out of the file; False: it sets no such variable. Blocks.

    Raises:
        ConfigError, EnvironmentFailure: as ``write_variable``.
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
