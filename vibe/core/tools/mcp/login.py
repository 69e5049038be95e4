"""Signs the user in to a server on the network, by OAuth in their browser, which sends the answer to this machine."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, parse_qsl, urljoin, urlsplit

from anyio import Event, create_task_group, fail_after, to_thread
from msgspec import Struct
from pydantic import AnyUrl

from vibe.core.tools.mcp.client import Endpoint, load_library, shown_url
from vibe.core.tools.mcp.sign_ins import FORM, IN_CLEAR, UNAUTHORIZED, SignIn, is_in_clear
from vibe.system.errors import EnvironmentFailure, innermost
from vibe.system.http import client_options, proxy_note, trust_advice
from vibe.system.loopback import serve
from vibe.system.plain_text import shortened

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

HOST = "127.0.0.1"
"""The address on which the browser's answer is awaited."""
PATH = "/callback"
"""The path of the redirect that carries the answer."""
ARRIVED = "The answer has arrived: go back to the terminal, which says whether you are signed in."
TWICE = "This sign-in has been answered already. Nothing was changed."
FOREIGN = "This answer belongs to another sign-in. Nothing was changed."
NOTHING = "There is nothing here but the end of a sign-in."
"""Pages that the browser shows after an answer, and for any other request."""
PATIENCE_SECONDS = 300.0
"""Seconds to wait for the user to sign in."""
REQUEST_SECONDS = 30.0
"""The timeout of requests to the server, in seconds."""
MESSAGE_LENGTH = 300
"""The most characters of an error's message."""
REVISION = "2025-06-18"
"""The revision of the protocol that requests name."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "vibe", "version": "0"}},
}
"""The request to which the server answers that a sign-in is needed."""
REFUSALS = frozenset({UNAUTHORIZED, 403})
"""HTTP statuses by which a server refuses a token."""
FLOW_LOGGER = "mcp.client.auth.oauth2"
"""The logger of the client library's sign-in."""


class SignInError(Exception):
    """A sign-in failed. The text says why."""


class SignInSetup(Struct, frozen=True, kw_only=True):
    """The settings of a sign-in.

    Without ``client_id``, the server is asked to register a client. Port 0 stands for any free port. ``show`` receives
    the address to open in a browser, and ``notice`` sentences for the user.
    """

    show: Callable[[str], Awaitable[None]]
    notice: Callable[[str], None]
    client_id: str = ""
    port: int = 0
    patience_seconds: float = PATIENCE_SECONDS


async def run_sign_in(server: str, endpoint: Endpoint, setup: SignInSetup) -> SignIn:
    """Have the user sign in to a server.

    Raises:
        EnvironmentFailure: the sign-in failed; the message says why. An earlier sign-in remains.
    """
    failed = f"not signed in to MCP server {server!r}"
    await to_thread.run_sync(load_library)
    # The errors it logs are raised as well, and may hold secrets.
    logging.getLogger(FLOW_LOGGER).setLevel(logging.CRITICAL)
    loopback = Loopback(setup.notice)
    try:
        async with loopback.listening(setup.port):
            with fail_after(setup.patience_seconds):
                return await _through_the_flow(_Flow(endpoint, setup, loopback))
    except Exception as error:
        raise EnvironmentFailure(f"{failed}: {_describe(innermost(error), setup)}") from error


class _Flow(Struct, frozen=True):
    """The client library's sign-in, set up to store nothing and to ask the user through the browser."""

    endpoint: Endpoint
    setup: SignInSetup
    loopback: Loopback

    def provider(self) -> OAuthClientProvider:
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata

        about_us = OAuthClientMetadata(
            client_name="vibe",
            redirect_uris=[AnyUrl(self.loopback.redirect_uri)],
            token_endpoint_auth_method="none",  # noqa: S106  no secret
        )
        return OAuthClientProvider(self.endpoint.url, about_us, self, self._show, self._answer)

    async def get_tokens(self) -> OAuthToken | None:
        """Return None, so that the user signs in again."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store nothing, because the caller stores the sign-in as a whole."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client whose id the user gave, or None to have the server register one."""
        from mcp.shared.auth import OAuthClientInformationFull

        if not self.setup.client_id:
            return None
        redirect = AnyUrl(self.loopback.redirect_uri)
        return OAuthClientInformationFull(client_id=self.setup.client_id, redirect_uris=[redirect])

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store nothing, for the same reason."""

    async def _show(self, address: str) -> None:
        self.loopback.state = parse_qs(urlsplit(address).query)["state"][-1]
        await self.setup.show(address)

    async def _answer(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        fields = await self.loopback.answer()
        if "error" in fields:
            why = shortened(f"{fields['error']}: {fields.get('error_description', '')}".strip(": "), MESSAGE_LENGTH)
            raise SignInError(f"it was refused ({why})")
        return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))


async def _through_the_flow(flow: _Flow) -> SignIn:
    import httpx2

    endpoint, provider = flow.endpoint, flow.provider()
    headers = {**endpoint.headers, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": REVISION}
    options = client_options()
    options["event_hooks"]["request"] = [_prepare]
    async with httpx2.AsyncClient(auth=provider, timeout=REQUEST_SECONDS, **options) as client:
        async with client.stream("POST", endpoint.url, json=INITIALIZE, headers=headers) as response:
            status, session = response.status_code, response.headers.get("Mcp-Session-Id")
        sign_in = _sign_in_of(provider, endpoint.url)
        if sign_in is None:
            answered = "it answers without" if status < 400 else f"HTTP {status}"
            raise SignInError(f"it does not ask for that ({answered}); `vibe mcp list` connects to it")
        if status in REFUSALS:
            raise SignInError(f"it gave a token, and refuses it (HTTP {status}): see what your account may do")
        if session:
            with suppress(httpx2.HTTPError):  # The user is signed in all the same.
                await client.delete(endpoint.url, headers={**headers, "Mcp-Session-Id": session})
    return sign_in


async def _prepare(request: httpx2.Request) -> None:
    """Ask for the standard form. Raise a ``SignInError`` if the request could be read on its way."""
    if is_in_clear(str(request.url)):
        raise SignInError(f"{shown_url(str(request.url))} {IN_CLEAR}")
    request.headers.setdefault("Accept", FORM)


def _sign_in_of(provider: OAuthClientProvider, url: str) -> SignIn | None:
    """Return the resulting sign-in, or None if the server did not ask for one."""
    context = provider.context
    tokens, client, about = context.current_tokens, context.client_info, context.oauth_metadata
    if tokens is None or client is None:
        return None
    begun = SignIn(
        token_endpoint=str(about.token_endpoint) if about else urljoin(url, "/token"),
        revocation_endpoint=str(about.revocation_endpoint) if about and about.revocation_endpoint else None,
        client_id=client.client_id,
        client_secret=client.client_secret,
        client_auth=client.token_endpoint_auth_method,
        resource=context.get_resource_url() if context.should_include_resource_param(REVISION) else None,
        access_token="",
    )
    return begun.with_tokens(tokens)


def _describe(error: BaseException, setup: SignInSetup) -> str:
    """Return why a flow failed."""
    if isinstance(error, TimeoutError):
        return f"no answer came within {setup.patience_seconds:g} s: try again"
    from mcp.client.auth import OAuthRegistrationError, OAuthTokenError

    text = shortened(" ".join(str(error).split()) or type(error).__name__, MESSAGE_LENGTH)
    if isinstance(error, OAuthRegistrationError):
        return f"it registers no new clients ({text}): give the id of one with --client-id, or a key with `api_key_env`"
    if isinstance(error, OAuthTokenError):
        return "it gave no token: " + ("what it sent is none" if text.startswith("Invalid token") else text)
    if type(error).__module__.startswith("httpx2"):
        url = str(cast("httpx2.RequestError", error).request.url)
        return (
            f"{shown_url(url)} can't be reached{proxy_note(error)} ({text}): {trust_advice(text) or 'is it running?'}"
        )
    if isinstance(error, OSError):
        return f"{HOST}:{setup.port} can't be listened on ({error.strerror or text}): give another --port"
    return text


class Loopback:
    """Waits for the one answer that carries ``state``. It rejects all others, and tells ``notice``."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.redirect_uri = ""
        self.state = ""
        self._notice = notice
        self._answer: Mapping[str, str] = {}
        self._answered = Event()

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncGenerator[Loopback]:
        """Listen while the block runs, on any free port if ``port`` is 0.

        Raises:
            OSError: the port is taken.
        """
        with socket.create_server((HOST, port)) as listener:
            self.redirect_uri = f"http://{HOST}:{listener.getsockname()[1]}{PATH}"
            async with create_task_group() as group:
                group.start_soon(partial(serve, self._exchange, listener, interface="asgi3", lifespan="off", ws="none"))
                try:
                    yield self
                finally:
                    group.cancel_scope.cancel()

    async def answer(self) -> Mapping[str, str]:
        """Wait for the answer and return its fields."""
        await self._answered.wait()
        return self._answer

    async def _exchange(self, scope: Mapping[str, Any], _: object, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer a request of a browser, as an ASGI application."""
        path = scope["path"] if scope["method"] == "GET" else ""
        status, text = self._respond(path, dict(parse_qsl(scope["query_string"].decode("latin-1"))))
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})
        if self._answer:
            self._answered.set()

    def _respond(self, path: str, fields: Mapping[str, str]) -> tuple[int, str]:
        """Return the status and the text for a request. The first answer that fits is kept."""
        if path != PATH or not ({"code", "error"} & fields.keys()):
            return 404, NOTHING
        given = fields.get("state", "")
        if not self.state or not secrets.compare_digest(given.encode(), self.state.encode()):
            self._notice("an answer that belongs to another sign-in was turned away")
            return 400, FOREIGN
        if self._answer:
            return 409, TWICE
        self._answer = fields
        return 200, ARRIVED
