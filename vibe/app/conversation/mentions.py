"""Data that goes with a prompt: the files it mentions by ``@PATH`` (texts and images), and piped input.

Texts follow the prompt. Piped input is shown whole, or as its head and tail with the path of a file that has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vibe.core.config.paths import VibePaths
from vibe.core.messages import Image
from vibe.core.session.folder import SessionFolder
from vibe.core.told_files import with_files
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.images import MAX_IMAGE_BYTES, attachable, image_type
from vibe.core.tools.files.text_files import decode
from vibe.core.tools.outputs import write_private
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import EnvironmentFailure, os_error_as
from vibe.system.plain_text import whole_characters

HEAD_BYTES = 48_000
TAIL_BYTES = 16_000
FILE = "stdin.txt"
_END = re.compile(r"<(?=\s*/\s*stdin)", re.IGNORECASE)


MAX_BYTES = 64_000
"""The most bytes shown of all mentioned files together."""

_MENTION = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')

LINES = re.compile(r"(?P<file>.*)#L?(?P<first>\d{1,9})(?:[-:,]L?(?P<last>\d{1,9}))?")
"""A file and the lines of it that are meant: ``a.py#L3``, ``a.py#L3-9``, and the ways editors write this."""
SEARCHED_BYTES = 4_000_000
"""The number of bytes at the beginning of a file within which the lines are looked for."""

_CLOSING = ".,;:!?)]}"


def with_mentioned_files(prompt: str, workspace: Workspace, full_text: str | None = None) -> str:
    """Return ``prompt``, or ``full_text`` in its place, followed by the text files it mentions as far as there is room.

    Reads files. Files that lie outside the workspace, hold secrets or may not be read are left alone, and the mention
    stays an ordinary word.
    """
    shown: list[tuple[str, str]] = []
    room = MAX_BYTES
    for name in dict.fromkeys(_mentioned(prompt)):
        found = _read_text(name, workspace, room)
        if found is not None:
            text, cut = found
            room -= len(text.encode())
            note = "\n[cut here: read_file shows the rest]" if cut else ""
            shown.append((name, f"{text}{note}"))
    return with_files(prompt if full_text is None else full_text, shown)


def _mentioned(prompt: str) -> Iterator[str]:
    for match in _MENTION.finditer(prompt):
        yield match["quoted"] or match["plain"].rstrip(_CLOSING)


def mentioned_images(prompt: str, workspace: Workspace) -> dict[str, Image]:
    """Return the image files that a prompt mentions, by name. Reads files.

    Raises:
        UsageError: one is larger than models take.
    """
    images: dict[str, Image] = {}
    for name in dict.fromkeys(_mentioned(prompt)):
        data = _read_start(name, workspace, MAX_IMAGE_BYTES + 1)
        if image_type(data) is not None:
            images[name] = attachable(data, name)
    return images


def _read_text(name: str, workspace: Workspace, room: int) -> tuple[str, bool] | None:
    """Return the text of a file or of the lines that ``#L1-3`` names, up to ``room`` bytes, and whether it was cut."""
    data, part = _read_start(name, workspace, room + 1), LINES.fullmatch(name)
    if part and not data:
        whole, _ = _read_text(part["file"], workspace, SEARCHED_BYTES) or ("", False)
        lines = whole.split("\n")[max(0, int(part["first"]) - 1) : int(part["last"] or part["first"])]
        data = "\n".join(lines).encode()[: room + 1]
    cut = len(data) > room
    try:
        return (decode(whole_characters(data[:room]) if cut else data, name).text, cut) if data else None
    except ToolError:
        return None


def _read_start(name: str, workspace: Workspace, limit: int) -> bytes:
    """Return at most ``limit`` bytes of the beginning of a file.

    The result is empty if the file is missing, may hold secrets or may not be read.
    """
    try:
        path = workspace.readable(name)
        if workspace.is_secret(path) or workspace.is_unread(path, name):
            return b""
        with workspace.files.read(path, name) as file:
            return file.read(limit)
    except ToolError:
        return b""


def with_piped(prompt: str, data: bytes, outputs: Path, masked: Callable[[str], str]) -> str:
    """Return a prompt followed by the piped input. What is long or no text is kept in the folder ``outputs``.

    Secrets in a text are ``masked`` first, as in the output of a command.

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
        return f'{prompt}\n\n<stdin bytes="{len(data)}">\n{_without_end_tag(text)}\n</stdin>'
    path = _keep(data, outputs)
    if text is None:
        shown = "[not text, so not shown; all of it is in the file]"
    else:
        whole = text.encode(errors="replace")
        head, tail = whole_characters(whole[:HEAD_BYTES]), whole[-TAIL_BYTES:].lstrip(bytes(range(0x80, 0xC0)))
        left_out = len(whole) - len(head) - len(tail)
        note = f"[... {left_out} bytes left out; all of it is in the file ...]"
        shown = f"{_without_end_tag(head.decode())}\n{note}\n{_without_end_tag(tail.decode())}"
    return f'{prompt}\n\n<stdin bytes="{len(data)}" file="{path}">\n{shown}\n</stdin>'


def outputs_of(home: Path, session_id: str) -> Path:
    """Return the folder in which a run that saves no conversation keeps its piped input."""
    return SessionFolder(VibePaths(home).sessions / session_id).outputs


def _without_end_tag(text: str) -> str:
    """Return a text without anything that would end the tag it is put into."""
    return _END.sub(r"<\\", text.rstrip("\n"))


def _keep(data: bytes, outputs: Path) -> Path:
    path = outputs / FILE
    with os_error_as(lambda error: EnvironmentFailure(f"what was piped in can't be kept in {path} ({error.strerror})")):
        number = 1
        while path.exists():
            number += 1
            path = outputs / f"stdin-{number}.txt"
        write_private(path, data)
    return path
