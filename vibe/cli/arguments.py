"""Argument types that several commands share, each with a sentence of its own when the value is wrong."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from vibe.core.config.paths import in_utf8
from vibe.core.errors import UsageError


def positive_int(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, not {text!r}")
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
        raise UsageError(f"{flag} {given}: there is no such folder")
    return utf8_folder(folder.resolve())


def utf8_folder(folder: Path) -> Path:
    """The folder, which what is kept of a run will name.

    Raises:
        UsageError: its name is not UTF-8, as JSON, TOML and events have to be.
    """
    if in_utf8(folder) != str(folder):
        raise UsageError(f"the folder {in_utf8(folder)!r} can't be used, for its name is not UTF-8: rename it")
    return folder
