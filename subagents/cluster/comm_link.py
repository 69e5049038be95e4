"""Sends frames over a comm of Dask, which does TLS, the framing of bytes and the addresses; relays comms."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, cast

import anyio
from distributed.comm import core
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin

from subagents.process.protocol import LinkError, LinkLostError
from subagents.remote.frames import Beat, Frame, decode_frame, encode_frame
from vibe.system.errors import error_as
from vibe.system.racing import bare_task_group

BEATS = 4
"""Beats sent in the time after which a silent end counts as lost."""
MOST_QUEUED = 1_024
"""Frames that may wait to be sent before ``send`` waits, too."""
MOST_ARRIVED = 4
"""Frames that have arrived and wait for ``receive``."""
MOST_BATCH = 256
"""Frames that are sent in one message."""
MOST_BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of encoded frames after which a message takes no more."""
FLUSH_SECONDS = 3.0
"""Seconds that a closing link has to send what is queued."""
BROKEN = (OSError, ValueError, TypeError, KeyError, MemoryError)
"""Errors of a comm when the other end is gone, or sends something that Dask can't read."""


class CommLink:
    """See ``FrameLink``. Frames that have arrived wait for ``receive``; meanwhile the other end doesn't count as lost.

    A read of a comm must never be cancelled while the comm is in use, so one task reads and another writes.
    """

    def __init__(self, comm: Any, lost_seconds: float) -> None:
        self._end: LinkError | None = None
        self._comm = comm
        comm.allow_offload = False  # or Dask would estimate the size of each message before it writes it
        self._lost_seconds = lost_seconds
        self._last_heard = anyio.current_time()
        self._queue: deque[Frame] = deque()
        self._queued = anyio.Event()
        self._sent = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._arriving, self._arrived = anyio.create_memory_object_stream[Frame](MOST_ARRIVED)

    async def run(self) -> None:
        """Read, write and watch the other end until ``aclose``. Shielded, so that a cancelled owner can still send."""
        with self._scope:
            async with anyio.create_task_group() as group:
                for task in (self._read, self._write, self._watch):
                    group.start_soon(self._until_broken, task)

    def post(self, frame: Frame) -> None:
        """See ``FrameLink``."""
        if self._end is None:
            self._queue.append(frame)
            self._queued.set()

    async def send(self, frame: Frame) -> None:
        """See ``FrameLink``."""
        while len(self._queue) >= MOST_QUEUED and self._end is None:
            await self._sent.wait()
        self.post(frame)

    async def receive(self) -> Frame:
        """See ``FrameLink``."""
        with error_as(anyio.EndOfStream, lambda _: self._end or LinkLostError("it was closed")):
            return await self._arrived.receive()

    async def aclose(self) -> None:
        """End the link once everything queued has been sent, after FLUSH_SECONDS at the latest. Drop what has arrived.

        Its tasks end.
        """
        with anyio.move_on_after(FLUSH_SECONDS, shield=True):
            while self._queue and self._end is None:
                await self._sent.wait()
        self._stop(LinkLostError("it was closed"))
        self._scope.cancel()
        self._arrived.close()

    async def _until_broken(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except BROKEN as error:
            # Dask's own text begins with the comm and its addresses, which the reader knows.
            self._stop(LinkLostError(f"the link broke: {str(error).rpartition('>: ')[2] or type(error).__name__}"))

    async def _read(self) -> None:
        with self._arriving:
            try:
                while True:
                    await self._deliver(await self._comm.read())
            except LinkError as error:
                self._stop(error)

    async def _deliver(self, message: object) -> None:
        """Deliver the frames of a message. Meanwhile, the other end doesn't count as lost."""
        self._last_heard = math.inf
        for data in cast("tuple[object, ...]", message) if isinstance(message, tuple) else (message,):
            frame = decode_frame(data)
            if not isinstance(frame, Beat):
                await self._arriving.send(frame)
        self._last_heard = anyio.current_time()

    async def _write(self) -> None:
        while self._end is None:
            with anyio.move_on_after(self._lost_seconds / BEATS):
                await self._queued.wait()
            await self._flush()

    async def _flush(self) -> None:
        """Write the next frames in one message, or a beat, and only then remove them from the queue."""
        if not self._queue:
            self._queue.append(Beat())
        frames: list[bytes] = []
        for frame in islice(self._queue, MOST_BATCH):
            frames.append(encode_frame(frame))
            if sum(map(len, frames)) > MOST_BATCH_BYTES:
                break
        await _write_through(self._comm, frames if len(frames) > 1 else frames[0])  # hellos go alone, as ever
        for _ in frames:
            self._queue.popleft()
        if not self._queue:
            self._queued = anyio.Event()
        self._sent.set()
        self._sent = anyio.Event()

    async def _watch(self) -> None:
        """End the link once nothing has been heard for too long."""
        while self._end is None:
            silent = anyio.current_time() - self._last_heard
            if silent > self._lost_seconds:
                self._stop(LinkLostError(f"no word for {self._lost_seconds:g} s"))
            await anyio.sleep(max(0.05, min(self._lost_seconds - silent, self._lost_seconds / BEATS)))

    def _stop(self, why: LinkError) -> None:
        if self._end is None:
            self._end = why
            self._comm.abort()  # this ends the reader and the writer
            self._queued.set()
            self._sent.set()


@asynccontextmanager
async def comm_link(comm: Any, lost_seconds: float) -> AsyncGenerator[CommLink]:
    """Yield a link over a comm, and close it at the end of the block."""
    link = CommLink(comm, lost_seconds)
    async with bare_task_group() as group:
        group.start_soon(link.run)
        try:
            yield link
        finally:
            await link.aclose()


RELAY = "vibe_relay"
"""The scheduler's handler that a run calls instead of a worker's ``vibe_link``."""
LINK_SECONDS = 3.0
"""Seconds that connecting may take."""
_COMM: Any = core


class RelayPlugin(SchedulerPlugin):
    """Passes on unread what a run and a worker send each other, if the run can reach only the scheduler.

    A run registers it with the scheduler when it first needs it.
    """

    name = RELAY
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Register the handler for runs' calls. Dask calls this."""
        self._workers = scheduler.workers
        self._security = scheduler.security
        scheduler.handlers[RELAY] = self.relay

    async def relay(self, comm: Any, to: str, **call: object) -> Status:
        """Connect to a worker of this scheduler, and pass messages on in both directions until one end leaves."""
        try:
            if to in self._workers:
                security = self._security.get_connection_args("scheduler")
                other = await call_handler(to, security, {**call, "op": "vibe_link", "reply": False})
                async with anyio.create_task_group() as group:
                    group.start_soon(_pass_on, comm, other)
                    group.start_soon(_pass_on, other, comm)
        except BROKEN:
            pass  # both ends notice that their link has ended
        finally:
            comm.abort()
        return Status.dont_reply


async def call_handler(address: str, security: Mapping[str, Any], call: Mapping[str, object]) -> Any:
    """Connect to ``address``, call a handler, and return the comm, which leads to the handler from then on.

    Raises the errors of Dask, see ``BROKEN``.
    """
    comm = await _COMM.connect(address, timeout=LINK_SECONDS, deserialize=False, **security)
    await comm.write(call)
    return comm


async def _write_through(comm: Any, message: object) -> None:
    """Write to a comm, and wait until the system has the message; Dask itself would buffer without limit."""
    await comm.write(message)
    stream = getattr(comm, "stream", None)
    if stream is not None and stream.writing():
        await stream.write(b"")


async def _pass_on(source: Any, sink: Any) -> None:
    try:
        while True:
            await _write_through(sink, await source.read())
    except BROKEN:
        source.abort()  # this ends the other direction, too
        sink.abort()
