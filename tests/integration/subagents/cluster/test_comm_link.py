"""What a link writes to its comm, and what it says of the other end's leaving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import anyio
import pytest
from distributed.comm.core import CommClosedError

from subagents.cluster.comm_link import comm_link
from subagents.process.protocol import LinkLostError
from subagents.remote.frames import Frame, LineBatch, PackPart, ProcessReady


@dataclass
class PipedComm:
    """A comm whose reader gets what is written, until it is aborted."""

    allow_offload: bool = True
    written: list[object] = field(default_factory=list[object])
    _more: anyio.Event = field(default_factory=anyio.Event)
    _read: int = 0
    _is_closed: bool = False

    async def write(self, message: object) -> None:
        await anyio.lowlevel.checkpoint()
        self.written.append(tuple(cast("list[object]", message)) if isinstance(message, list) else message)
        self._more.set()

    async def read(self) -> object:
        while self._read == len(self.written) and not self._is_closed:
            self._more = anyio.Event()
            await self._more.wait()
        if self._is_closed:
            raise CommClosedError("in <TLS (closed)  local=tls://10.0.0.1:1 remote=tls://10.0.0.2:2>: Stream is closed")
        self._read += 1
        return self.written[self._read - 1]

    def abort(self) -> None:
        self._is_closed = True
        self._more.set()


async def test_frames_that_wait_go_in_one_message_and_arrive_in_order() -> None:
    comm = PipedComm()
    sent: list[Frame] = [LineBatch((b"a",)), PackPart(b"b"), LineBatch((b"c",)), ProcessReady()]
    async with comm_link(comm, 20) as link:
        for frame in sent:
            link.post(frame)
        arrived = [await link.receive() for _ in sent]

    assert arrived == sent
    assert len(comm.written) == 1
    assert not comm.allow_offload, "no message is measured before it is written"


async def test_a_frame_alone_is_a_message_as_in_earlier_versions() -> None:
    comm = PipedComm()
    async with comm_link(comm, 20) as link:
        link.post(ProcessReady())
        assert await link.receive() == ProcessReady()

    assert isinstance(comm.written[0], bytes), "so that another version can read the hello, and is named"


async def test_the_end_of_a_link_is_said_without_addresses() -> None:
    comm = PipedComm()
    async with comm_link(comm, 20) as link:
        comm.abort()
        with pytest.raises(LinkLostError, match=r"^the link broke: Stream is closed$"):
            await link.receive()
