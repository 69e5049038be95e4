"""Captures the output of a command: head and tail in memory, and all of it on disk when it is long."""

from __future__ import annotations

import codecs
import itertools
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyio import to_thread
from msgspec import Struct

from vibe.shell.process.screen import Screen
from vibe.system.errors import VibeError
from vibe.system.plain_text import whole_characters
from vibe.system.redaction import LONGEST, safe_cut

MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of one command's output in the log, in bytes. Of what follows only the end is kept."""
MAX_TAIL = 256 * 1024
"""Size in bytes of the end that is kept of output beyond the maximum."""
MAX_LINE = 64 * 1024
"""Length in bytes beyond which a line is written in pieces."""
ROOM = 512 * 1024
"""Bytes that may wait to be written before the reader of the command's pipes has to wait for the disk."""

logger = logging.getLogger(__name__)


class OutputLog:
    """Appends the output of a command to a file. ``masked`` removes the secrets from a piece of text.

    ``feed`` and ``note`` only buffer. ``write`` blocks, and calls ``path`` for the file. If writing fails the log ends,
    and the command goes on.
    """

    def __init__(self, path: Callable[[], Path], masked: Callable[[str], str], *, most: int = MAX_BYTES) -> None:
        self._path = path
        self._masked = masked
        self._most = most
        self._received = 0
        self._parts: list[bytes] = []
        self._unfinished: dict[str, bytes] = {}
        self._tail = bytearray()
        self._has_failed = False
        self.waiting = 0
        """Number of bytes that aren't written yet."""

    def note(self, text: str) -> None:
        """Add a note about the command, on a line of its own."""
        self.end()
        self._add(f"{text}\n".encode(errors="replace"))

    def feed(self, stream: str, data: bytes) -> None:
        """Add output of one of the streams. Lines of the two streams don't mix."""
        room = self._most - self._received
        self._received += len(data)
        if len(data) > room:
            self._tail += data[max(room, 0) :]
            if len(self._tail) > 2 * MAX_TAIL:
                del self._tail[: -MAX_TAIL - LONGEST]
            data = data[: max(room, 0)]
        if not data:
            return
        text = self._unfinished.pop(stream, b"") + data
        end = _whole_keys(text, text.rfind(b"\n") + 1)
        if not end and len(text) > MAX_LINE:
            end = _between_secrets(text, len(text) - LONGEST, self._masked)
        self._add(text[:end])
        if text[end:]:
            self._unfinished[stream] = text[end:]

    def end(self) -> None:
        """Complete the output of a command that has ended: its unfinished lines, and the end of what was too long."""
        for text in self._unfinished.values():
            self._add(text + b"\n")
        self._unfinished.clear()
        if self._tail:
            if (surplus := len(self._tail) - MAX_TAIL) > 0:
                del self._tail[: _between_secrets(self._tail, surplus, self._masked)]
            if dropped := self._received - self._most - len(self._tail):
                self._add(f"[... {dropped} bytes were not kept ...]\n".encode())
            self._add(bytes(self._tail).rstrip(b"\n") + b"\n")
            self._tail.clear()
        self._received = 0

    def write(self) -> None:
        """Append the buffered output to the file. Blocks."""
        parts, self._parts, self.waiting = self._parts, [], 0
        if not parts:
            return
        data = self._masked(b"".join(parts).decode(errors="replace")).encode(errors="replace")
        try:
            file = os.open(self._path(), os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            with os.fdopen(file, "wb") as log:
                log.write(data)
        except (OSError, VibeError) as error:
            logger.warning("the output of a command is no longer saved: %s", error)
            self._has_failed = True

    def _add(self, data: bytes) -> None:
        if data and not self._has_failed:
            self._parts.append(data)
            self.waiting += len(data)


def _whole_keys(data: bytes | bytearray, end: int) -> int:
    """Return ``end``, or where a private key begins that has not ended: its lines alone don't look like secrets."""
    key = data.rfind(b"-----BEGIN ", max(end - LONGEST, 0), end)
    return end if key < 0 or data.find(b"-----END ", key, end) >= 0 else key


def _between_secrets(data: bytes | bytearray, most: int, masked: Callable[[str], str]) -> int:
    """Return where to cut: after ``most`` bytes, or before that so that no secret is cut in two."""
    text = data[: most + LONGEST].decode(errors="surrogateescape")
    return len(text[: safe_cut(text, masked)].encode(errors="surrogateescape"))


LIVE_BYTES = 8_000
"""Maximum size in bytes of the output shown at once while the command runs."""
IDLE_CALLS = 5
"""Calls of ``take_live`` without news after which the words of an unfinished line are shown: it may be a prompt."""
WORDS = re.compile(rb".*[ :?>]", re.DOTALL)
"""The words of an unfinished line. The last one may be half a secret, unless it ends as prompts do."""
PIECE_BYTES = 256 * 1024
"""Bytes that are masked and written together."""


class OutputLimit(Struct, frozen=True, kw_only=True):
    """Limits of the output that is shown and kept of a stream.

    Attributes:
        shown: Bytes shown, half from the start and half from the end.
        keep_in: Folder for ``<name>-<stream>.txt``, to which longer output is written.
        name: The first part of that file's name.
        kept: Maximum size of that file in bytes. Of output beyond it only the end is looked at.
        log: Gets all the output, both streams as they come.
        masked: Removes secrets from the output that is shown and kept, before it is cut.
        raw: Show and keep the output as printed, rather than as a terminal would show it in the end.
    """

    shown: int = 16_000
    keep_in: Path | None = None
    name: str = "command"
    kept: int = 64 * 1024 * 1024
    log: OutputLog | None = None
    masked: Callable[[str], str] | None = None
    raw: bool = False


class OutputPiece(Struct, frozen=True):
    """A piece of a stream that follows the last one, except for ``dropped_bytes`` in between that aren't shown."""

    text: str
    stream: str = ""
    dropped_bytes: int = 0

    def __str__(self) -> str:
        note = f"[... {self.dropped_bytes} bytes not shown ...]\n" if self.dropped_bytes else ""
        return note + self.text


class Capture:
    """Collects the output of one stream, and selects what is shown and kept of it."""

    def __init__(self, stream: str, limit: OutputLimit) -> None:
        self.ended = False
        self.file: Path | None = None
        self.to_keep = bytearray()
        self._stream = stream
        self._limit = limit
        self._received = 0
        self._unrendered = bytearray()
        self._total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._live = bytearray()
        self._live_skipped = 0
        self._idle_calls = 0
        self._left_to_keep = limit.kept if limit.keep_in is not None else 0
        self._is_cut = False
        self._screen = None if limit.raw else Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> None:
        """Add a piece of output. An empty one means the end."""
        if not data:
            self.ended = True
            return
        if self._limit.log is not None:
            self._limit.log.feed(self._stream, data)
        if self._received <= self._limit.kept:
            self._received += len(data)
            self._add_settled(self._rendered(data))
        else:
            self._unrendered += data
            self._skip_unrendered(len(self._unrendered) - max(PIECE_BYTES, self._limit.shown + 3 * LONGEST))
        self._live += data
        self._idle_calls = 0
        retained = LIVE_BYTES + 3 * LONGEST
        if len(self._live) > 2 * retained:
            self._skip_live(len(self._live) - retained)

    def _rendered(self, data: bytes, *, final: bool = False) -> bytes:
        """Add a piece to the screen and return what can't change any more, or all of it if ``final``."""
        if self._screen is None:
            return data
        text = self._screen.feed(self._decoder.decode(data, final=final))
        return (text + self._screen.flush() if final else text).encode(errors="surrogateescape")

    def _skip_unrendered(self, count: int) -> None:
        """Skip the start of what came after the most that is kept, once it is as long as what is shown of it."""
        if count < len(self._unrendered) // 2:
            return
        self._add_settled(self._rendered(b"", final=True))
        self._is_cut, self._left_to_keep = True, 0
        self._total += count
        self._tail.clear()
        del self._unrendered[:count]

    def _add_settled(self, data: bytes) -> None:
        """Add output that can't change any more."""
        before = self._total
        self._total += len(data)
        if self._left_to_keep > 0 and self._total > self._limit.shown:
            # Until the limit is passed, the head holds all of the output.
            piece = data if before > self._limit.shown else bytes(self._head) + data
            self.to_keep += piece[: self._left_to_keep]
            self._left_to_keep -= len(piece)
            self._is_cut = self._left_to_keep < 0
        room = max(self._limit.shown + LONGEST - before, 0)
        self._head += data[:room]
        self._tail += data[room:]
        retained = self._limit.shown + 3 * LONGEST
        if len(self._tail) > 2 * retained:
            del self._tail[:-retained]

    @property
    def is_waiting(self) -> bool:
        """True if ``keep`` should be called now."""
        return self._left_to_keep > 0 and len(self.to_keep) >= PIECE_BYTES

    def keep(self, *, final: bool = False) -> None:
        """Write the output to keep to disk. Blocks. If writing fails no more is kept, and the command goes on.

        Unless ``final``, some of it waits for the next call, so that no secret is cut in two.
        """
        data, self.to_keep = self.to_keep, bytearray()
        if (masked := self._limit.masked) is not None:
            end = len(data) if final else _between_secrets(data, len(data) - LONGEST, masked)
            self.to_keep += data[end:]
            data = self._without_secrets(data[:end])
        try:
            if self.file is None:
                self.file = self._new_file()
            with self.file.open("ab") as file:
                file.write(data)
                if final and self._is_cut:
                    file.write(b"\n[... the rest was not kept ...]\n")
        except OSError:
            self._left_to_keep = 0
            self.to_keep.clear()

    def _new_file(self) -> Path:
        folder = self._limit.keep_in or Path()
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", self._limit.name)[:80] or "command"
        for number in itertools.count(1):
            path = folder / f"{stem}-{self._stream}{'' if number == 1 else f'-{number}'}.txt"
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return path
        raise AssertionError

    async def finish(self) -> None:
        """Add the output that could still change, and write the rest to disk."""
        self._add_settled(self._rendered(bytes(self._unrendered), final=True))
        if self.to_keep or self.file is not None:
            await to_thread.run_sync(partial(self.keep, final=True))

    @property
    def dropped(self) -> int:
        """Number of bytes that ``text`` leaves out."""
        return max(self._total - sum(map(len, self._shown())), 1) if self._total > self._limit.shown else 0

    def text(self) -> str:
        """Return all of the stream, or its head and tail with a line between them that says how much is missing."""
        if not self.dropped:
            return self._without_secrets(self._head).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in self._shown())
        return f"{head.rstrip()}\n[... {self.dropped} bytes left out ...]\n{tail}"

    def _shown(self) -> tuple[bytes, bytes]:
        """Return head and tail, cut at the end of a line if there is one nearby, else between two characters."""
        half = self._limit.shown // 2
        if self._total == len(self._head) + len(self._tail):
            whole = self._without_secrets(self._head + self._tail)
            head, tail = whole[:half], whole[half:][-half:]
        else:
            head, tail = self._masked_ends()
            head, tail = head[:half], tail[-half:]
        line_end = head.rfind(b"\n", half // 2) + 1
        line_start = tail.find(b"\n", 0, half // 2) + 1 if len(tail) == half else 0
        head = head[:line_end] if line_end else whole_characters(head)
        return head, tail[line_start:].lstrip(b"" if line_start else bytes(range(0x80, 0xC0)))

    def _masked_ends(self) -> tuple[bytes, bytes]:
        """Return head and tail as held in memory, without secrets, even those cut in two by the gap between them."""
        masked = self._limit.masked
        if masked is None:
            return bytes(self._head), bytes(self._tail)
        head = self._head[: _between_secrets(self._head, len(self._head) - LONGEST, masked)]
        tail = self._tail[_between_secrets(self._tail, 2 * LONGEST, masked) :]
        return self._without_secrets(head), self._without_secrets(tail)

    def _without_secrets(self, data: bytearray) -> bytes:
        if self._limit.masked is None:
            return bytes(data)
        return self._limit.masked(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def take_live(self, *, final: bool) -> OutputPiece:
        """Return the output since the last call, up to the end of the last line, or all of it if ``final``."""
        end = len(self._live) if final else max(self._live.rfind(b"\n"), self._live.rfind(b"\r")) + 1
        self._idle_calls += 1
        if not end and self._idle_calls > IDLE_CALLS and (words := WORDS.match(self._live)):
            end = words.end()
        if self._limit.masked is not None and not final:
            end = _whole_keys(self._live, end)
        if (surplus := end - LIVE_BYTES) > 0:
            masked = self._limit.masked
            end -= self._skip_live(surplus if masked is None else _between_secrets(self._live, surplus, masked))
        taken = bytes(self._live[:end])
        del self._live[:end]
        if not taken:
            return OutputPiece("")
        skipped, self._live_skipped = self._live_skipped, 0
        return OutputPiece(taken.decode(errors="replace"), self._stream, skipped)

    def _skip_live(self, count: int) -> int:
        self._live_skipped += count
        del self._live[:count]
        return count
