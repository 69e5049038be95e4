from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.network import PUBLIC, FakeNetwork
from tests.fakes.web_server import Page, WebServer
from tests.unit.core.tools.builtins.calling import Caller
from vibe.core.tools.base import BaseToolState, ToolPermission
from vibe.core.tools.builtins.web_fetch import WebFetch, WebFetchArgs, WebFetchConfig
from vibe.core.tools.errors import ToolError
from vibe.core.tools.workspace import Workspace

HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}
ARTICLE = b"""<!doctype html><html><head><title>News</title><style>p{}</style></head><body>
<script>alert(1)</script><h2>Head</h2><p>Some <b>bold</b> text with a <a href="/more">link</a>.</p>
<ul><li>one</li><li>two</li></ul></body></html>"""


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer({}).running() as running:
        yield running


def tool_for(network: FakeNetwork, **settings: Any) -> WebFetch:
    return WebFetch(WebFetchConfig(**settings), BaseToolState(), network)


async def get(server: WebServer, url: str, **names: list[list[str]]) -> tuple[Any, FakeNetwork]:
    hosts = {"example.com": [[PUBLIC]], **{name.replace("_", "."): value for name, value in names.items()}}
    network = FakeNetwork(server.port, hosts)
    return await Caller(root=Path("/")).call(tool_for(network), url=url), network


async def test_a_page_comes_as_markdown_with_absolute_links(server: WebServer) -> None:
    server.pages["/a"] = Page(ARTICLE, headers=HTML)

    result, network = await get(server, "http://example.com/a")

    assert result.text.splitlines()[0] == "# News"
    assert "## Head" in result.text
    assert "Some **bold** text with a [link](http://example.com/more)." in result.text
    assert "alert" not in result.text
    assert network.connected == [(PUBLIC, 80)]
    assert server.hosts == ["example.com"]


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        ("grüß".encode("latin-1"), "text/plain; charset=iso-8859-1", "grüß"),
        (b"\xef\xbb\xbfhello", "text/plain", "hello"),
        ("<meta charset='iso-8859-1'><p>grüß</p>".encode("latin-1"), "text/html", "grüß"),
        ("grüß".encode(), "text/plain; charset=nosuch", "grüß"),
        (b"plain", "", "plain"),
    ],
)
async def test_text_is_decoded_as_the_page_says(server: WebServer, body: bytes, content_type: str, text: str) -> None:
    server.pages["/a"] = Page(body, headers={"Content-Type": content_type})

    result, _ = await get(server, "http://example.com/a")

    assert result.text == text


async def test_the_address_that_was_checked_is_the_one_connected_to(server: WebServer) -> None:
    server.pages["/a"] = Page(b"ok", headers=TEXT)

    result, network = await get(server, "http://rebind.example/a", rebind_example=[["1.1.1.1"], ["127.0.0.1"]])

    assert result.text == "ok"
    assert network.looked_up == ["rebind.example"]
    assert network.connected == [("1.1.1.1", 80)]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.8"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        [PUBLIC, "10.0.0.1"],
        ["168.63.129.16"],
        ["64:ff9b::a83f:8110"],
        [PUBLIC, "192.0.0.192"],
    ],
)
async def test_a_name_that_leads_inside_is_refused_before_anything_is_sent(
    server: WebServer, addresses: list[str]
) -> None:
    server.pages["/"] = Page(b"secret", headers=TEXT)
    network = FakeNetwork(server.port, {"inside.example": [addresses]})

    with pytest.raises(ToolError, match="only public pages are fetched"):
        await Caller(root=Path("/")).call(tool_for(network), url="http://inside.example/")
    assert network.connected == []
    assert server.hosts == []


async def test_without_a_test_network_the_machine_itself_is_never_reached(server: WebServer) -> None:
    server.pages["/"] = Page(b"secret", headers=TEXT)
    tool = WebFetch(WebFetchConfig(), BaseToolState())

    with pytest.raises(ToolError, match="loopback"):
        await Caller(root=Path("/")).call(tool, url=f"http://127.0.0.1:{server.port}/")
    assert server.hosts == []


async def test_redirects_are_followed_on_one_host_and_checked_each_time(server: WebServer) -> None:
    server.pages["/a"] = Page(status=302, headers={"Location": "/b"})
    server.pages["/b"] = Page(b"there", headers=TEXT)

    result, network = await get(server, "http://example.com/a")
    assert (result.text, result.url) == ("there", "http://example.com/b")
    assert set(network.connected) == {(PUBLIC, 80)}

    server.pages["/a"] = Page(status=302, headers={"Location": "http://127.0.0.1/"})
    result, _ = await get(server, "http://example.com/a")
    assert (result.text, result.redirected_to) == ("", "http://127.0.0.1/")
    server.pages["/a"] = Page(status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(ToolError, match="not http or https"):
        await get(server, "http://example.com/a")


async def test_a_name_that_turns_inside_at_a_redirect_is_refused(server: WebServer) -> None:
    server.pages["/a"] = Page(status=302, headers={"Location": "http://turn.example:81/b"})

    with pytest.raises(ToolError, match="loopback"):
        await get(server, "http://turn.example/a", turn_example=[["1.1.1.1"], ["127.0.0.1"]])


async def test_redirects_do_not_go_round_for_ever(server: WebServer) -> None:
    server.pages["/a"] = Page(status=301, headers={"Location": "/a"})

    with pytest.raises(ToolError, match="redirects more than 5 times"):
        await get(server, "http://example.com/a")


async def test_reading_stops_at_the_limit(server: WebServer) -> None:
    server.pages["/endless"] = Page(b"0123456789" * 1_000, headers=TEXT, endless=True)

    result, _ = await get(server, "http://example.com/endless")

    assert (len(result.text), result.was_truncated) == (120_000, True)


async def test_a_small_packed_body_does_not_become_a_huge_one(server: WebServer) -> None:
    packed = gzip.compress(b"x" * 50_000_000)
    server.pages["/bomb"] = Page(packed, headers={**TEXT, "Content-Encoding": "gzip"})

    result, _ = await get(server, "http://example.com/bomb")

    assert (len(result.text), result.was_truncated) == (120_000, True)


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (Page(b"gone", 404, TEXT), "answered with status 404"),
        (Page(b"%PDF", headers={"Content-Type": "application/pdf"}), "is application/pdf, not text"),
        (Page(b"\0\1\2"), "is binary, not text"),
        (Page(b"x", headers={**TEXT, "Content-Encoding": "br"}), "packed with 'br'"),
        (Page(b"no gzip", headers={**TEXT, "Content-Encoding": "gzip"}), "can't be unpacked"),
    ],
)
async def test_what_can_not_be_shown_says_why(server: WebServer, page: Page, sentence: str) -> None:
    server.pages["/a"] = page

    with pytest.raises(ToolError, match=sentence):
        await get(server, "http://example.com/a")


async def test_an_unknown_host_and_a_silent_one_say_so(server: WebServer) -> None:
    with pytest.raises(ToolError, match="can't be reached"):
        await get(server, "http://nosuch.example/")
    hold = threading.Event()
    server.pages["/slow"] = Page(b"late", headers=TEXT, wait=hold)
    network = FakeNetwork(server.port, {"example.com": [[PUBLIC]]})
    try:
        with pytest.raises(ToolError, match="took longer than 1 s"):
            await Caller(root=Path("/")).call(tool_for(network), url="http://example.com/slow", timeout=1)
    finally:
        hold.set()


def test_the_lists_are_about_hosts() -> None:
    tool = tool_for(FakeNetwork(1, {}), allowlist=["*.python.org"], denylist=["evil.example"])

    def listed(url: str) -> ToolPermission | None:
        return tool.assess(WebFetchArgs(url=url), Workspace(root=Path("/"))).listed

    assert listed("https://docs.python.org/3/") is ToolPermission.ALWAYS
    assert listed("https://docs.python.org.evil.example/") is ToolPermission.NEVER
    assert listed("https://EVIL.example/") is ToolPermission.NEVER
    assert listed("https://example.com/?x=docs.python.org") is None
    judged = tool.assess(WebFetchArgs(url="https://Example.com/a/b"), Workspace(root=Path("/")))
    assert (judged.covers, judged.reason) == (("example.com",), "it reaches example.com")


async def test_a_deeply_nested_page_does_not_break_anything(server: WebServer) -> None:
    server.pages["/deep"] = Page(b"<div>" * 20_000 + b"bottom", headers=HTML)

    result, _ = await get(server, "http://example.com/deep")

    assert "bottom" in result.text
