"""OutputLog: all that commands print, in one file, as they print it, without secrets and up to a limit."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from vibe.system.errors import VibeError

MAX_BYTES = 32 * 1024 * 1024
"""Of one command; beyond it only the end is kept."""
MAX_TAIL = 256 * 1024
MAX_LINE = 16 * 1024
"""A longer line is written in pieces; what is to be masked is looked for in each."""
ROOM = 512 * 1024
"""So much may wait to be written before whoever reads the command's pipes has to wait for the disk."""

logger = logging.getLogger(__name__)


class OutputLog:
    """The file of one command's output, appended to. ``masked`` takes the secrets out of a piece of text.

    ``feed`` and ``note`` only remember; ``write`` blocks, and asks ``path`` for the file. A disk that refuses ends the
    log, not the command.
    """

    def __init__(self, path: Callable[[], Path], masked: Callable[[str], str], *, most: int = MAX_BYTES) -> None:
        self._path = path
        self._masked = masked
        self._most = most
        self._taken = 0
        self._parts: list[bytes] = []
        self._begun: dict[str, bytes] = {}
        self._tail = bytearray()
        self._is_lost = False
        self.waiting = 0
        """Bytes that were not written yet."""

    def note(self, text: str) -> None:
        """A line about the command, on a line of its own."""
        self.end()
        self._add(f"{text}\n".encode(errors="replace"))

    def feed(self, stream: str, data: bytes) -> None:
        """Take what one of its streams printed; lines of two streams don't mix."""
        room = self._most - self._taken
        self._taken += len(data)
        if len(data) > room:
            self._tail += data[max(room, 0) :]
            if len(self._tail) > 2 * MAX_TAIL:
                del self._tail[:-MAX_TAIL]
            data = data[: max(room, 0)]
        if not data:
            return
        text = self._begun.pop(stream, b"") + data
        end = text.rfind(b"\n") + 1
        if not end and len(text) > MAX_LINE:
            end = text.rfind(b" ") + 1 or len(text)  # a secret is one word
        self._add(text[:end])
        if text[end:]:
            self._begun[stream] = text[end:]

    def end(self) -> None:
        """The command has ended: what has no line end is a line, too."""
        for text in self._begun.values():
            self._add(text + b"\n")
        self._begun.clear()
        if self._tail:
            dropped = self._taken - self._most - min(len(self._tail), MAX_TAIL)
            if dropped > 0:
                self._add(f"[... {dropped} bytes were not kept ...]\n".encode())
            self._add(bytes(self._tail[-MAX_TAIL:]).rstrip(b"\n") + b"\n")
            self._tail.clear()
        self._taken = 0

    def write(self) -> None:
        """Append what is waiting; blocks."""
        parts, self._parts, self.waiting = self._parts, [], 0
        if not parts:
            return
        data = self._masked(b"".join(parts).decode(errors="replace")).encode(errors="replace")
        try:
            file = os.open(self._path(), os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as log:
                log.write(data)
        except (OSError, VibeError) as error:
            logger.warning("the output of a command is no longer saved: %s", error)
            self._is_lost = True

    def _add(self, data: bytes) -> None:
        if data and not self._is_lost:
            self._parts.append(data)
            self.waiting += len(data)
