"""Links between a run and a step, without a process: both ends are in one event loop."""

from __future__ import annotations

import socket
from collections import deque
from typing import TypeAlias

import anyio
import anyio.lowlevel

from subagents.process.transport import SocketTransport


class MemoryTransport:
    """One end of a link; see ``subagents.process.transport.Transport``."""

    def __init__(self) -> None:
        self.other: MemoryTransport = self
        self._arrived: deque[bytes] = deque()
        self._changed = anyio.Event()
        self._closed = False

    def post(self, line: bytes) -> None:
        """Send a line without waiting."""
        if not self._closed:
            self.other.arrive(line)

    async def send(self, line: bytes) -> None:
        """Send a line."""
        await anyio.lowlevel.checkpoint()
        self.post(line)

    async def receive(self) -> bytes | None:
        """Return the next line, or None once either end is closed."""
        await anyio.lowlevel.checkpoint()
        while not self._arrived:
            if self.other.is_closed or self._closed:
                return None
            await self._changed.wait()
        return self._arrived.popleft()

    def close(self) -> None:
        """Close this end and wake the other."""
        self._closed = True
        self._wake()
        self.other.notice()

    @property
    def is_closed(self) -> bool:
        """True once this end is closed."""
        return self._closed

    def arrive(self, data: bytes) -> None:
        """Take whole lines from the other end."""
        if not self._closed:
            self._arrived += data.removesuffix(b"\n").split(b"\n")
            self._wake()

    def notice(self) -> None:
        """Check whether the other end has closed."""
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


End: TypeAlias = MemoryTransport | SocketTransport
"""One end of a link, which its owner closes."""


def memory_link() -> tuple[MemoryTransport, MemoryTransport]:
    """Return both ends of a link in memory."""
    one, other = MemoryTransport(), MemoryTransport()
    one.other, other.other = other, one
    return one, other


def socket_link() -> tuple[SocketTransport, SocketTransport]:
    """Return both ends of a link over a real socket."""
    one, other = socket.socketpair()
    return SocketTransport(one), SocketTransport(other)
