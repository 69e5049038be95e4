"""Links and what they lead to: two ports, and the link of lines over a socket to a process of this machine."""

from __future__ import annotations

import socket
from collections import deque
from typing import Protocol, TypeAlias, TypeVar

import anyio
from anyio import wait_readable, wait_writable

from subagents.process.protocol import LinkError

CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; a longer message is invalid."""


T = TypeVar("T")


class Link(Protocol[T]):
    """One end of a link. What is sent comes out whole at the other end, after all sent before it, or not at all."""

    def post(self, message: T, /) -> None:
        """Send something; lost if the other end can't get it. A line is out of this process when this returns."""
        ...

    async def send(self, message: T, /) -> None:
        """Send something once there is room for it, and let others work meanwhile; lost if the other end is gone."""
        ...

    async def receive(self) -> T | None:
        """Return what comes next, a line without its end; None once the other end is gone and there is no more.

        Raises:
            LinkError: it is invalid, or a line without an end.
        """
        ...

    def close(self) -> None:
        """Leave; the other end gets what was sent, and then the end."""
        ...


Transport: TypeAlias = Link[bytes]
"""A link of lines."""


class Carrier(Protocol):
    """The place where an attempt is made. The taker must call ``end`` in every case."""

    @property
    def link(self) -> Transport:
        """The run's end of the attempt's link."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code of that, negative for a signal; None: unknown, or it runs."""
        ...

    @property
    def printed(self) -> str:
        """The end of what it printed."""
        ...

    @property
    def why_lost(self) -> str:
        """The reason why nothing is known of it any more; blank: it is not lost."""
        ...

    async def listen(self) -> None:
        """Take what it prints."""
        ...

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Wait so long for it to leave, then see to it that it is gone. Shielded."""
        ...


class Lines:
    """Cuts what arrives into lines. One that is torn off by the end never comes out."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are whole by now.

        Raises:
            LinkError: one of them has no end.
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
        """Send a line; where the other end does not keep up, the process waits."""
        try:
            self._link.sendall(line)
        except OSError:
            return  # the other end is gone: `receive` finds out

    async def send(self, line: bytes) -> None:
        """Send a line, and let others work meanwhile."""
        view = memoryview(line)
        async with self._sending:
            while view:
                try:
                    view = view[self._link.send(view, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    await wait_writable(self._link)
                except OSError:
                    return

    async def receive(self) -> bytes | None:
        """Return the next line; see ``Transport``."""
        while not self._arrived:
            await wait_readable(self._link)
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
