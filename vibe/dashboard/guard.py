"""Guards the server: decides which requests are served. Pages of other sites, other users and programs get nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vibe.dashboard.answers import refusal
from vibe.system.loopback import bearer, is_token

OUR_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
API = "api"
MOST_WRONG, WRONG_SECONDS = 20, 60.0
"""After this many wrong tokens within this many seconds, further wrong ones are answered with "too many"."""
MAY_ACT = "vibe.may_act"
"""The key in a request's scope that says whether it may send commands."""
RELOAD = "sha256-wQ/FO2UVceFA/6eboKNWIzJkFRfkhZUMBEE3qoqIyNI="
"""The hash of the page's only inline script, which reloads the page if the network changes while its files load."""
POLICY = (
    f"default-src 'none'; script-src 'self' '{RELOAD}'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
UNKNOWN = "give the token that `vibe dashboard --web` printed: open the link again, or send Authorization: Bearer TOKEN"


class Tokens(Struct, frozen=True, kw_only=True):
    """The secrets of one start of the server.

    Whoever knows ``view`` may look. Whoever knows ``control`` may act too, and nobody may if it is blank.
    """

    view: str
    control: str = ""


class PageGuard:
    """Refuses requests that must not reach the application, and adds security headers to all responses."""

    def __init__(
        self,
        application: ASGIApp,
        tokens: Tokens,
        hosts: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._tokens = tokens
        self._hosts = OUR_HOSTS | {host.lower() for host in hosts}
        self._clock = clock
        self._wrong: deque[float] = deque(maxlen=MOST_WRONG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        application = self._refusal(scope) or self._application
        await application(scope, receive, _with_headers(send, is_api=path_parts(scope)[0] == API))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, or None if it may be served."""
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            return refusal(421, "host", "no name of this server: use 127.0.0.1, or start it with --allow-host")
        origins = {f"{scheme}://{hosts[0]}" for scheme in ("http", "https")}
        foreign = any(origin.lower() not in origins for origin in headers.getlist("origin"))
        if foreign or not {"same-origin", "none"}.issuperset(headers.getlist("sec-fetch-site")):
            return refusal(403, "origin", "pages of other sites may not ask this server")
        return self._token_refusal(scope) if path_parts(scope)[0] == API else None

    def _token_refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request without a right token, or None. Note in the scope what the token allows."""
        given = bearer(scope["headers"])
        scope[MAY_ACT] = is_token(given, self._tokens.control)
        if scope[MAY_ACT] or is_token(given, self._tokens.view):
            return None
        if given:
            now = self._clock()
            if len(self._wrong) == MOST_WRONG and now - self._wrong[0] < WRONG_SECONDS:
                return refusal(429, "token", "too many wrong tokens: wait a minute")
            self._wrong.append(now)
        return refusal(401, "token", UNKNOWN)


def path_parts(scope: Scope) -> tuple[str, ...]:
    """Return the parts of a request's path, unquoted one by one. A ``/`` in an id is quoted as ``%2F``."""
    return tuple(unquote(piece) for piece in scope["raw_path"].decode("latin-1").split("/")[1:]) or ("",)


def _name(host: str) -> str:
    """Return the name in a ``Host`` header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _with_headers(send: Send, *, is_api: bool) -> Send:
    added = {**HEADERS, "cache-control": "no-store" if is_api else "no-cache"}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
