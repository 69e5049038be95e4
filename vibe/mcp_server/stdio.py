"""The server over standard input and output, a line of JSON each message, and its first answers while it is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
from anyio import create_memory_object_stream, create_task_group, to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vibe import __version__
from vibe.mcp_server.protocol import DISCOVER, INSTRUCTIONS, SERVER_NAME, SERVER_TITLE, LazyRuntime, load_server
from vibe.mcp_server.tools import TOOLS
from vibe.system.line_wire import LONGEST_MESSAGE, Wire
from vibe.system.racing import unless

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.shared.message import SessionMessage

    Inbound: TypeAlias = SessionMessage | Exception

VERSIONS = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions in which the answers look so; a client with another one waits for the library."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
TOO_LONG = f"a message of more than {LONGEST_MESSAGE} bytes: it was skipped"
NO_MESSAGE = "this is no message of the protocol, or not in UTF-8"


async def serve_stdio(wire: Wire, runtime: LazyRuntime) -> None:
    """Serve the client at the other end until it is gone; its calls are cancelled then.

    The handshake is answered while the library's server is made, in a thread.
    """
    handshake = Handshake(runtime.wanted.set)
    into, lines = create_memory_object_stream[bytes](0)
    async with lines, create_task_group() as group:
        group.start_soon(wire.receive, into)
        greeting = partial(_greet, wire, handshake, lines)
        made = await unless(greeting, lambda: to_thread.run_sync(load_server, runtime, abandon_on_cancel=True))
        if made:
            await _handed_over(made[0], wire, handshake, lines)
        group.cancel_scope.cancel()


class Handshake:
    """The answers to ``initialize``, ``ping`` and ``tools/list``, which are the same for every client.

    ``unheard`` are the lines that the library must hear of: what it has to answer, and before that the ``initialize``
    that was answered here, if it ``is_initialized``. ``listed`` is called when a client has seen the tools.
    """

    def __init__(self, listed: Callable[[], object]) -> None:
        self.unheard: list[bytes] = []
        self.is_initialized = False
        self._listed = listed

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message; None: it has to wait for the library."""
        request = _request(line)
        answer = None if request is None else self._answered(request, line)
        if answer is None:
            self.unheard.append(line)
        return answer

    def _answered(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        match request.get("method"):
            case "initialize" if not self.is_initialized:
                return self._initialized(request, line)
            case "ping":
                return _line(request["id"], result={})
            case "tools/list" if self.is_initialized:
                self._listed()
                return _line(request["id"], result={"tools": [tool.listed() for tool in TOOLS]})
            case _:
                return _declined(line)

    def _initialized(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        params = request.get("params")
        wanted = cast("Mapping[str, Any]", params).get("protocolVersion") if isinstance(params, dict) else None
        if wanted not in VERSIONS:
            return None
        self.unheard.insert(0, line)
        self.is_initialized = True
        result = {
            "capabilities": {"tools": {"listChanged": False}},
            "instructions": INSTRUCTIONS,
            "protocolVersion": wanted,
            "serverInfo": {"name": SERVER_NAME, "title": SERVER_TITLE, "version": __version__},
        }
        return _line(request["id"], result=result)


async def _greet(wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]) -> None:
    """Answer what can be answered, until the client is gone."""
    with suppress(OSError):
        async for line in lines:
            answer = handshake.answer(line)
            if answer is not None:
                await wire.send(answer)


async def _handed_over(
    server: Server[Any], wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]
) -> None:
    """Have the server go on where the handshake ended."""
    to_server, inbox = create_memory_object_stream["Inbound"](0)
    outbox, from_server = create_memory_object_stream["SessionMessage"](0)

    async def deliver() -> None:
        with to_server, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
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
        except (OSError, anyio.EndOfStream):
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

    answer = _declined(line)
    if answer is None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            answer = _refusal(line, NO_MESSAGE if line else TOO_LONG)
        else:
            await into.send(SessionMessage(message))
    if answer is not None:
        await wire.send(answer)


def _declined(line: bytes) -> bytes | None:
    """Return the refusal of a request that begins a connection on which we could not ask a person; None: it is none.

    Clients that make it go on with ``initialize``, and can be asked then.
    """
    if DISCOVER.encode() not in line:
        return None
    request = _request(line)
    if request is None or request.get("method") != DISCOVER:
        return None
    return _line(request["id"], error={"code": METHOD_NOT_FOUND, "message": "Method not found", "data": DISCOVER})


def _refusal(line: bytes, problem: str) -> bytes | None:
    """Return the answer to a line that is no message; None: it is meant as an answer itself, and gets none."""
    try:
        fields = _fields(line)
    except (ValueError, RecursionError):
        return _line(None, error={"code": PARSE_ERROR, "message": problem})
    if {"result", "error"} & fields.keys():
        return None
    given = fields.get("id")
    request_id = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    return _line(request_id, error={"code": INVALID_REQUEST, "message": problem})


def _request(line: bytes) -> dict[str, Any] | None:
    """Return the request of a line; None: it is none that could be answered at once."""
    with suppress(ValueError, RecursionError):
        request = _fields(line)
        if isinstance(request.get("id"), str | int) and isinstance(request.get("method"), str):
            return request
    return None


def _fields(line: bytes) -> dict[str, Any]:
    """Return the fields of a line's object; of anything else, none."""
    message = json.loads(line) if line else None
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


def _line(request_id: str | int | None, **said: Mapping[str, Any]) -> bytes:
    """Return the answer to a request as a line."""
    message = {"jsonrpc": "2.0", "id": request_id, **said}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
