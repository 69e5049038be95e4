"""The log of what a server prints: a file of bounded size, never the terminal."""

from __future__ import annotations

import time
from pathlib import Path

from anyio import to_thread

from vibe.core.system.files import append_rotating

FILE_BYTES = 1_000_000
"""The length at which a file becomes ``<name>.1``, and the one before is dropped."""
LINE_LENGTH = 300
WINDOW_SECONDS = 10.0
WINDOW_BYTES = 1_000_000
"""The most that is written within a window; a server that prints more loses it."""


class ServerLog:
    """The log of one server; ``last_line`` is the last that said anything.

    A file that can't be written is done without: it must not cost the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last_line = ""
        self._window = 0.0
        self._in_window = 0
        self._dropped = 0

    async def write(self, data: bytes) -> None:
        """Append ``data``, or count it as dropped where too much comes at once."""
        self.last_line = _last_line(data) or self.last_line
        now = time.monotonic()
        if now - self._window >= WINDOW_SECONDS:
            self._window, self._in_window = now, 0
        if self._in_window + len(data) > WINDOW_BYTES:
            self._dropped += len(data)
            return
        self._in_window += len(data)
        if self._dropped:
            data = f"\n[{self._dropped} bytes dropped: too much at once]\n".encode() + data
            self._dropped = 0
        await to_thread.run_sync(self._append, data)

    def _append(self, data: bytes) -> None:
        try:
            append_rotating(self.path, data, FILE_BYTES)
        except OSError:
            self._dropped += len(data)


def _last_line(data: bytes) -> str:
    lines = data[-LINE_LENGTH:].decode("utf-8", "replace").split("\n")
    return next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
