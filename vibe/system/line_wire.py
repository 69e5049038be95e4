"""The wire of a protocol over standard input and output: one message a line, and nothing else is ever printed there."""

from __future__ import annotations

import os
import select
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from threading import Thread

from anyio import BrokenResourceError, CancelScope, ClosedResourceError, Lock, to_thread, wait_readable, wait_writable
from anyio.streams.memory import MemoryObjectSendStream

CHUNK_BYTES = 64 * 1024
AT_ONCE_BYTES = 4096
"""A pipe that can be written to takes so much without a wait."""
LONGEST_MESSAGE = 32 * 1024 * 1024


class Wire:
    """The way to the client: lines in, lines out, by descriptors that nothing else uses."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self._turn = Lock()

    async def send(self, line: bytes) -> None:
        """Write a line, whole even if this is cancelled.

        Raises:
            OSError: the client is gone.
        """
        with CancelScope(shield=True):
            async with self._turn:
                await write_whole(self.writing, line)

    async def receive(self, into: MemoryObjectSendStream[bytes]) -> None:
        """Pass on the client's lines until it, or the reader, closes its end; a blank one means a line too long."""
        lines = LineSplitter()
        with into, suppress(ClosedResourceError, BrokenResourceError, OSError):
            while chunk := await read_ready(self.reading):
                for line in lines.feed(chunk):
                    await into.send(line)


class LineSplitter:
    """Makes lines of chunks; ``longest`` in bytes."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._longest = longest
        self._pending = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """Yield the lines that are whole now; of one that is too long nothing but a blank."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._take(line)
            whole, skipped = bytes(self._pending), self._is_skipping
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
    """Keep standard input and output for the protocol: whatever else reads finds nothing, and whatever prints, stderr.

    It changes the process's own descriptors, so only the command that owns the process may use it. Standard output
    is not given back: at the very end libraries print what they still hold in buffers.
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
    """Pass on what is printed as long as the client reads it; what it does not take is dropped without delay."""
    with suppress(OSError):
        while chunk := os.read(printed, AT_ONCE_BYTES):
            if select.select([], [stderr], [], 0)[1]:
                os.write(stderr, chunk)


async def read_ready(source: int) -> bytes:
    """Return what is there to read; empty at the end."""
    try:
        await wait_readable(source)
    except PermissionError:  # a file, which is always ready
        return await to_thread.run_sync(os.read, source, CHUNK_BYTES)
    return os.read(source, CHUNK_BYTES)


async def write_whole(target: int, data: bytes) -> None:
    """Write all of it to a pipe; what is there of it when this is cancelled stays there.

    Raises:
        OSError: the client reads no more.
    """
    view = memoryview(data)
    while view:
        try:
            await wait_writable(target)
        except PermissionError:  # as above
            written = await to_thread.run_sync(os.write, target, view)
        else:
            written = os.write(target, view[:AT_ONCE_BYTES])
        view = view[written:]
