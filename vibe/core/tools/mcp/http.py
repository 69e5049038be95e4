"""A server on the network: streamable HTTP, with the status of refused requests kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from vibe.core.tools.mcp.settings import Endpoint

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""Between two pieces of an answer; how long a call may take in all is the caller's to say."""


@dataclass(slots=True)
class Exchange:
    """What the last request to a server came to. ``refused`` is its HTTP status if that was an error."""

    refused: int | None = None


@asynccontextmanager
async def endpoint_transport(endpoint: Endpoint, exchange: Exchange) -> AsyncGenerator[Any]:
    """The transport a session talks to ``endpoint`` through; ``exchange`` is kept up to date."""
    import httpx2  # noqa: PLC0415  costs a quarter of a second
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  as above

    async def note(response: httpx2.Response) -> None:
        # 405 is how a server says that it has no stream of its own: nothing is wrong.
        if response.request.method == "POST":
            exchange.refused = response.status_code if response.status_code >= 400 else None

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    hooks = {"response": [note]}
    async with httpx2.AsyncClient(headers=dict(endpoint.headers), timeout=timeout, event_hooks=hooks) as client:
        yield streamable_http_client(endpoint.url, http_client=client)


def shown_url(url: str) -> str:
    """``url`` without what may be secret: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
