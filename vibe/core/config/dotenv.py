"""The user's ``.env`` file: ``KEY=VALUE`` lines whose values are never shown."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vibe.core.config.toml_source import read_text

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:'(?P<plain>[^']*)'|"(?P<escaped>(?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFile:
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
