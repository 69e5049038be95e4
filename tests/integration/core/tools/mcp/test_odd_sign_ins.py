"""Signing in where the authorization server answers as the standard does not say, and as such servers do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast
from urllib.parse import unquote, urlencode, urlsplit

import pytest
from anyio import to_thread

from tests.fakes import browser
from vibe.core.tools.mcp.client import Endpoint
from vibe.core.tools.mcp.login import SignInSetup, run_sign_in
from vibe.core.tools.mcp.sign_ins import SignIn
from vibe.core.tools.mcp.token_auth import renew_tokens, revocation_problem
from vibe.system.errors import EnvironmentFailure

TOKENS = {"access_token": "one", "refresh_token": "two", "scope": "read"}
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
ELSEWHERE, CLOSED = "http://tokens.example/token", "https://127.0.0.1:9/token"
IN_CLEAR = "is not https, and a token would be read on its way"


class Authority(ThreadingHTTPServer):
    """Guards an MCP server. Like GitHub, it gives tokens as a form unless JSON is asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token_endpoint = f"{self.url}/token"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Print nothing."""

    def do_GET(self) -> None:
        authority = cast("Authority", self.server)
        parts = urlsplit(self.path)
        if parts.path == "/authorize":
            given = dict(one.split("=") for one in parts.query.split("&"))
            callback = unquote(given["redirect_uri"])
            self._say(302, location=f"{callback}?code=c&state={given['state']}")
        elif parts.path.endswith("oauth-protected-resource/mcp"):
            self._say(200, {"resource": f"{authority.url}/mcp", "authorization_servers": [authority.url]})
        else:
            ends = {"token_endpoint": authority.token_endpoint, "registration_endpoint": f"{authority.url}/register"}
            self._say(200, {"issuer": authority.url, "authorization_endpoint": f"{authority.url}/authorize", **ends})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/mcp":
            self._say(200 if self.headers["Authorization"] == "Bearer one" else 401, {})
        elif self.path == "/register":
            self._say(201, json.loads(body) | {"client_id": "us"})
        else:
            wants_json = self.headers["Accept"] == JSON
            self._say(200, TOKENS if wants_json else urlencode(TOKENS), content_type=JSON if wants_json else FORM)

    def _say(self, status: int, body: Any = "", content_type: str = JSON, location: str = "") -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def authority() -> Iterator[Authority]:
    with Authority() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def signed_in(authority: Authority) -> SignIn:
    async def show(address: str) -> None:
        await to_thread.run_sync(browser.visited, address)

    setup = SignInSetup(show=show, notice=pytest.fail, patience_seconds=30)
    return await run_sign_in("odd", Endpoint(url=f"{authority.url}/mcp", headers={}), setup)


async def test_tokens_are_asked_for_as_json_at_the_sign_in_and_when_they_are_renewed(authority: Authority) -> None:
    sign_in = await signed_in(authority)
    renewed = await to_thread.run_sync(renew_tokens, sign_in)

    for one in (sign_in, renewed):
        assert one is not None
        assert (one.access_token, one.refresh_token, one.scope) == ("one", "two", "read")


async def test_a_loop_signs_in_to_one_server_after_another(authority: Authority) -> None:
    tokens = [(await signed_in(authority)).access_token for _ in range(2)]

    assert tokens == ["one", "one"]


async def test_no_token_goes_where_it_could_be_read_on_its_way(authority: Authority) -> None:
    authority.token_endpoint = ELSEWHERE
    moved = SignIn.model_validate({
        "token_endpoint": ELSEWHERE,
        "revocation_endpoint": ELSEWHERE,
        "client_id": "us",
        "access_token": "one",
        "refresh_token": "two",
    })

    with pytest.raises(EnvironmentFailure, match=f"{ELSEWHERE} {IN_CLEAR}"):
        await signed_in(authority)
    assert await to_thread.run_sync(renew_tokens, moved) is None
    assert IN_CLEAR in str(await to_thread.run_sync(revocation_problem, moved))


async def test_a_place_of_tokens_that_can_not_be_reached_is_named(authority: Authority) -> None:
    authority.token_endpoint = CLOSED

    with pytest.raises(EnvironmentFailure, match=f"{CLOSED} can't be reached"):
        await signed_in(authority)
