"""Text that was piped in beside a prompt, put below it as data: whole, or its head and tail and where the whole is."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vibe.core.config.paths import VibePaths
from vibe.core.session.folder import SessionFolder
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import decode
from vibe.system.errors import EnvironmentFailure
from vibe.system.plain_text import whole_characters

HEAD_BYTES = 48_000
TAIL_BYTES = 16_000
FILE = "stdin.txt"
_END = re.compile(r"<(?=\s*/\s*stdin)", re.IGNORECASE)


def with_piped(prompt: str, data: bytes, outputs: Path) -> str:
    """Return a prompt with what was piped in below it; what is long or no text is kept in the folder ``outputs``.

    Raises:
        EnvironmentFailure: it can't be kept.
    """
    if not data.strip():
        return prompt
    try:
        text = decode(data, FILE).text
    except ToolError:
        text = None
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
