"""The ports for links and for what is at their other end, and the link over a socket to a process on this machine."""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar

import anyio

from subagents.process.protocol import LinkError

CHUNK_BYTES = 256 * 1024
"""Bytes that are read from a socket at once."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of the longest valid message."""


T = TypeVar("T")


class Link(Protocol[T]):
    """One end of a link. Messages arrive whole and in order, or not at all."""

    async def send(self, message: T, /) -> None:
        """Send a message once there is room for it, without blocking the loop. It is lost if the other end is gone."""

    async def receive(self) -> T | None:
        """Return the next message (a line without its newline), or None once the other end has ended and all is read.

        Raises:
            LinkLostError: the other end was lost rather than ended, and all is read.
            LinkError: the message is invalid, or the line too long.
        """
        ...


Transport: TypeAlias = Link[bytes]
"""A link of lines."""


class PostingTransport(Transport, Protocol):
    """A link of lines whose owner may not wait."""

    def post(self, line: bytes, /) -> None:
        """Send a line, which is lost if the other end is gone. It has left this process when this returns."""


class Carrier(Protocol):
    """The place where an attempt runs. Whoever takes it must call ``end`` in every case."""

    @property
    def link(self) -> Transport:
        """The run's end of the attempt's link."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None if it is unknown or it still runs."""
        ...

    @property
    def printed(self) -> str:
        """The end of its output."""
        ...

    async def listen(self) -> None:
        """Read its output until that ends, if it comes meanwhile."""

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Give it ``grace_seconds`` to exit, then make sure that it is gone. Shielded from cancellation."""


class Lines:
    """Splits what arrives into lines. A last line that was cut off is dropped."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are now complete.

        Raises:
            LinkError: a line is longer than LONGEST_LINE.
        """
        *whole, rest = data.split(b"\n")
        lines: list[bytes] = []
        for line in whole:
            self._pending += line
            lines.append(bytes(self._pending))
            self._pending.clear()
        self._pending += rest
        if len(self._pending) > LONGEST_LINE:
            raise LinkError(f"a message of more than {LONGEST_LINE} bytes")
        return lines


class SocketTransport:
    """A link over a connected, blocking socket; see ``Transport``."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lines = Lines()
        self._arrived: deque[bytes] = deque()
        self._sending = anyio.Lock()

    def post(self, line: bytes) -> None:
        """Send a line. This blocks the process while the other end does not keep up."""
        with suppress(OSError):  # the other end is gone, as `receive` will find out
            self._link.sendall(line)

    async def send(self, line: bytes) -> None:
        """Send a line without blocking the loop."""
        view = memoryview(line)
        async with self._sending:
            while view:
                try:
                    view = view[self._link.send(view, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._link)
                except OSError:
                    return

    async def receive(self) -> bytes | None:
        """Return the next line; see ``Transport``."""
        while not self._arrived:
            await anyio.wait_readable(self._link)
            try:
                data = self._link.recv(CHUNK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError:
                return None
            if not data:
                return None
            self._arrived += self._lines.feed(data)
        return self._arrived.popleft()

    def close(self) -> None:
        """Close the socket."""
        self._link.close()
