"""Arguments and their types that several commands share; a type has a sentence of its own when the value is wrong."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe.core.config.paths import in_utf8
from vibe.system.errors import UsageError


def positive_int(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer, 1 or more, not {text!r}")
    return value


def positive_number(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def existing_folder(flag: str, given: str | None, cwd: Path) -> Path:
    """The folder a flag names (relative to ``cwd``), or ``cwd``.

    Raises:
        UsageError: there is no such folder, or none that can be written down.
    """
    folder = cwd / Path(given).expanduser() if given else cwd
    if not folder.is_dir():
        where = f"{flag} {given}" if given else f"the current folder, {cwd}"
        raise UsageError(f"{where}: no such folder")
    return utf8_folder(folder.resolve())


def utf8_folder(folder: Path) -> Path:
    """The folder, which what is kept of a run will name.

    Raises:
        UsageError: its name is not UTF-8, as JSON, TOML and events have to be.
    """
    if in_utf8(folder) != str(folder):
        raise UsageError(f"the folder {in_utf8(folder)!r} can't be used because its name is not UTF-8: rename it")
    return folder


COMMON: Mapping[str, Mapping[str, Any]] = {
    "add-dir": {"action": "append", "default": [], "metavar": "DIR", "help": "another folder to work in"},
    "auto-approve": {"action": "store_true", "help": "run everything no rule denies, without asking"},
    "bus": {"metavar": "ADDRESS", "help": "publish events here, e.g. tcp://127.0.0.1:5555"},
    "max-price": {"type": positive_number, "metavar": "USD", "help": "stop before more is spent"},
    "max-tokens": {"type": positive_int, "metavar": "N", "help": "stop before more tokens are used"},
    "network": {"action": "store_true", "help": "let sandboxed commands use the network, not only localhost"},
    "output": {"choices": ("text", "json"), "default": "text", "help": "default: text"},
    "trust": {"action": "store_true", "help": "load this folder's .vibe, this time only"},
    "wait": {
        "type": positive_number,
        "nargs": "?",
        "const": math.inf,
        "metavar": "SECONDS",
        "help": "wait longer than 30 s, or without end, for others that write in this folder",
    },
    "workdir": {"metavar": "DIR", "help": "work here instead of in the current directory"},
}
"""The words of each for argparse."""
ALIASES = {"auto-approve": ("--yolo",)}


def add_common(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add arguments of ``COMMON``."""
    for name in names:
        parser.add_argument(f"--{name}", *ALIASES.get(name, ()), **COMMON[name])
