"""Attaches files to a prompt as text for the model, and separates them again for display."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_BEGIN, _END = '<file path="', "\n</file>"
_FILE = re.compile(rf'{_BEGIN}(?P<name>[^"\n]*)">\n(?P<text>.*?){_END}(?=\n\n{_BEGIN}|\Z)', re.DOTALL)


def with_files(prompt: str, files: Iterable[tuple[str, str]]) -> str:
    """Return a prompt followed by files, given as pairs of name and text."""
    return "\n\n".join([prompt, *(f'{_BEGIN}{name}">\n{text}{_END}' for name, text in files)])


def split_files(text: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """Split a text made by ``with_files`` into the prompt and the pairs of name and text of its files."""
    start = text.find(f"\n\n{_BEGIN}")
    if start < 0 or not text.endswith(_END):
        return text, ()
    return text[:start], [(match["name"], match["text"]) for match in _FILE.finditer(text, start)]
