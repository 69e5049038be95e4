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
TOO_LONG = f"a message of more than {LONGEST_MESSAGE} bytes: it was skipped"
NO_MESSAGE = "this is no message of the protocol, or not in UTF-8"


async def serve_stdio(wire: Wire, handshake: Handshake, load: LoadServer) -> None:
    """Serve the client at the other end until it is gone; its calls are cancelled then.

    The handshake is answered while ``load`` makes the server, in a thread.
    """
    into, lines = create_memory_object_stream[bytes](0)
    async with create_task_group() as group:
        group.start_soon(wire.receive, into)
        server = await _loaded(load, wire, handshake, lines)
        if server is not None:
            await _handed_over(server, wire, handshake, lines)
        group.cancel_scope.cancel()


async def _loaded(
    load: LoadServer, wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]
) -> Server[Any] | None:
    """Answer what can be answered until there is a server, and return that; None: the client is gone before."""
    server: Server[Any] | None = None
    async with create_task_group() as group:
        group.start_soon(_greet, wire, handshake, lines, group.cancel_scope)
        server = await to_thread.run_sync(load, abandon_on_cancel=True)
        group.cancel_scope.cancel()
    return server


async def _greet(
    wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes], loading: CancelScope
) -> None:
    """Answer what can be answered, until this is cancelled; if the client goes before, so is ``loading``."""
    with suppress(OSError):
        async for line in lines:
            answer = handshake.answer(line)
            if answer is not None:
                await wire.send(answer)
    loading.cancel()


async def _handed_over(
    server: Server[Any], wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]
) -> None:
    """Have the server go on where the handshake ended."""
    to_server, inbox = create_memory_object_stream["Inbound"](0)
    outbox, from_server = create_memory_object_stream["SessionMessage"](0)

    async def deliver() -> None:
        with to_server, suppress(ClosedResourceError, BrokenResourceError, OSError):
            for line in handshake.unheard:
                await _pass_on(line, to_server, wire)
            async for line in lines:
                await _pass_on(line, to_server, wire)

    async def send_on() -> None:
        """Write what the server says. A client that takes nothing more is gone: nothing more is read from it either."""
        try:
            with from_server:
                if handshake.is_initialized:
                    await from_server.receive()  # its answer to `initialize`, which the client has
                async for item in from_server:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await wire.send(text.encode() + b"\n")
        except (OSError, EndOfStream):
            to_server.close()

    async with create_task_group() as pumps:
        pumps.start_soon(deliver)
        pumps.start_soon(send_on)
        await server.run(inbox, outbox, server.create_initialization_options())
        pumps.cancel_scope.cancel()


async def _pass_on(line: bytes, into: MemoryObjectSendStream[Inbound], wire: Wire) -> None:
    """Pass a line on as a message, or refuse it."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415  loaded with the server

    answer = declined(line)
    if answer is None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            answer = refusal(line, NO_MESSAGE if line else TOO_LONG)
        else:
            await into.send(SessionMessage(message))
    if answer is not None:
        await wire.send(answer)
