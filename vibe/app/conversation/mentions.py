"""Data beside a prompt: files that it mentions by ``@PATH``, texts below it and pictures with it, and piped input.

What was piped in is shown whole, or its head and tail and where the whole is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vibe.core.config.paths import VibePaths
from vibe.core.messages import Image
from vibe.core.session.folder import SessionFolder
from vibe.core.told_files import with_files
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.images import MAX_IMAGE_BYTES, as_image, image_type
from vibe.core.tools.files.text_files import decode
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import EnvironmentFailure
from vibe.system.plain_text import whole_characters

HEAD_BYTES = 48_000
TAIL_BYTES = 16_000
FILE = "stdin.txt"
_END = re.compile(r"<(?=\s*/\s*stdin)", re.IGNORECASE)


MAX_BYTES = 64_000
"""Bytes of all mentioned files that are shown."""

_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')

LINES = re.compile(r"(?P<file>.*)#L?(?P<first>\d{1,9})(?:[-:,]L?(?P<last>\d{1,9}))?")
"""A file with the lines of it that are meant: ``a.py#L3``, ``a.py#L3-9``, and as editors write that."""
SEARCHED_BYTES = 4_000_000
"""The part of a file in which lines are looked for."""

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


def mentioned_images(prompt: str, workspace: Workspace) -> dict[str, Image]:
    """Return the picture files that a prompt mentions, by name. Reads files.

    Raises:
        FileAccessError: one is larger than models take.
    """
    images: dict[str, Image] = {}
    for name in dict.fromkeys(_mentioned(prompt)):
        data = _bytes_of(name, workspace, MAX_IMAGE_BYTES + 1)
        kind = image_type(data)
        if kind is not None:
            images[name] = as_image(data, kind, name)
    return images


def _text_of(name: str, workspace: Workspace, room: int) -> tuple[str, bool] | None:
    """The text of a file, or of its lines that ``#L1-3`` names; at most ``room`` bytes, and whether there is more."""
    data, part = _bytes_of(name, workspace, room + 1), LINES.fullmatch(name)
    if part and not data:
        whole, _ = _text_of(part["file"], workspace, SEARCHED_BYTES) or ("", False)
        lines = whole.split("\n")[max(0, int(part["first"]) - 1) : int(part["last"] or part["first"])]
        data = "\n".join(lines).encode()[: room + 1]
    cut = len(data) > room
    try:
        return (decode(whole_characters(data[:room]) if cut else data, name).text, cut) if data else None
    except ToolError:
        return None


def _bytes_of(name: str, workspace: Workspace, most: int) -> bytes:
    """Return the beginning of a file; empty if it is missing, may hold secrets or may not be read."""
    try:
        path = workspace.readable(name)
        if workspace.is_secret(path) or workspace.is_unread(path, name):
            return b""
        with workspace.files.read(path, name) as file:
            return file.read(most)
    except ToolError:
        return b""


def with_piped(prompt: str, data: bytes, outputs: Path, masked: Callable[[str], str]) -> str:
    """Return a prompt with what was piped in below it; what is long or no text is kept in the folder ``outputs``.

    A text is ``masked`` first, as what a command prints is.

    Raises:
        EnvironmentFailure: it can't be kept.
    """
    if not data.strip():
        return prompt
    try:
        text = decode(data, FILE).text
    except ToolError:
        text = None
    else:
        text, plain = masked(text), text
        data = data if text == plain else text.encode(errors="replace")
    if text is not None and len(data) <= HEAD_BYTES + TAIL_BYTES:
        return f'{prompt}\n\n<stdin bytes="{len(data)}">\n{_defused(text)}\n</stdin>'
    path = _kept(data, outputs)
    if text is None:
        shown = "[not text, so not shown; all of it is in the file]"
    else:
        whole = text.encode(errors="replace")
        head, tail = whole_characters(whole[:HEAD_BYTES]), whole[-TAIL_BYTES:].lstrip(bytes(range(0x80, 0xC0)))
        left_out = len(whole) - len(head) - len(tail)
        note = f"[... {left_out} bytes left out; all of it is in the file ...]"
        shown = f"{_defused(head.decode())}\n{note}\n{_defused(tail.decode())}"
    return f'{prompt}\n\n<stdin bytes="{len(data)}" file="{path}">\n{shown}\n</stdin>'


def outputs_of(home: Path, session_id: str) -> Path:
    """Return where a run that keeps no conversation keeps what came with it."""
    return SessionFolder(VibePaths(home).sessions / session_id).outputs


def _defused(text: str) -> str:
    """Text that can't end the tag it stands in."""
    return _END.sub(r"<\\", text.rstrip("\n"))


def _kept(data: bytes, outputs: Path) -> Path:
    path = outputs / FILE
    try:
        outputs.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 1
        while path.exists():
            number += 1
            path = outputs / f"stdin-{number}.txt"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise EnvironmentFailure(f"what was piped in can't be kept in {path} ({error.strerror})") from error
    return path
