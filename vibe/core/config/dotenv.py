"""Reads and changes the user's ``.env`` file of ``KEY=VALUE`` lines, whose values are never shown."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vibe.core.config.toml_source import read_text
from vibe.core.config.writer import put_settings
from vibe.system.files import PRIVATE, changing_alone

_LINE = re.compile(
    r"(?P<head>\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=[^\S\r\n]*)"
    r"""(?:'(?P<plain>[^']*)'|"(?P<escaped>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s'"#]\S*(?:\s+[^\s#]\S*)*)?)"""
    r"(?P<note>\s*#[^\r\n]*)?\s*?(?P<end>[\r\n]*)"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFile(Struct, frozen=True, kw_only=True):
    """The variables a file sets, and the line of each, counting from 1."""

    values: Mapping[str, str]
    lines: Mapping[str, int]
    warnings: tuple[str, ...]


def read_env_file(path: Path, label: str) -> EnvFile:
    """Read ``path``; a missing file sets nothing. Lines that can't be parsed lead to warnings with their number.

    Raises:
        ConfigError: it cannot be read or is not UTF-8.
    """
    text = read_text(path, label)
    if text is None:
        return EnvFile(values={}, lines={}, warnings=())
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    is_open = path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    warnings = [f"{label}: other users can read the keys in it, run: chmod 600 {label}"] if is_open else []
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


def parsed_line(line: str) -> tuple[str, str] | None:
    """Return the variable that a line sets and its value, or None if it sets none."""
    found = _LINE.fullmatch(line)
    return None if found is None else (found["name"], _value(found))


def _value(found: re.Match[str]) -> str:
    if found["escaped"] is None:
        return found["plain"] or found["bare"] or ""
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), found["escaped"])


_NEEDS_NO_QUOTES = re.compile(r"[\w.~+/=:@%-]*", re.ASCII)


def write_variable(path: Path, label: str, name: str, value: str) -> None:
    """Set ``name`` in the file to a value without line ends; blocks.

    Raises:
        ConfigError: the file can't be read, or is not UTF-8.
        EnvironmentFailure: writing failed; the old file stays, or another process is changing it.
    """
    with changing_alone(path, label):
        _put(path, label, with_variable(read_text(path, label) or "", name, value))


def remove_variable(path: Path, label: str, name: str) -> bool:
    """Remove ``name`` from the file; return False if the file does not set it. Blocks.

    Raises:
        ConfigError, EnvironmentFailure: as ``write_variable``.
    """
    if not os.path.exists(path):
        return False
    with changing_alone(path, label):
        lines = (read_text(path, label) or "").splitlines(keepends=True)
        kept = [line for line in lines if _setting(line, name) is None]
        if len(kept) == len(lines):
            return False
        _put(path, label, "".join(kept))
    return True


def with_variable(text: str, name: str, value: str) -> str:
    """Return the text of a ``.env`` file with a new value: in the last line that sets it, else in a line at the end."""
    lines = text.splitlines(keepends=True)
    for number in reversed(range(len(lines))):
        found = _setting(lines[number], name)
        if found is not None:
            note = f"  {found['note'].lstrip()}" if found["note"] else ""
            lines[number] = f"{found['head']}{_quoted(value)}{note}{found['end']}"
            return "".join(lines)
    begun = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{begun}{name}={_quoted(value)}\n"


def _setting(line: str, name: str) -> re.Match[str] | None:
    """Return the match of a line if it sets the variable, else None."""
    found = _LINE.fullmatch(line)
    return found if found is not None and found["name"] == name else None


def _put(path: Path, label: str, text: str) -> None:
    with suppress(OSError):  # the file is missing, or belongs to another user
        path.chmod(PRIVATE)
    put_settings(path, label, text)


def _quoted(value: str) -> str:
    if _NEEDS_NO_QUOTES.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
