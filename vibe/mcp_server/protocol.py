"""Serves our tools with the MCP library, and holds the runtime behind all calls.

The library is loaded here, and the runtime during the handshake. Over standard input and output, where each message is
a line of JSON, the first answers are given while the library is loaded. Over streamable HTTP, which is open to this
machine alone, clients have to know the token.
"""

from __future__ import annotations

import json
import logging
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct, field
from pydantic import ValidationError

from ipc.errors import IpcError
from vibe import __version__
from vibe.app.engine.host import Host, refuse_below_two
from vibe.core.schemas import table_of, text_in
from vibe.core.tools.mcp.client import load_library
from vibe.core.tools.mcp.sieve import encoded
from vibe.core.tools.schema import describe_problems
from vibe.mcp_server.tools import GONE, SESSION_HEADER, TOOLS, CallArguments, Caller, ToolAnswer
from vibe.system.errors import VibeError, closest, did_you_mean, in_full, unexpected
from vibe.system.line_wire import LONGEST_MESSAGE, Wire
from vibe.system.loopback import bearer, is_token, serve
from vibe.system.racing import unless

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

    from vibe.mcp_server.served_plan import ServedPlans

    RequestContext: TypeAlias = ServerRequestContext[Any, Any]
    Inbound: TypeAlias = SessionMessage | Exception
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


logger = logging.getLogger(__name__)

MOST_PROBLEMS = 10


class LazyRuntime:
    """Loads the runtime on demand and calls the tools in it.

    The runtime is loaded once ``wanted`` is set, before the first call comes. With ``auto_approve``, agents may do what
    a person would otherwise be asked about.
    """

    def __init__(self, host: Host, *, auto_approve: bool = False) -> None:
        self._host = host
        self._auto_approve = auto_approve
        self.wanted, self._ready, self._closing = anyio.Event(), anyio.Event(), anyio.Event()
        self._plans: ServedPlans | None = None
        self._calls: ModuleType

    async def run(self) -> None:
        """Load the runtime once it is wanted, and keep it until ``close``, which ends all its work.

        Cancellation takes effect only before the runtime is loaded, because plans have to be paused, which takes time.
        """
        await self.wanted.wait()
        self._calls = await anyio.to_thread.run_sync(import_module, "vibe.mcp_server.calls", abandon_on_cancel=True)
        with anyio.CancelScope(shield=True):
            async with self._calls.served_plans(self._host, auto_approve=self._auto_approve) as self._plans:
                self._ready.set()
                await self._closing.wait()

    def close(self) -> None:
        """End all work."""
        self._closing.set()

    def disconnected(self, connection: str) -> None:
        """Pause the plans that were started over a connection that has ended."""
        if self._plans is not None:
            self._plans.disconnected(connection)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool. If it can't be carried out, the answer is a sentence that says why.

        Cancelling this ends everything the call has started.
        """
        tools = {tool.name: tool for tool in TOOLS}
        tool = tools.get(name)
        if tool is None:
            hint = did_you_mean(closest(name, tools), f"there are: {', '.join(tools)}")
            return _refusal(f"there is no tool {name[:80]!r}; {hint}")
        try:
            return await self._call_when_ready(name, tool.arguments.model_validate(dict(arguments)), caller)
        except ValidationError as error:
            problems = [problem.removeprefix(": ") for problem in describe_problems(error, "")[:MOST_PROBLEMS]]
            takes = ", ".join(tool.arguments.model_fields)
            return _refusal(f"{name} can't be called so: {'; '.join(problems)}; it takes {takes}")
        except (VibeError, IpcError) as error:
            return _refusal(in_full(error))
        except Exception as error:
            logger.exception("a call of %s failed", name)
            return _refusal(unexpected(error))

    async def _call_when_ready(self, name: str, args: CallArguments, caller: Caller) -> ToolAnswer:
        """Call a tool once the runtime is loaded.

        Raises:
            UsageError: the calling agent was itself started by such a call, two levels deep.
            VibeError, ipc.errors.IpcError: the call can't be carried out. The sentence is the answer.
        """
        refuse_below_two(self._host.environ)
        self.wanted.set()
        while self._plans is None:
            await self._ready.wait()
        return await getattr(self._calls, name)(self._plans, args, caller)


def _refusal(sentence: str) -> ToolAnswer:
    return ToolAnswer(text=sentence, data={"status": "refused", "detail": sentence}, is_error=True)


SERVER_NAME, SERVER_TITLE = "vibe", "Vibe"
INSTRUCTIONS = (
    "vibe is a coding agent. call_vibe has one task done and returns its answer; give it the absolute path of the "
    "folder and all it must know. Use mode observe for questions: nothing can be changed then. plan_run has a larger "
    "task planned and carried out by several agents in the background; ask after it with plan_status and plan_result."
)
DISCOVER = "server/discover"


def load_server(runtime: LazyRuntime) -> Server[Any]:
    """Load the library and return its server for our tools. The runtime is loaded once a client has listed them."""
    load_library()
    from mcp.server import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool  # noqa: PLC0415  like the line above

    listed = [Tool.model_validate(tool.listed(), by_name=False) for tool in TOOLS]

    async def list_tools(_: RequestContext, _page: PaginatedRequestParams | None) -> ListToolsResult:
        runtime.wanted.set()
        return ListToolsResult(tools=listed)

    async def call_tool(context: RequestContext, call: CallToolRequestParams) -> CallToolResult:
        caller = Caller(context)
        work = partial(runtime.call, call.name, call.arguments or {}, caller)
        # The call is given up when its client hangs up, because its answer could not be fetched any more.
        answers = [await work()] if caller.gone is None else await unless(caller.gone.wait, work)
        answer = answers[0] if answers else ToolAnswer(text="the client hung up", is_error=True)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=dict(answer.data),
            is_error=answer.is_error,
        )

    return Server(
        SERVER_NAME,
        version=__version__,
        title=SERVER_TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""Protocol versions whose answers look like those of ``Handshake``. A client with another one waits for the library."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
TOO_LONG = f"a message of more than {LONGEST_MESSAGE} bytes: it was skipped"
FLOAT_ID = re.compile(rb'"(?:id|requestId)"\s*:\s*-?[0-9]+\.')
"""An id written as a float, in the message itself or somewhere in it."""
NO_MESSAGE = "this is not a message of the protocol, or not in UTF-8"


async def serve_stdio(wire: Wire, runtime: LazyRuntime) -> None:
    """Serve the client at the other end until it is gone, then cancel its calls.

    The handshake is answered while the library's server is created in a thread.
    """
    handshake = Handshake(runtime.wanted.set)
    into, lines = anyio.create_memory_object_stream[bytes](0)
    async with lines, anyio.create_task_group() as group:
        group.start_soon(wire.receive, into)
        greeting = partial(_greet, wire, handshake, lines)
        servers = await unless(greeting, lambda: anyio.to_thread.run_sync(load_server, runtime, abandon_on_cancel=True))
        if servers:
            await _hand_over(servers[0], wire, handshake, lines)
        group.cancel_scope.cancel()


class Handshake(Struct, eq=False):
    """Answers ``initialize``, ``ping`` and ``tools/list``, whose answers are the same for every client.

    ``unheard`` are the lines to pass on to the library: the messages it has to answer and, before those, the
    ``initialize`` that was answered here, if it ``is_initialized``. ``listed`` is called when a client has listed the
    tools.
    """

    listed: Callable[[], object]
    unheard: list[bytes] = field(default_factory=list[bytes])
    is_initialized: bool = False

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message, or None if it has to wait for the library."""
        line = _with_whole_id(line)
        request = _request(line)
        answer = None if request is None else self._answer_to(request, line)
        if answer is None:
            self.unheard.append(line)
        return answer

    def _answer_to(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        match request.get("method"):
            case "initialize" if not self.is_initialized:
                return self._initialize(request, line)
            case "ping":
                return _line(request["id"], result={})
            case "tools/list" if self.is_initialized:
                self.listed()
                return _line(request["id"], result={"tools": [tool.listed() for tool in TOOLS]})
            case _:
                return _decline_discovery(line)

    def _initialize(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        wanted = text_in(table_of(request.get("params")).get("protocolVersion"))
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
    """Answer what the handshake can answer, until the client is gone."""
    with suppress(OSError):
        async for line in lines:
            answer = handshake.answer(line)
            if answer is not None:
                await wire.send(answer)


async def _hand_over(
    server: Server[Any], wire: Wire, handshake: Handshake, lines: MemoryObjectReceiveStream[bytes]
) -> None:
    """Run the server from where the handshake ended."""
    to_server, inbox = anyio.create_memory_object_stream["Inbound"](0)
    outbox, from_server = anyio.create_memory_object_stream["SessionMessage"](0)

    async def deliver() -> None:
        with to_server, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            for line in handshake.unheard:
                await _forward(line, to_server, wire)
            async for line in lines:
                await _forward(line, to_server, wire)

    async def send_on() -> None:
        """Write the server's messages. A client that can't be written to is gone, so reading from it stops too."""
        try:
            with from_server:
                if handshake.is_initialized:
                    await from_server.receive()  # drop the answer to `initialize`, which the client already has
                async for item in from_server:
                    await wire.send(encoded(item.message).encode() + b"\n")
        except (OSError, anyio.EndOfStream):
            to_server.close()

    async with anyio.create_task_group() as pumps:
        pumps.start_soon(deliver)
        pumps.start_soon(send_on)
        await server.run(inbox, outbox, server.create_initialization_options())
        pumps.cancel_scope.cancel()


async def _forward(line: bytes, into: MemoryObjectSendStream[Inbound], wire: Wire) -> None:
    """Pass a line on to the server as a message, or refuse it."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415  loaded with the server

    line = _with_whole_id(line)
    answer = _decline_discovery(line)
    if answer is None:
        message = None
        with suppress(ValueError):
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        # The library takes a request with an odd id for a notification.
        if message is None or (not hasattr(message, "id") and "id" in _fields(line)):
            answer = _error_for(line, NO_MESSAGE if line else TOO_LONG)
        else:
            await into.send(SessionMessage(message))
    if answer is not None:
        await wire.send(answer)


def _decline_discovery(line: bytes) -> bytes | None:
    """Return the refusal of ``server/discover``, or None if the line is something else.

    It begins a connection on which we could not ask a person. Clients that are refused go on with ``initialize``, and
    then their person can be asked.
    """
    request = _request(line) if DISCOVER.encode() in line else None
    if request is None or request.get("method") != DISCOVER:
        return None
    return _line(request["id"], error={"code": METHOD_NOT_FOUND, "message": "Method not found", "data": DISCOVER})


def _error_for(line: bytes, problem: str) -> bytes | None:
    """Return the answer to a line that is no message, or None if it is meant as an answer itself."""
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
    """Return the request in a line, or None if it isn't a complete request."""
    with suppress(ValueError, RecursionError):
        request = _fields(line)
        if isinstance(request.get("id"), str | int) and isinstance(request.get("method"), str):
            return request
    return None


def _with_whole_id(line: bytes) -> bytes:
    """Return a message with whole ids, its own and that of a request it cancels: some clients write them as floats."""
    if not FLOAT_ID.search(line):
        return line
    with suppress(ValueError, RecursionError):
        fields = _fields(line)
        for table, name in ((fields, "id"), (table_of(fields.get("params")), "requestId")):
            if isinstance(given := table.get(name), float) and given.is_integer():
                table[name] = int(given)
        return json.dumps(fields).encode() if fields else line
    return line


def _fields(line: bytes) -> dict[str, Any]:
    """Return the fields of the JSON object in a line, or an empty dict for anything else."""
    return table_of(json.loads(line)) if line else {}


def _line(request_id: str | int | None, **outcome: Mapping[str, Any]) -> bytes:
    """Encode the answer to a request as a line."""
    message = {"jsonrpc": "2.0", "id": request_id, **outcome}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


PATH = "/mcp"
LARGEST_BODY = 32 * 1024 * 1024
IDLE_SECONDS = 1800.0
"""Seconds without a request after which a session ends. The library ends it then too."""
CHECKS = 20
"""Number of checks for idle sessions in ``IDLE_SECONDS``."""
METHOD_HEADER = b"mcp-method"
UNAUTHORIZED = "give the token of this server: Authorization: Bearer TOKEN"
NO_SESSION = "begin with initialize: without a session nobody could be asked, and no plan would have an owner"


def url_of(listener: socket.socket) -> str:
    """Return the server's URL for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class TokenGuard(Struct, eq=False):
    """Passes on only requests that carry the token, and lets calls know when their client has hung up.

    ``ended`` is called with each session that its client has ended, or that had no request for ``idle_seconds``.
    """

    application: ASGIApp
    token: str
    ended: Callable[[str], object]
    idle_seconds: float = IDLE_SECONDS
    _open: Counter[str] = field(default_factory=Counter[str])
    _quiet_since: dict[str, float] = field(default_factory=dict[str, float])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        from starlette.responses import JSONResponse  # noqa: PLC0415  needed only for HTTP

        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not is_token(bearer(scope["headers"]), self.token):
            refusal = JSONResponse({"error": UNAUTHORIZED}, 401, {"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        if headers.get(METHOD_HEADER) == DISCOVER.encode():  # as over standard input, see `_declined`
            await JSONResponse({"error": NO_SESSION}, 400)(scope, receive, send)
            return
        gone = scope[GONE] = anyio.Event()

        async def receive_or_note() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        session = headers.get(SESSION_HEADER.encode(), b"").decode("latin-1")
        self._open[session] += 1
        self._quiet_since.pop(session, None)
        try:
            await self.application(scope, receive_or_note, send)
        finally:
            self._open[session] -= 1
            if not self._open[session]:
                del self._open[session]
                self._quiet_since[session] = anyio.current_time()
        if scope["method"] == "DELETE" and session:  # otherwise it would end the plans of all clients without a session
            self._end(session)

    async def watch(self) -> None:
        """End the sessions whose clients have vanished, until cancelled."""
        while True:
            await anyio.sleep(self.idle_seconds / CHECKS)
            latest = anyio.current_time() - self.idle_seconds
            for session in [session for session, since in self._quiet_since.items() if since <= latest]:
                self._end(session)

    def _end(self, session: str) -> None:
        self._quiet_since.pop(session, None)
        self.ended(session)


async def serve_http(server: Server[Any], listener: socket.socket, token: str, ended: Callable[[str], object]) -> None:
    """Serve clients until cancelled. ``ended`` is called as in ``TokenGuard``."""
    guard = TokenGuard(_application(server, listener), token, ended)
    async with anyio.create_task_group() as group:
        group.start_soon(serve, guard, listener)
        group.start_soon(guard.watch)


def _application(server: Server[Any], listener: socket.socket) -> ASGIApp:
    from mcp.server.transport_security import TransportSecuritySettings

    port = listener.getsockname()[1]
    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    ours = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    return server.streamable_http_app(
        streamable_http_path=PATH, transport_security=ours, max_request_body_size=LARGEST_BODY
    )
