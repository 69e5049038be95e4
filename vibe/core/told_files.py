"""Files below a prompt: put there for the model, and found again for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_BEGIN, _END = '<file path="', "\n</file>"
_FILE = re.compile(rf'{_BEGIN}(?P<name>[^"\n]*)">\n(?P<text>.*?){_END}(?=\n\n{_BEGIN}|\Z)', re.DOTALL)


def with_files(prompt: str, files: Iterable[tuple[str, str]]) -> str:
    """Return a prompt, followed by files: their names and texts."""
    return "\n\n".join([prompt, *(f'{_BEGIN}{name}">\n{text}{_END}' for name, text in files)])


def told_parts(told: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return the prompt, and the names and texts of the files below it, of what an agent was told."""
    start = told.find(f"\n\n{_BEGIN}")
    if start < 0 or not told.endswith(_END):
        return told, ()
    return told[:start], [(match["name"], match["text"]) for match in _FILE.finditer(told, start)]
