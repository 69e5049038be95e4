"""The MCP client library, loaded off the event loop, and its transport to servers on the network: streamable HTTP."""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from anyio.lowlevel import checkpoint
from msgspec import Struct

from vibe.core.tools.mcp.settings import Endpoint
from vibe.core.tools.mcp.sieve import in_form
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.system.http import client_options

if TYPE_CHECKING:
    import httpx2
    from mcp import MCPError


CONNECT_SECONDS = 10.0
NOT_FOUND = 404
SESSION = "mcp-session-id"
OTHER_KINDS = ("text/event-stream", "text/html")
"""Types of answers that are no JSON, as all others are, whatever they say."""
READ_SECONDS = 3_900.0
"""Between two pieces of an answer, in which a person may be asked; how long a call may take is the caller's to say."""


class Exchange(Struct):
    """The outcome of the last request to a server. ``refused`` is its HTTP status if that was an error."""

    refused: int | None = None


@asynccontextmanager
async def endpoint_transport(endpoint: Endpoint, exchange: Exchange, sign_ins: SignInStore) -> AsyncGenerator[Any]:
    """The transport a session talks to ``endpoint`` through; ``exchange`` is kept up to date.

    The user's sign-in goes along unless the settings say how the server knows us.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from vibe.core.tools.mcp.token_auth import TokenAuth  # noqa: PLC0415  it loads httpx2

    async def note(response: httpx2.Response) -> None:
        # 405 is how a server says that it has no stream of its own: nothing is wrong.
        if response.request.method != "POST":
            return
        exchange.refused = response.status_code if response.status_code >= 400 else None
        kind = response.headers.get("content-type", "")
        if response.status_code == NOT_FOUND and SESSION in response.request.headers:
            response.headers["content-type"] = ""  # its status says all, whatever error is in it
        elif not exchange.refused and not kind.lower().startswith(OTHER_KINDS):
            response.headers["content-type"] = "application/json"
            given: Any = response.stream
            data: list[bytes] = [part async for part in given]
            await given.aclose()
            response.stream = httpx2.ByteStream(in_form(b"".join(data)))

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    hooks = {"response": [note]}
    auth = None if endpoint.has_key else TokenAuth(endpoint.url, sign_ins)
    headers = dict(endpoint.headers)
    options = client_options(httpx2)
    async with httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout, event_hooks=hooks, **options) as client:
        yield streamable_http_client(endpoint.url, http_client=client)


def shown_url(url: str) -> str:
    """``url`` without what may be secret: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


NOISY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")
HANDLER_CHECKPOINTS = 5


def load_library() -> None:
    """Import it, and keep its log off stderr unless logging is set up; takes long, so not on an event loop."""
    importlib.import_module("mcp.client.streamable_http")
    for name in NOISY_LOGGERS:
        noisy = logging.getLogger(name)
        if not noisy.handlers:
            noisy.addHandler(logging.NullHandler())


def protocol_error() -> type[MCPError]:
    """Return what it raises for a request that was refused, cut off or not answered in time."""
    from mcp import MCPError

    return MCPError


async def let_handlers_run() -> None:
    """Let what a server announced before an answer be heard: it hands announcements to tasks of their own."""
    for _ in range(HANDLER_CHECKPOINTS):
        await checkpoint()
