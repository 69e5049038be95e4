"""The MCP client library, loaded off the event loop, and its transport to servers on the network: streamable HTTP."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import httpx2  # noqa: TID253  whoever imports this has loaded it: it is a base class here
from anyio import to_thread
from anyio.lowlevel import checkpoint

from vibe.core.errors import VibeError
from vibe.core.tools.mcp.settings import Endpoint
from vibe.core.tools.mcp.sign_ins import SignIn, SignInStore
from vibe.core.tools.mcp.token_requests import renewed_tokens

if TYPE_CHECKING:
    from mcp import MCPError


SPARE_SECONDS = 30.0
"""A token that ends sooner is renewed before it is used."""

UNAUTHORIZED = 401

logger = logging.getLogger(__name__)


class TokenAuth(httpx2.Auth):
    """Signs the requests to ``url``, and no others, if the user has signed in there."""

    def __init__(self, url: str, store: SignInStore) -> None:
        self._url = httpx2.URL(url)
        self._key = url
        self._store = store

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token; with a new one a refused request is made once more."""
        if not self._is_ours(request.url):
            yield request
            return
        sign_in = await to_thread.run_sync(self._found)
        if sign_in is not None and _ends_soon(sign_in):
            sign_in = await self._renewed(sign_in.access_token) or sign_in
        if sign_in is None:
            yield request
            return
        _sign(request, sign_in)
        response = yield request
        if response.status_code == UNAUTHORIZED:
            renewed = await self._renewed(sign_in.access_token)
            if renewed is not None:
                _sign(request, renewed)
                yield request

    def _is_ours(self, url: httpx2.URL) -> bool:
        ours = self._url
        return (url.scheme, url.host, url.port) == (ours.scheme, ours.host, ours.port)

    def _found(self) -> SignIn | None:
        try:
            return self._store.find(self._key)
        except VibeError as error:
            logger.warning("%s", error)
            return None

    async def _renewed(self, used: str) -> SignIn | None:
        """Return a sign-in whose token is another than ``used``; None if there is none to be had."""
        # Whoever no longer waits leaves it to its thread, so that the new tokens are kept: the old ones are spent.
        return await to_thread.run_sync(self._renew, used, abandon_on_cancel=True)

    def _renew(self, used: str) -> SignIn | None:
        try:
            return self._store.renewed(self._key, used, renewed_tokens)
        except VibeError as error:
            logger.warning("%s", error)
            return None


def _sign(request: httpx2.Request, sign_in: SignIn) -> None:
    request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def _ends_soon(sign_in: SignIn) -> bool:
    return sign_in.expires_at is not None and time.time() > sign_in.expires_at - SPARE_SECONDS


CONNECT_SECONDS = 10.0
READ_SECONDS = 3_900.0
"""Between two pieces of an answer, in which a person may be asked; how long a call may take is the caller's to say."""


@dataclass(slots=True)
class Exchange:
    """The outcome of the last request to a server. ``refused`` is its HTTP status if that was an error."""

    refused: int | None = None


@asynccontextmanager
async def endpoint_transport(endpoint: Endpoint, exchange: Exchange, sign_ins: SignInStore) -> AsyncGenerator[Any]:
    """The transport a session talks to ``endpoint`` through; ``exchange`` is kept up to date.

    The user's sign-in goes along unless the settings say how the server knows us.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def note(response: httpx2.Response) -> None:
        # 405 is how a server says that it has no stream of its own: nothing is wrong.
        if response.request.method == "POST":
            exchange.refused = response.status_code if response.status_code >= 400 else None

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    hooks = {"response": [note]}
    auth = None if endpoint.has_key else TokenAuth(endpoint.url, sign_ins)
    headers = dict(endpoint.headers)
    async with httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout, event_hooks=hooks) as client:
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
