"""One stream of a command: its head and tail in memory, the whole of it on disk when it is long."""

from __future__ import annotations

import codecs
import itertools
import logging
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyio import to_thread
from msgspec import Struct

from vibe.shell.process.screen import Screen
from vibe.system.errors import VibeError
from vibe.system.plain_text import whole_characters
from vibe.system.redaction import LONGEST, safe_cut

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


LIVE_BYTES = 8_000
PIECE_BYTES = 256 * 1024
"""As much waits to be written, and masked, together."""


class OutputLimit(Struct, frozen=True, kw_only=True):
    """Limit of what is shown of a stream: ``shown`` bytes, half from its start and half from its end.

    Where there is more, up to ``kept`` bytes go to ``<name>-<stream>.txt`` in ``keep_in``, if that is given. ``log``
    gets all of it, both streams as they come. ``masked`` takes secrets out of what is kept and shown, before it is cut.
    Both are what a terminal would show in the end, unless ``raw``.
    """

    shown: int = 16_000
    keep_in: Path | None = None
    name: str = "command"
    kept: int = 64 * 1024 * 1024
    log: OutputLog | None = None
    masked: Callable[[str], str] | None = None
    raw: bool = False


class OutputPiece(Struct, frozen=True):
    """A piece of a stream, since the last one; ``dropped_bytes`` before it are not shown."""

    text: str
    stream: str = ""
    dropped_bytes: int = 0

    def __str__(self) -> str:
        note = f"[... {self.dropped_bytes} bytes not shown ...]\n" if self.dropped_bytes else ""
        return note + self.text


class Capture:
    """Collects what a command prints to one stream, and what is shown and kept of it."""

    def __init__(self, stream: str, limit: OutputLimit) -> None:
        self.ended = False
        self.file: Path | None = None
        self.to_keep = bytearray()
        self._stream = stream
        self._limit = limit
        self._total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._live = bytearray()
        self._live_skipped = 0
        self._room = limit.kept if limit.keep_in is not None else 0
        self._is_cut = False
        self._screen = None if limit.raw else Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> None:
        """Take a piece of output; none means the end."""
        if not data:
            self.ended = True
            return
        if self._limit.log is not None:
            self._limit.log.feed(self._stream, data)
        self._take(data if self._screen is None else _encoded(self._screen.feed(self._decoder.decode(data))))
        self._live += data
        retained = LIVE_BYTES + 3 * LONGEST
        if len(self._live) > 2 * retained:
            self._skip_live(len(self._live) - retained)

    def _take(self, data: bytes) -> None:
        """Take what does not change any more."""
        before = self._total
        self._total += len(data)
        if self._room > 0 and self._total > self._limit.shown:
            # Up to now the head was all there was.
            piece = data if before > self._limit.shown else bytes(self._head) + data
            self.to_keep += piece[: self._room]
            self._room -= len(piece)
            self._is_cut = self._room < 0
        room = self._limit.shown + LONGEST - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        retained = self._limit.shown + 3 * LONGEST
        if len(self._tail) > 2 * retained:
            del self._tail[:-retained]

    @property
    def is_waiting(self) -> bool:
        """True when ``keep`` should be called now."""
        return self._room > 0 and len(self.to_keep) >= PIECE_BYTES

    def keep(self, *, final: bool = False) -> None:
        """Write what is to be kept to disk; blocks. A disk that refuses ends the keeping, not the command.

        Some of it waits for what comes next, so that no secret is cut in two.
        """
        data, self.to_keep = self.to_keep, bytearray()
        if (masked := self._limit.masked) is not None:
            text = data.decode(errors="surrogateescape")
            end = len(text) if final else safe_cut(text, masked)
            self.to_keep += text[end:].encode(errors="surrogateescape")
            data = masked(text[:end]).encode(errors="surrogateescape")
        try:
            if self.file is None:
                self.file = self._new_file()
            with self.file.open("ab") as file:
                file.write(data)
                if final and self._is_cut:
                    file.write(b"\n[... the rest was not kept ...]\n")
        except OSError:
            self._room = 0
            self.to_keep.clear()

    def _new_file(self) -> Path:
        folder = self._limit.keep_in or Path()
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", self._limit.name)[:80] or "command"
        for number in itertools.count(1):
            path = folder / f"{stem}-{self._stream}{'' if number == 1 else f'-{number}'}.txt"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            return path
        raise AssertionError

    async def finish(self) -> None:
        """Take what could change until now, and write the rest to disk."""
        if self._screen is not None:
            rest = self._screen.feed(self._decoder.decode(b"", final=True)) + self._screen.flush()
            self._take(_encoded(rest))
        if self.to_keep or self.file is not None:
            await to_thread.run_sync(partial(self.keep, final=True))

    @property
    def dropped(self) -> int:
        """Bytes that ``text`` leaves out."""
        return max(self._total - sum(map(len, self._shown())), 1) if self._total > self._limit.shown else 0

    def text(self) -> str:
        """The stream as text: whole, or its head and tail with a line between that says what is missing."""
        if not self.dropped:
            return self._without_secrets(self._head).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in self._shown())
        return f"{head.rstrip()}\n[... {self.dropped} bytes left out ...]\n{tail}"

    def _shown(self) -> tuple[bytes, bytes]:
        """Head and tail, cut at a line where one ends nearby, else between two characters."""
        half = self._limit.shown // 2
        if self._total == len(self._head) + len(self._tail):
            whole = self._without_secrets(self._head + self._tail)
            head, tail = whole[:half], whole[half:][-half:]
        else:
            head, tail = self._ends()
            head, tail = head[:half], tail[-half:]
        line_end = head.rfind(b"\n", half // 2) + 1
        line_start = tail.find(b"\n", 0, half // 2) + 1
        head = head[:line_end] if line_end else whole_characters(head)
        return head, tail[line_start:].lstrip(b"" if line_start else bytes(range(0x80, 0xC0)))

    def _ends(self) -> tuple[bytes, bytes]:
        """Return start and end as held in memory, without secrets that may be cut in two where some is missing."""
        masked = self._limit.masked
        if masked is None:
            return bytes(self._head), bytes(self._tail)
        head, tail = (part.decode(errors="surrogateescape") for part in (self._head, self._tail))
        head, tail = masked(head[: safe_cut(head, masked)]), masked(tail[safe_cut(tail[: 3 * LONGEST], masked) :])
        return head.encode(errors="surrogateescape"), tail.encode(errors="surrogateescape")

    def _without_secrets(self, data: bytearray) -> bytes:
        if self._limit.masked is None:
            return bytes(data)
        return self._limit.masked(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def take_live(self, *, final: bool) -> OutputPiece:
        """Return what came since the last call, up to the end of the last line (or to the end, if ``final``)."""
        end = len(self._live) if final else max(self._live.rfind(b"\n"), self._live.rfind(b"\r")) + 1
        if self._limit.masked is not None and not final:
            key = self._live.rfind(b"-----BEGIN ", max(end - LONGEST, 0), end)
            if key >= 0 and self._live.find(b"-----END ", key, end) < 0:
                end = key  # its lines are no secrets to whoever has not seen the first
        if end > LIVE_BYTES:
            end -= self._skip_live(self._live_start(end - LIVE_BYTES))
        taken = bytes(self._live[:end])
        del self._live[:end]
        if not taken:
            return OutputPiece("")
        skipped, self._live_skipped = self._live_skipped, 0
        return OutputPiece(taken.decode(errors="replace"), self._stream, skipped)

    def _live_start(self, least: int) -> int:
        """Return where to begin to show live: after the first ``least`` bytes or, to cut no secret in two, before."""
        if self._limit.masked is None:
            return least
        text = self._live[: least + LONGEST].decode(errors="surrogateescape")
        return len(text[: safe_cut(text, self._limit.masked)].encode(errors="surrogateescape"))

    def _skip_live(self, count: int) -> int:
        self._live_skipped += count
        del self._live[:count]
        return count


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
