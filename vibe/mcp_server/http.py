"""The server over streamable HTTP, on this machine alone, for clients that know the token."""

from __future__ import annotations

import hmac
import os
import socket
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anyio import Event, create_task_group, current_time, sleep, sleep_forever

from vibe.mcp_server.protocol import DISCOVER
from vibe.mcp_server.tools import GONE, SESSION_HEADER
from vibe.system.errors import EnvironmentFailure

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
LARGEST_BODY = 32 * 1024 * 1024
LAST_SECONDS = 1
IDLE_SECONDS = 1800.0
"""After so long without a request the library ends a session, too."""
CHECKS = 20
"""So often in ``IDLE_SECONDS`` idle sessions are looked for."""
WAITING_CONNECTIONS = 64
METHOD_HEADER = b"mcp-method"
UNAUTHORIZED = "give the token of this server: Authorization: Bearer TOKEN"
NO_SESSION = "begin with initialize: without a session nobody could be asked, and no plan would have an owner"


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0: any that is free.

    Raises:
        EnvironmentFailure: it can't.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
    except OSError as error:
        problem = f"can't be listened on ({os.strerror(error.errno or 0)}): give another port to --http, or 0 for any"
        raise EnvironmentFailure(f"{host}:{port} {problem}") from error


def url_of(listener: socket.socket) -> str:
    """Return where clients find the server."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class TokenGuard:
    """Lets only requests pass that carry the token, and tells calls when their client has hung up.

    ``ended`` is told of each session that its client has ended, or has asked nothing in for ``idle_seconds``.
    """

    def __init__(
        self,
        application: ASGIApp,
        token: str,
        ended: Callable[[str], object],
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._application = application
        self._ended = ended
        self._idle_seconds = idle_seconds
        self._open: Counter[str] = Counter()
        self._quiet_since: dict[str, float] = {}
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        from starlette.responses import JSONResponse  # noqa: PLC0415  only for those who listen

        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            refusal = JSONResponse({"error": UNAUTHORIZED}, 401, {"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        if headers.get(METHOD_HEADER) == DISCOVER.encode():  # as over standard input: see `declined`
            await JSONResponse({"error": NO_SESSION}, 400)(scope, receive, send)
            return
        gone = scope[GONE] = Event()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        session = headers.get(SESSION_HEADER.encode(), b"").decode("latin-1")
        self._open[session] += 1
        self._quiet_since.pop(session, None)
        try:
            await self._application(scope, heard, send)
        finally:
            self._open[session] -= 1
            if not self._open[session]:
                del self._open[session]
                self._quiet_since[session] = current_time()
        if scope["method"] == "DELETE" and session:  # without one it would end what others began without one
            self._end(session)

    async def watch(self) -> None:
        """Leave the sessions whose clients have vanished, until this is cancelled."""
        while True:
            await sleep(self._idle_seconds / CHECKS)
            latest = current_time() - self._idle_seconds
            for session in [session for session, since in self._quiet_since.items() if since <= latest]:
                self._end(session)

    def _end(self, session: str) -> None:
        self._quiet_since.pop(session, None)
        self._ended(session)


async def serve_http(server: Server[Any], listener: socket.socket, token: str, ended: Callable[[str], object]) -> None:
    """Serve clients until this is cancelled; ``ended`` as for ``TokenGuard``."""
    import uvicorn  # noqa: PLC0415  only for those who listen

    guard = TokenGuard(_application(server, listener), token, ended)
    config = uvicorn.Config(
        guard,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=LAST_SECONDS,
    )

    class OwnSignals(uvicorn.Server):
        """Leaves the signals to the command."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    serving = OwnSignals(config)
    async with create_task_group() as group:
        group.start_soon(serving.serve, [listener])
        group.start_soon(guard.watch)
        try:
            await sleep_forever()
        finally:
            serving.should_exit = True
            serving.force_exit = True


def _application(server: Server[Any], listener: socket.socket) -> ASGIApp:
    from mcp.server.transport_security import TransportSecuritySettings

    port = listener.getsockname()[1]
    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    ours = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    return server.streamable_http_app(
        streamable_http_path=PATH, transport_security=ours, max_request_body_size=LARGEST_BODY
    )
