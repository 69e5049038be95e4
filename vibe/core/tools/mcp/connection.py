"""One MCP server's live session: started once, shared by all agents, and restarted once if it is lost."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from msgspec import Struct
from pydantic import ValidationError

from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.tools.errors import ToolError
from vibe.core.tools.mcp.client import (
    NOT_FOUND,
    Exchange,
    ServerSettingError,
    endpoint_of,
    endpoint_transport,
    launch_of,
    let_handlers_run,
    load_library,
    protocol_error,
    shown_url,
)
from vibe.core.tools.mcp.elicitation import CallUnderWay
from vibe.core.tools.mcp.remote import (
    READ_RESOURCE,
    RemotePrompt,
    RemoteTool,
    allowed_by,
    list_prompts,
    list_resources,
    list_tools,
    resource_tool,
    text_of_prompt,
)
from vibe.core.tools.mcp.sieve import sieved
from vibe.core.tools.mcp.sign_ins import UNAUTHORIZED, SignInStore
from vibe.core.tools.mcp.stdio import ServerLog, ServerProcess, server_process
from vibe.core.tools.questions import UserInput
from vibe.system.errors import innermost
from vibe.system.http import proxy_note, trust_advice
from vibe.system.plain_text import counted, one_line, shortened
from vibe.system.redaction import redact

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.client.session import ClientRequestContext, IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData, ReadResourceResult

T = TypeVar("T")
Send: TypeAlias = Callable[["Client"], Awaitable[T]]
RESTARTS = 1
"""The most times in a row, with no answered call in between, that a lost session is restarted.

A restart that fails is also retried at most this often.
"""
REST_SECONDS = 30.0
"""Seconds after which a call has a server started once more that was given up."""
BACKOFF_SECONDS = 0.5
"""Seconds to wait before a restart."""
RELIST_SECONDS = 2.0
"""The most seconds that the answer to a call waits for a new list of tools that its server has announced."""
EXTRAS_SECONDS = 3.0
"""The most seconds that a start waits for a list of prompts or resources. The server's tools work without it."""
CHANGED = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
"""Notifications that the server's tools, resources or prompts have changed."""

CLOSED = "Connection closed"
"""The client library's message for a closed connection."""
MODERN_ONLY_CODES = frozenset({-32022, -32601})
"""Error codes by which a server refuses ``initialize`` if it only speaks protocol revisions without it."""
SESSION_GONE = "Session terminated"
"""The client library's message for a session that the server no longer knows."""
STATUS_MESSAGES = frozenset({"Server returned an error response", "Not Found", SESSION_GONE})
"""Messages of the client library that stand for the HTTP status of a refused request."""

_STATUS = {
    401: "refused the credentials (HTTP 401): check api_key_env and headers",
    403: "refused access (HTTP 403): check what the key may do",
    404: "has no MCP endpoint at {where} (HTTP 404): check url",
    405: "does not speak streamable HTTP at {where} (HTTP 405): check url",
    407: "is behind a proxy that refused you (HTTP 407): name your user and password in the proxy's variable",
    429: "is asked too often (HTTP 429): wait before the next call",
}
"""Descriptions of HTTP statuses, each with advice."""
MESSAGE_LENGTH, DATA_LENGTH = 300, 2_000
"""The most characters of an error's message, and of the data that a server sends with it."""

logger = logging.getLogger(__name__)


class ServerCallError(ToolError):
    """A call got no result.

    ``lost`` says that the session is gone, and with it whatever the call was doing. ``taken`` is false if the server
    refused the call before it started.
    """

    def __init__(self, server: str, problem: str, *, lost: bool = False, taken: bool = True) -> None:
        super().__init__(f"MCP server {server!r} {problem}")
        self.lost = lost
        self.taken = taken


class ServerStatus(StrEnum):
    """The state of a connection."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    DISABLED = "disabled"


class ServerState(Struct, kw_only=True):
    """The state of one server.

    ``tools`` are the names under which its tools are offered, and ``problem`` says why it failed. ``unusable`` are
    listed tools that can't be offered, each with the reason. ``origin`` says where it is configured, if that was asked
    for.
    """

    name: str
    transport: str
    status: ServerStatus = ServerStatus.STARTING
    tools: tuple[str, ...] = ()
    resources: int = 0
    problem: str = ""
    unusable: tuple[str, ...] = ()
    required: bool = False
    origin: str = ""


class ServerPlace(Struct, frozen=True, kw_only=True):
    """The surroundings in which a server is started.

    They are the user's variables and sign-ins, the workspace, the log folder and vibe's version. ``is_attended`` says
    that a person is there to answer the server's questions.
    """

    environ: Mapping[str, str]
    cwd: Path
    log_dir: Path
    sign_ins: Path
    version: str
    is_attended: bool = False


class ServerConnection:
    """A server and the one session with it. Nothing happens unless ``run`` is running."""

    def __init__(self, config: McpServerConfig, place: ServerPlace) -> None:
        self.config, self.name = config, config.name
        self.state = ServerState(name=config.name, transport=config.transport.value, required=config.required)
        if not config.in_use:
            self.state.status = ServerStatus.DISABLED
        self.tools: tuple[RemoteTool, ...] = ()
        self.prompts: tuple[RemotePrompt, ...] = ()
        self.instructions = ""
        file_name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in config.name)[:64]
        self.log = ServerLog(place.log_dir / f"{file_name}.log")
        self.on_change: Callable[[], Awaitable[None]] | None = None
        self.finished = anyio.Event()
        self._place = place
        self._allows = allowed_by(config)
        self._client: Client | None = None
        self._ready = anyio.Event()
        self._wake_up = anyio.Event()
        self._closing = False
        self._lost = False
        self._stale = False
        self._relisted: anyio.Event | None = None
        self._unanswered_losses = 0
        self._rests_until = math.inf
        self._refused: list[str] = []
        self._exchange = Exchange()
        self._wants_sign_in = False
        self._start_scope = anyio.CancelScope()
        self._calls: list[CallUnderWay] = []
        self._process: ServerProcess | None = None

    async def run(self) -> None:
        """Maintain the session until ``close``.

        Failures are reported in ``status`` and ``problem``, never as an exception.
        """
        try:
            if self.config.in_use:
                await self._keep_up()
        finally:
            self.finished.set()

    async def _keep_up(self) -> None:
        # The handshake of all revisions before 2026 is tried first. A server that ignores the newer request would cost
        # ten seconds, and the newer protocol announces neither cancelled calls nor changed lists.
        mode = "legacy"
        worked, failed_restarts = False, 0
        while not self._closing:
            was_ready = False
            try:
                async with self._session(mode) as is_changed:
                    was_ready = True
                    await self._serve(is_new=is_changed or not worked)
                    problem = self._end_reason()
            except TimeoutError:
                problem = self._too_slow()
            except ServerSettingError as error:
                problem = error.problem
            except Exception as error:
                # A door: whatever a server or the library raises, the run continues without this server.
                cause = innermost(error)
                if mode == "legacy" and getattr(cause, "code", None) in MODERN_ONLY_CODES:
                    mode = "auto"
                    continue
                logger.debug("MCP server %s", self.name, exc_info=error)
                problem = self._describe(cause)
            self._client = None
            if self._closing:
                return
            worked = worked or was_ready
            if not was_ready and worked and failed_restarts < RESTARTS:
                failed_restarts += 1
            elif not was_ready or self._unanswered_losses >= RESTARTS:
                logged = f"; its output is in {self.log.path}" if self.log.last_line else ""
                self._wake_up, self._rests_until = anyio.Event(), anyio.current_time() + REST_SECONDS
                self._set_status(ServerStatus.FAILED, f"{problem}{logged}")
                if not worked:
                    return
                await self._notify_change()
                await self._wake_up.wait()
            else:
                self._unanswered_losses, failed_restarts = self._unanswered_losses + 1, 0
            self._set_starting()
            await anyio.sleep(BACKOFF_SECONDS)

    def close(self) -> None:
        """Let ``run`` end the session in an orderly way. A session that is still starting is aborted."""
        self._closing = True
        if self._client is None:
            self._start_scope.cancel()
        self._wake_up.set()

    async def wait_ready(self) -> None:
        """Wait until it is ready or has failed."""
        while self.state.status is ServerStatus.STARTING:
            await self._ready.wait()

    @asynccontextmanager
    async def _session(self, mode: str) -> AsyncGenerator[bool]:
        """Open a session, list its tools, and yield whether they are others than before.

        Raises:
            TimeoutError: it took longer than the configuration allows.
        """
        self._wake_up, self._lost, self._stale, self._relisted = anyio.Event(), False, False, None
        started = False
        with anyio.CancelScope() as start_scope:
            self._start_scope = start_scope
            async with self._transport() as transport:
                from mcp import Client
                from mcp.types import Implementation

                start_scope.deadline = anyio.current_time() + self.config.startup_timeout_sec
                info = Implementation(name="vibe", version=self._place.version)
                # The library sets no limit on requests before the first call, since the start as a whole has one.
                usable = sieved(transport, self._refused.append)
                handlers: Any = {"message_handler": self._on_message, "list_roots_callback": self._list_roots}
                if self._place.is_attended:
                    handlers["elicitation_callback"] = self._elicit
                async with Client(usable, mode=mode, client_info=info, **handlers) as client:
                    is_changed = await self._list_offers(client)
                    self.instructions = client.instructions or ""
                    start_scope.deadline, started = math.inf, True
                    self._client = client
                    self._set_status(ServerStatus.READY)
                    yield is_changed
        if start_scope.cancelled_caught and not started:
            raise TimeoutError

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        """Open the transport to the server, and load the client library while its process starts.

        Both take about as long.
        """
        config, place = self.config, self._place
        if config.transport is not McpTransport.STDIO:
            await anyio.to_thread.run_sync(load_library)
            endpoint, sign_ins = endpoint_of(config, place.environ, place.cwd), SignInStore(place.sign_ins)
            self._wants_sign_in = not endpoint.has_key
            async with endpoint_transport(endpoint, self._exchange, sign_ins) as transport:
                yield transport
            return
        launch = await anyio.to_thread.run_sync(launch_of, config, place.environ, place.cwd)
        async with server_process(launch, self.log) as (process, transport):
            self._process = process
            process.on_end = lambda: self._restore(self._client)
            await anyio.to_thread.run_sync(load_library)
            yield transport

    async def _serve(self, *, is_new: bool) -> None:
        """Follow the server's announcements until the session is lost or closed.

        A session that was restarted with the same tools does not announce them again.
        """
        if is_new:
            await self._notify_change()
        while not self._closing and not self._lost:
            await self._wake_up.wait()
            self._wake_up = anyio.Event()
            while self._stale and self._client is not None and not self._closing:
                self._stale = False
                with anyio.fail_after(self.config.startup_timeout_sec):
                    is_changed = await self._list_offers(self._client)
                if is_changed:
                    await self._notify_change()
            if self._relisted is not None:
                self._relisted.set()
                self._relisted = None

    async def _notify_change(self) -> None:
        if self.on_change is not None:
            await self.on_change()

    async def _list_offers(self, client: Client) -> bool:
        """List the tools, resources, which one more tool reads, and prompts. Return whether they have changed."""
        before = self.tools, self.state.resources, self.prompts
        self._refused.clear()
        tools = await list_tools(client, self._allows, self.config.max_tools, self._refused)
        self.state.resources = len(await self._list_extra("resources", list_resources(client, self._refused)))
        self.prompts = await self._list_extra("prompts", list_prompts(client, self._refused))
        reads = READ_RESOURCE not in {tool.name for tool in tools} and self._allows(READ_RESOURCE)
        self.tools = (*tools, *([resource_tool(self.name)] if reads and self.state.resources else []))
        self.state.unusable = tuple(self._refused)
        return before != (self.tools, self.state.resources, self.prompts)

    async def _list_extra(self, what: str, asked: Awaitable[tuple[T, ...]]) -> tuple[T, ...]:
        try:
            with anyio.move_on_after(EXTRAS_SECONDS):
                return await asked
        except (ValueError, protocol_error()) as error:
            logger.debug("MCP server %s lists no %s", self.name, what, exc_info=error)
        return ()  # The server's tools can be used all the same.

    async def _on_message(self, message: IncomingMessage) -> None:
        if getattr(message, "method", "") in CHANGED:
            self._stale = True
            self._relisted = self._relisted or anyio.Event()
            self._wake_up.set()

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:  # noqa: ARG002  the library's interface
        """Answer a server's question.

        It does not say which call it belongs to, so the latest one with a person asks it.
        """
        asking = next((call for call in reversed(self._calls) if call.ask is not None), CallUnderWay(0.0))
        return await asking.elicit(self.name, params)

    async def _list_roots(self, context: ClientRequestContext) -> Any:  # noqa: ARG002  as above
        from mcp.types import ListRootsResult

        cwd = self._place.cwd
        return ListRootsResult.model_validate({"roots": [{"uri": cwd.as_uri(), "name": cwd.name}]})

    async def call(
        self, tool: RemoteTool, arguments: dict[str, Any], on_progress: ProgressFnT | None, ask: UserInput | None = None
    ) -> CallToolResult:
        """Call a tool. If the session is lost, a tool that its server calls repeatable is called again.

        ``ask`` puts the server's questions to the user meanwhile. If it is None, they are declined.

        Raises:
            ServerCallError: there is no session, or no answer; the message names the server.
        """
        name, again = tool.name, tool.repeatable
        result = await self._request(
            name, lambda client: client.call_tool(name, arguments, progress_callback=on_progress), ask, again=again
        )
        self._unanswered_losses = 0
        await let_handlers_run()
        if self._relisted is not None:
            # The call has changed the list of tools: have the new one ready for the next turn.
            with anyio.move_on_after(RELIST_SECONDS):
                await self._relisted.wait()
        return result

    async def prompt_text(self, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt with these arguments.

        Raises:
            ServerCallError: there is no session, or no answer; the message names the server.
        """
        return text_of_prompt(await self._request(prompt, lambda client: client.get_prompt(prompt, dict(arguments))))

    async def list_resources(self) -> tuple[str, ...]:
        """Return a line for each resource of the server, and for what is not listed. Raises as ``prompt_text`` does."""
        left_out: list[str] = []
        found = await self._request("resources/list", lambda client: list_resources(client, left_out))
        return (*found, *(f"[not listed: {one}]" for one in dict.fromkeys(left_out)))

    async def read_resource(self, uri: str, ask: UserInput | None = None) -> ReadResourceResult:
        """Return a resource. ``ask`` is as in ``call``. Raises as ``prompt_text`` does."""
        return await self._request(uri, lambda client: client.read_resource(uri), ask)

    async def _request(self, what: str, send: Send[T], ask: UserInput | None = None, *, again: bool = True) -> T:
        """Return the answer to a request. Meanwhile ``ask`` puts the server's questions to the user.

        If the session is lost, the request is sent once more if that is harmless: ``again`` is set, or it was never
        accepted.

        Raises:
            ServerCallError: there is no session, or no answer; the message names the server.
        """
        try:
            return await self._sent(what, send, ask)
        except ServerCallError as error:
            if not (error.lost and (again or not error.taken)):
                raise
        return await self._sent(what, send, ask)

    async def _sent(self, what: str, send: Send[T], ask: UserInput | None) -> T:
        if self.state.status is ServerStatus.FAILED and anyio.current_time() >= self._rests_until:
            self._set_starting()
            self._wake_up.set()
        await self.wait_ready()
        client, limit = self._client, self.config.tool_timeout_sec
        if client is None:
            raise ServerCallError(self.name, f"{self.state.problem or 'has been closed'}; go on without it")
        self._exchange.refused = None
        call = CallUnderWay(limit, ask)
        self._calls.append(call)
        try:
            with call.patience:
                return await send(client)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise self._lost_call(client, what) from error
        except (ValueError, RuntimeError, OSError) as error:
            raise ServerCallError(self.name, self._describe(error)) from error
        except protocol_error() as error:
            raise self._refused_call(client, what, error) from error
        finally:
            self._calls.remove(call)
            call.end()
        raise ServerCallError(self.name, f"did not answer {what} within {limit:g} s (tool_timeout_sec)")

    def _refused_call(self, client: Client, tool: str, error: MCPError) -> ServerCallError:
        # A restarted HTTP server no longer knows our session, and says so with 404.
        unknown = str(error) == SESSION_GONE
        if unknown or str(error) == CLOSED or self._exchange.refused == NOT_FOUND:
            return self._lost_call(client, tool, taken=not unknown)
        return ServerCallError(self.name, self._describe(error))

    def _lost_call(self, client: Client, tool: str, *, taken: bool = True) -> ServerCallError:
        why = f"{self._end_reason()} while {tool} ran: whether the call took effect is not known"
        self._restore(client)
        problem = why if taken else f"does not know our session any more: {tool} was not called"
        return ServerCallError(self.name, problem, lost=True, taken=taken)

    def _restore(self, client: Client | None) -> None:
        """Start to restore the session, unless that has begun already."""
        if client is not None and self._client is client and not self._closing:
            self._client = None
            self._set_starting()
            self._lost = True
            self._wake_up.set()

    def _set_starting(self) -> None:
        if self.state.status is not ServerStatus.STARTING:
            self.state.status, self._ready = ServerStatus.STARTING, anyio.Event()

    def _set_status(self, status: ServerStatus, problem: str = "") -> None:
        self.state.status, self.state.problem = status, problem
        self._ready.set()

    def _end_reason(self) -> str:
        server = self._process
        if server is not None and server.flaw:
            return f"is broken: {server.flaw}"
        if server is None or (code := server.process.returncode) is None:
            return "closed the connection"
        last_words = f": {self.log.last_line}" if self.log.last_line else ""
        return f"died ({f'exit code {code}' if code >= 0 else f'signal {-code}'}){last_words}"

    def _describe(self, error: BaseException) -> str:
        if str(error) == CLOSED or (self._process is not None and self._process.flaw):
            return self._end_reason()
        status = self._exchange.refused if str(error) in STATUS_MESSAGES else None
        if status == UNAUTHORIZED and self._wants_sign_in:
            if why := self._exchange.unsigned:
                return f"needs a new token, and {why}: try again later"
            return f"asks you to sign in: run `vibe mcp login {self.name}`"
        words = redact(one_line(self._exchange.words, MESSAGE_LENGTH), self._place.environ)
        return phrase(error, self._where() + proxy_note(error), status, words)

    def _where(self) -> str:
        if self.config.transport is McpTransport.STDIO:
            command = self.config.command
            return repr(command if isinstance(command, str) else " ".join(command))
        return shown_url(self.config.url)

    def _too_slow(self) -> str:
        rubbish = self._process.rubbish if self._process else 0
        printed = f"; it printed {counted(rubbish, 'line')} of something else than MCP" if rubbish else ""
        return f"did not start within {self.config.startup_timeout_sec:g} s (startup_timeout_sec){printed}"


def phrase(error: BaseException, where: str, status: int | None = None, words: str = "") -> str:
    """Describe why a session or a call failed.

    ``where`` is the server's address or command, ``status`` the HTTP status of a refused request, and ``words`` what
    the server said of it.
    """
    if status is not None and status >= 400:
        problem = _STATUS.get(status, f"answered HTTP {status} at {{where}}: see the server's own log")
        return problem.format(where=where) + (words and f"; it says: {words}")
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        return f"sent what is not a valid MCP answer ({path}: {first['msg']})"
    if type(error).__module__.startswith("httpx2"):
        return f"can't be reached at {where} ({_text(error)}): {trust_advice(str(error)) or 'is it running?'}"
    if isinstance(error, OSError):
        return f"can't be started as {where} ({error.strerror or error})"
    return f"failed: {_text(error)}"


def _text(error: BaseException) -> str:
    text = shortened(" ".join(str(error).split()) or type(error).__name__, MESSAGE_LENGTH)
    if data := getattr(error, "data", None):
        told = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        text += f" ({shortened(told, DATA_LENGTH)})"
    return text
