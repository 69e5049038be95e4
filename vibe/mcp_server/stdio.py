"""The server over standard input and output: one line of JSON a message, and nothing else is ever printed there."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import (
    BrokenResourceError,
    CancelScope,
    ClosedResourceError,
    EndOfStream,
    Lock,
    create_memory_object_stream,
    create_task_group,
    to_thread,
    wait_readable,
    wait_writable,
)
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vibe.mcp_server.greeting import Greeting, declined

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.shared.message import SessionMessage

    Inbound: TypeAlias = SessionMessage | Exception

LoadServer: TypeAlias = "Callable[[], Server[Any]]"
"""Makes the library's server; takes long."""
CHUNK_BYTES = 64 * 1024
AT_ONCE_BYTES = 4096
"""A pipe that can be written to takes so much without a wait."""
LONGEST_MESSAGE = 32 * 1024 * 1024


class OversizedMessageError(ValueError):
    """A line that is longer than any message may be; it is skipped."""

    def __init__(self) -> None:
        super().__init__(f"a message of more than {LONGEST_MESSAGE} bytes")


class Wire:
    """The way to the client: lines in, lines out, by descriptors that nobody else has."""

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
                await _write(self.writing, line)

    async def receive(self, into: MemoryObjectSendStream[bytes]) -> None:
        """Pass on the lines of the client until it closes its end, or nobody listens any more; blank: one too long."""
        lines = LineSplitter()
        with into, suppress(ClosedResourceError, BrokenResourceError, OSError):
            while chunk := await _read(self.reading):
                for line in lines.feed(chunk):
                    await into.send(line)


class LineSplitter:
    """Makes lines of chunks."""

    def __init__(self) -> None:
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
        if self._is_skipping or len(self._pending) + len(part) > LONGEST_MESSAGE:
            self._is_skipping = True
            self._pending.clear()
        else:
            self._pending += part


@contextmanager
def claimed_wire() -> Generator[Wire]:
    """Keep standard input and output for the protocol: whatever else reads or prints meanwhile meets nothing or stderr.

    It changes the process's own descriptors, so only the command that owns the process may use it.
    """
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield wire
    finally:
        os.dup2(wire.reading, 0)
        os.dup2(wire.writing, 1)
        os.close(wire.reading)
        os.close(wire.writing)


async def serve_stdio(wire: Wire, greeting: Greeting, load: LoadServer) -> None:
    """Serve the client at the other end until it is gone; its calls are cancelled then.

    It is greeted while ``load`` makes the server, in a thread.
    """
    into, lines = create_memory_object_stream[bytes](0)
    reception = Reception(wire, greeting, lines)
    async with create_task_group() as group:
        group.start_soon(wire.receive, into)
        server = await reception.greet(load)
        if server is not None:
            await _handed_over(server, reception)
        group.cancel_scope.cancel()


class Reception:
    """The time before there is a server. ``held`` are the lines that it must hear of."""

    def __init__(self, wire: Wire, greeting: Greeting, lines: MemoryObjectReceiveStream[bytes]) -> None:
        self.wire = wire
        self.greeting = greeting
        self.lines = lines
        self.held: list[bytes] = []
        self._is_over = False

    async def greet(self, load: LoadServer) -> Server[Any] | None:
        """Answer what can be answered until there is a server, and return that; None: the client is gone before."""
        server: Server[Any] | None = None
        async with create_task_group() as group:
            group.start_soon(self._answer, group.cancel_scope)
            server = await to_thread.run_sync(load, abandon_on_cancel=True)
            group.cancel_scope.cancel()
        return None if self._is_over else server

    async def _answer(self, waiting: CancelScope) -> None:
        with suppress(OSError):
            async for line in self.lines:
                await self._take(line)
        self._is_over = True
        waiting.cancel()

    async def _take(self, line: bytes) -> None:
        said = self.greeting.answer(line)
        if said is None:
            self.held.append(line)
        else:
            await self.wire.send(said)


async def _handed_over(server: Server[Any], before: Reception) -> None:
    """Have the server go on where the greeting ended."""
    to_server, inbox = create_memory_object_stream["Inbound"](0)
    outbox, from_server = create_memory_object_stream["SessionMessage"](0)
    async with create_task_group() as pumps:
        pumps.start_soon(_deliver, before, to_server)
        pumps.start_soon(_send_on, before, from_server, to_server)
        await server.run(inbox, outbox, server.create_initialization_options())
        pumps.cancel_scope.cancel()


async def _deliver(before: Reception, into: MemoryObjectSendStream[Inbound]) -> None:
    """Pass the lines on as messages: first the one that the client has its answer to, for the server to know it."""
    told = () if before.greeting.initialize is None else (before.greeting.initialize,)
    with into, suppress(ClosedResourceError, BrokenResourceError, OSError):
        for line in (*told, *before.held):
            await into.send(_message(line))
        async for line in before.lines:
            refusal = declined(line)
            await (into.send(_message(line)) if refusal is None else before.wire.send(refusal))


def _message(line: bytes) -> Inbound:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415  loaded with the server

    if not line:
        return OversizedMessageError()
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _send_on(
    before: Reception, messages: MemoryObjectReceiveStream[SessionMessage], reading: MemoryObjectSendStream[Inbound]
) -> None:
    """Write what the server says. A client that takes nothing more is gone: nothing more is read from it either."""
    try:
        with messages:
            if before.greeting.initialize is not None:
                await messages.receive()  # its answer to `initialize`, which the client has
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await before.wire.send(text.encode() + b"\n")
    except (OSError, EndOfStream):
        reading.close()


async def _read(source: int) -> bytes:
    """Return what is there to read; empty at the end."""
    try:
        await wait_readable(source)
    except PermissionError:  # a file, which is always ready
        return await to_thread.run_sync(os.read, source, CHUNK_BYTES)
    return os.read(source, CHUNK_BYTES)


async def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            await wait_writable(target)
        except PermissionError:  # as above
            written = await to_thread.run_sync(os.write, target, view)
        else:
            written = os.write(target, view[:AT_ONCE_BYTES])
        view = view[written:]
