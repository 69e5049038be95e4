"""The wire of a protocol over standard input and output, one message per line. Nothing else is ever printed there."""

from __future__ import annotations

import os
import select
from codecs import BOM_UTF8
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from threading import Thread

from anyio import BrokenResourceError, CancelScope, ClosedResourceError, Lock, to_thread, wait_readable, wait_writable
from anyio.streams.memory import MemoryObjectSendStream

CHUNK_BYTES = 64 * 1024
"""The most bytes of one read."""
AT_ONCE_BYTES = 4096
"""The number of bytes that a pipe which is ready for writing accepts without blocking."""
LONGEST_MESSAGE = 32 * 1024 * 1024
"""The most bytes of one message."""


class Wire:
    """The connection to the client: lines in and lines out, on descriptors that nothing else uses."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self._turn = Lock()

    async def send(self, line: bytes) -> None:
        """Write a line, completely even if cancelled.

        Raises:
            OSError: the client is gone.
        """
        with CancelScope(shield=True):
            async with self._turn:
                await write_whole(self.writing, line)

    async def receive(self, into: MemoryObjectSendStream[bytes]) -> None:
        """Pass on the client's lines until the client or the receiver closes.

        An empty line stands for one that was too long.
        """
        lines = LineSplitter()
        with into, suppress(ClosedResourceError, BrokenResourceError, OSError):
            while chunk := await read_ready(self.reading):
                for line in lines.feed(chunk):
                    await into.send(line)


class LineSplitter:
    """Splits chunks into lines of at most ``longest`` bytes, without the byte-order mark that may begin one."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._longest = longest
        self._pending = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """Yield the lines that are complete now. A line that is too long is yielded as an empty one."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._take(line)
            whole, skipped = bytes(self._pending).removeprefix(BOM_UTF8), self._is_skipping
            self._pending.clear()
            self._is_skipping = False
            if skipped or whole.strip():
                yield b"" if skipped else whole
        self._take(rest)

    def _take(self, part: bytes) -> None:
        if self._is_skipping or len(self._pending) + len(part) > self._longest:
            self._is_skipping = True
            self._pending.clear()
        else:
            self._pending += part


@contextmanager
def claimed_wire() -> Generator[Wire]:
    """Reserve standard input and output for the protocol: other readers find nothing, and other output goes to stderr.

    This changes the process's own descriptors, so only the command that owns the process may use it. Standard output is
    not restored, because at the very end libraries print what is left in their buffers.
    """
    wire, stderr = Wire(os.dup(0), os.dup(1)), os.dup(2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    printed, printing = os.pipe()
    os.dup2(nothing, 0)
    os.dup2(printing, 1)
    os.dup2(printing, 2)
    os.close(nothing)
    os.close(printing)
    Thread(target=_pass_on, args=(printed, os.dup(stderr)), daemon=True).start()
    try:
        yield wire
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(wire.reading)
        os.close(wire.writing)


def _pass_on(printed: int, stderr: int) -> None:
    """Pass on what is printed for as long as the client reads it. What it does not accept at once is dropped."""
    with suppress(OSError):
        while chunk := os.read(printed, AT_ONCE_BYTES):
            if select.select([], [stderr], [], 0)[1]:
                os.write(stderr, chunk)


async def read_ready(source: int) -> bytes:
    """Return whatever can be read, or nothing at the end."""
    try:
        await wait_readable(source)
    except PermissionError:  # It is a file, which is always ready.
        return await to_thread.run_sync(os.read, source, CHUNK_BYTES)
    return os.read(source, CHUNK_BYTES)


async def write_whole(target: int, data: bytes) -> None:
    """Write all bytes to a pipe. Those written before a cancellation stay written.

    Raises:
        OSError: the client no longer reads.
    """
    view = memoryview(data)
    while view:
        try:
            await wait_writable(target)
        except PermissionError:  # It is a file, as above.
            written = await to_thread.run_sync(os.write, target, view)
        else:
            written = os.write(target, view[:AT_ONCE_BYTES])
        view = view[written:]
