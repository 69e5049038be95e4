"""The guard: who may ask for what, by names, origins and tokens."""

from __future__ import annotations

from urllib.parse import unquote

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from vibe.dashboard.answers import found
from vibe.dashboard.guard import MAY_ACT, MOST_WRONG, WRONG_SECONDS, PageGuard, Tokens

VIEW, CONTROL = "look", "act"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await found({"may_act": scope.get(MAY_ACT)})(scope, receive, send)


def asking(clock: Clock | None = None, tokens: Tokens | None = None) -> httpx.AsyncClient:
    guard = PageGuard(application, tokens or Tokens(view=VIEW, control=CONTROL), ("Laptop.tail.net",), clock or Clock())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=guard), base_url="http://127.0.0.1:4000")


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:4000"}, 200),
        ({"host": "laptop.tail.net"}, 200),
        ({"host": "rebound.example:4000"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "127.0.0.1:4000@evil"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://127.0.0.1:4000"}, 200),
        ({"host": "laptop.tail.net", "origin": "https://laptop.tail.net"}, 200),
        ({"origin": "http://127.0.0.1:4001"}, 403),  # another port's page
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_only_our_own_names_and_pages_are_served(headers: dict[str, str], status: int) -> None:
    async with asking() as client:
        for path in ("/", "/api/runs"):
            reply = await client.get(path, headers={**bearing(VIEW), **headers})
            assert reply.status_code == status
            assert reply.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (bearing(VIEW), 200),
        (bearing(CONTROL), 200),
        ({"authorization": f"bearer {VIEW}"}, 200),
        ({}, 401),
        (bearing("old"), 401),
        (bearing(""), 401),
        ({"authorization": f"Basic {VIEW}"}, 401),
        ({"authorization": VIEW}, 401),
        ({"cookie": f"token={VIEW}"}, 401),
    ],
)
async def test_the_api_needs_the_token_and_the_page_does_not(headers: dict[str, str], status: int) -> None:
    async with asking() as client:
        reply = await client.get("/api/runs", headers=headers)
        assert reply.status_code == status
        assert reply.headers["cache-control"] == "no-store"
        if status == 200:
            assert reply.json() == {"may_act": CONTROL in str(headers)}
        else:
            assert reply.json()["error"] == "token"
        assert (await client.get("/page.js")).status_code == 200


@pytest.mark.parametrize("target", ["/%61pi/runs", "x/api/runs", "http:/api/runs", "/api", "/api/"])
async def test_no_spelling_of_an_address_leads_past_the_token(target: str) -> None:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": unquote(target), "raw_path": target.encode(), "query_string": b""}
    await PageGuard(application, Tokens(view=VIEW))({**scope, "headers": [(b"host", b"127.0.0.1")]}, receive, send)
    assert statuses[0] == 401


async def test_without_control_no_token_acts() -> None:
    async with asking(tokens=Tokens(view=VIEW)) as client:
        assert (await client.get("/api/runs", headers=bearing(VIEW))).json() == {"may_act": False}
        assert (await client.get("/api/runs", headers=bearing(""))).status_code == 401


async def test_after_many_wrong_tokens_others_are_put_off_and_the_right_one_is_not() -> None:
    clock = Clock()
    async with asking(clock) as client:
        for _ in range(MOST_WRONG):
            assert (await client.get("/api/runs", headers=bearing("wrong"))).status_code == 401
        assert (await client.get("/api/runs", headers=bearing("wrong"))).status_code == 429
        assert (await client.get("/api/runs", headers=bearing(VIEW))).status_code == 200
        clock.now = WRONG_SECONDS + 1
        assert (await client.get("/api/runs", headers=bearing("wrong"))).status_code == 401
