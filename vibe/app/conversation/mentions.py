"""Files that a prompt mentions as ``@path``, put below it for the model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vibe.core.told_files import with_files
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import decode, whole_characters
from vibe.core.tools.workspace import Workspace

MAX_BYTES = 64_000
"""Bytes of all mentioned files that are shown."""
_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
_CLOSING = ".,;:!?)]}"


def with_mentioned_files(prompt: str, workspace: Workspace, told: str | None = None) -> str:
    """``prompt``, or ``told`` in its place, followed by the text files it mentions, while there is room. Reads files.

    A mention of anything else is a word like others: what lies outside, holds a secret or may not be read stays unread.
    """
    shown: list[tuple[str, str]] = []
    room = MAX_BYTES
    for name in dict.fromkeys(_mentioned(prompt)):
        found = _text_of(name, workspace, room)
        if found is not None:
            text, cut = found
            room -= len(text.encode())
            note = "\n[cut here: read_file shows the rest]" if cut else ""
            shown.append((name, f"{text}{note}"))
    return with_files(prompt if told is None else told, shown)


def _mentioned(prompt: str) -> Iterator[str]:
    for match in _MENTION.finditer(prompt):
        yield match["quoted"] or match["plain"].rstrip(_CLOSING)


def _text_of(name: str, workspace: Workspace, room: int) -> tuple[str, bool] | None:
    """The text of a file, at most ``room`` bytes of it, and whether there is more."""
    try:
        path = workspace.readable(name)
        if workspace.is_secret(path) or workspace.is_unread(path, name):
            return None
        with workspace.files.read(path, name) as file:
            data = file.read(room + 1)
        cut = len(data) > room
        return decode(whole_characters(data[:room]) if cut else data, name).text, cut
    except ToolError:
        return None
