"""The server over standard input and output: one line of JSON a message."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import (
    BrokenResourceError,
    CancelScope,
    ClosedResourceError,
    EndOfStream,
    create_memory_object_stream,
    create_task_group,
    to_thread,
)
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vibe.core.system.line_wire import LONGEST_MESSAGE, Wire
from vibe.mcp_server.handshake import Handshake, declined, refusal

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.shared.message import SessionMessage

    Inbound: TypeAlias = SessionMessage | Exception

LoadServer: TypeAlias = "Callable[[], Server[Any]]"
"""Makes the library's server; takes long."""


class InvalidMessageError(ValueError):
    """A line that is no message of the protocol."""


async def serve_stdio(wire: Wire, handshake: Handshake, load: LoadServer) -> None:
    """Serve the client at the other end until it is gone; its calls are cancelled then.

    The handshake is answered while ``load`` makes the server, in a thread.
    """
    into, lines = create_memory_object_stream[bytes](0)
    startup = Startup(wire, handshake, lines)
    async with create_task_group() as group:
        group.start_soon(wire.receive, into)
        server = await startup.answer_while(load)
        if server is not None:
            await _handed_over(server, startup)
        group.cancel_scope.cancel()


class Startup:
    """The time before there is a server. ``held`` are the lines that it must hear of."""

    def __init__(self, wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]) -> None:
        self.wire = wire
        self.handshake = handshake
        self.lines = lines
        self.held: list[bytes] = []
        self._is_over = False

    async def answer_while(self, load: LoadServer) -> Server[Any] | None:
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
        said = self.handshake.answer(line)
        if said is None:
            self.held.append(line)
        else:
            await self.wire.send(said)


async def _handed_over(server: Server[Any], before: Startup) -> None:
    """Have the server go on where the handshake ended."""
    to_server, inbox = create_memory_object_stream["Inbound"](0)
    outbox, from_server = create_memory_object_stream["SessionMessage"](0)
    async with create_task_group() as pumps:
        pumps.start_soon(_deliver, before, to_server)
        pumps.start_soon(_send_on, before, from_server, to_server)
        await server.run(inbox, outbox, server.create_initialization_options())
        pumps.cancel_scope.cancel()


async def _deliver(before: Startup, into: MemoryObjectSendStream[Inbound]) -> None:
    """Pass the lines on as messages: first the one that the client has its answer to, for the server to know it."""
    told = () if before.handshake.initialize is None else (before.handshake.initialize,)
    with into, suppress(ClosedResourceError, BrokenResourceError, OSError):
        for line in (*told, *before.held):
            await _pass_on(line, before, into)
        async for line in before.lines:
            await _pass_on(line, before, into)


async def _pass_on(line: bytes, before: Startup, into: MemoryObjectSendStream[Inbound]) -> None:
    """Pass a line on as a message, or refuse it."""
    answer = declined(line)
    message: SessionMessage | None = None
    if answer is None:
        try:
            message = _message(line)
        except InvalidMessageError as error:
            answer = refusal(line, str(error))
    if message is not None:
        await into.send(message)
    elif answer is not None:
        await before.wire.send(answer)


def _message(line: bytes) -> SessionMessage:
    """Return the message of a line.

    Raises:
        InvalidMessageError: it is none.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415  loaded with the server

    if not line:
        raise InvalidMessageError(f"a message of more than {LONGEST_MESSAGE} bytes: it was skipped")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        raise InvalidMessageError("this is no message of the protocol, or not in UTF-8") from error


async def _send_on(
    before: Startup, messages: MemoryObjectReceiveStream[SessionMessage], reading: MemoryObjectSendStream[Inbound]
) -> None:
    """Write what the server says. A client that takes nothing more is gone: nothing more is read from it either."""
    try:
        with messages:
            if before.handshake.initialize is not None:
                await messages.receive()  # its answer to `initialize`, which the client has
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await before.wire.send(text.encode() + b"\n")
    except (OSError, EndOfStream):
        reading.close()
