"""The server over standard input and output: its own answers, the library's, and input that is no message."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after
from anyio.lowlevel import checkpoint

from vibe.app.engine.host import Host
from vibe.mcp_server.protocol import Handshake, LazyRuntime, serve_stdio
from vibe.mcp_server.tools import TOOLS
from vibe.system.line_wire import LONGEST_MESSAGE, Wire

CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def request(method: str, request_id: int | str = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def initialize(version: str = "2025-11-25", request_id: int = 1) -> bytes:
    return request("initialize", request_id, protocolVersion=version, **CLIENT)


def answered(handshake: Handshake, line: bytes) -> Any:
    answer = handshake.answer(line)
    return None if answer is None else json.loads(answer)


INITIALIZED = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'


def test_the_handshake_is_answered_at_once_and_the_library_hears_of_it_first() -> None:
    listed: list[int] = []
    handshake = Handshake(lambda: listed.append(1))
    call = request("tools/call", 4, name="x", arguments={})

    assert answered(handshake, request("ping", "a")) == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert answered(handshake, call) is None
    assert answered(handshake, initialize())["result"]["protocolVersion"] == "2025-11-25"
    assert answered(handshake, INITIALIZED) is None
    assert listed == []
    tools = answered(handshake, request("tools/list", 3))["result"]["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in TOOLS]
    assert listed == [1]
    assert (handshake.is_initialized, handshake.unheard) == (True, [initialize(), call, INITIALIZED])


@pytest.mark.parametrize(
    "line",
    [
        request("tools/list"),
        initialize("2024-10-07"),
        request("initialize"),
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}',
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        b"[1]",
        b"rubbish",
    ],
    ids=["tools too early", "another version", "no version", "params by position", "no id", "a batch", "rubbish"],
)
def test_whatever_else_comes_waits_for_the_library(line: bytes) -> None:
    handshake = Handshake(lambda: None)

    assert handshake.answer(line) is None
    assert (handshake.is_initialized, handshake.unheard) == (False, [line])


@pytest.mark.parametrize("version", [None, 5, [], {"a": 1}, ["2025-06-18"]])
def test_a_version_that_is_no_text_is_the_librarys_to_refuse(version: Any) -> None:
    assert Handshake(lambda: None).answer(request("initialize", 1, protocolVersion=version, **CLIENT)) is None


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_older_versions_do_not_wait_for_the_library_which_answers_the_same(client: Client, version: str) -> None:
    asked = [initialize(version), INITIALIZED, request("tools/list", 3)]
    handshake = Handshake(lambda: None)

    at_once = [answer for line in asked if (answer := answered(handshake, line))]
    unknown = await client.answers(initialize("2024-10-07"), *asked[1:])  # Waits for the library.

    assert [one["result"] for one in at_once] == [
        unknown[0]["result"] | {"protocolVersion": version},
        unknown[1]["result"],
    ]


async def test_only_a_requests_own_id_is_a_whole_number_for_a_float_not_one_in_its_arguments() -> None:
    handshake = Handshake(lambda: None)
    call = request("tools/call", 2, name="x", arguments={"id": 5.0}).replace(b'"id": 2', b'"id": 2.0')

    handshake.answer(call)

    assert json.loads(handshake.unheard[0])["id"] == 2
    assert '"arguments": {"id": 5.0}' in handshake.unheard[0].decode()


def test_a_cancelled_request_is_known_by_an_id_written_as_a_float() -> None:
    handshake = Handshake(lambda: None)

    handshake.answer(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7.0}}')

    assert handshake.unheard == [b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}']


async def test_an_id_written_as_a_float_is_known_and_other_odd_ids_are_refused(client: Client) -> None:
    early = json.loads(initialize()) | {"id": 1.0}
    ids: list[Any] = [2.0, -3.00, 4.5, None, True, [5], {"id": 6.0}]
    pings = [json.dumps({"jsonrpc": "2.0", "method": "ping", "id": one}).encode() for one in ids]

    first, *answers = await client.answers(json.dumps(early).encode(), INITIALIZED, request("foo", 9), *pings)

    assert (first["id"], [one["id"] for one in answers]) == (1, [9, 2, -3, None, None, None, None, None])
    assert [one["error"]["code"] for one in answers[3:]] == [-32600] * 5


def test_a_second_initialize_is_the_librarys_to_refuse() -> None:
    handshake = Handshake(lambda: None)
    handshake.answer(initialize())

    assert handshake.answer(initialize(request_id=2)) is None
    assert handshake.unheard == [initialize(), initialize(request_id=2)]


class Client:
    """The other end of a server without a runtime."""

    def __init__(self, home: Path) -> None:
        self.reading, self.to_server = os.pipe()
        self.from_server, self.writing = os.pipe()
        for descriptor in (self.reading, self.to_server, self.from_server, self.writing):
            os.set_blocking(descriptor, False)
        self.runtime = LazyRuntime(Host(home=home, environ={}))
        self._heard = b""

    async def answers(self, *lines: bytes) -> list[dict[str, Any]]:
        """Send lines, each after the previous answer, hang up, and return the answers once the server has ended."""
        heard: list[dict[str, Any]] = []
        with fail_after(60):
            async with create_task_group() as group:
                group.start_soon(serve_stdio, Wire(self.reading, self.writing), self.runtime)
                for line in lines:
                    await self.say(line)
                    if line != INITIALIZED:
                        heard.append(await self.hear())
                os.close(self.to_server)
        return heard

    async def say(self, line: bytes) -> None:
        """Send a line."""
        data = line + b"\n"
        while data:
            with suppress(BlockingIOError):
                data = data[os.write(self.to_server, data) :]
            await checkpoint()

    async def hear(self) -> dict[str, Any]:
        """Return the next answer."""
        while b"\n" not in self._heard:
            with suppress(BlockingIOError):
                self._heard += os.read(self.from_server, 1_000_000)
            await checkpoint()
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)


@pytest.fixture
def client(vibe_home: Path) -> Iterator[Client]:
    made = Client(vibe_home)
    yield made
    for descriptor in (made.reading, made.to_server, made.from_server, made.writing):
        with suppress(OSError):
            os.close(descriptor)


async def test_the_library_goes_on_where_the_handshake_ended_and_the_server_ends_with_its_client(
    client: Client,
) -> None:
    call = request("tools/call", 2, name="call_vibes", arguments={})

    first, called, again = await client.answers(initialize(), INITIALIZED, call, initialize(request_id=3))

    assert (first["id"], first["result"]["serverInfo"]["name"]) == (1, "vibe")
    assert (called["id"], called["result"]["isError"]) == (2, True)
    assert "there is no tool 'call_vibes'; did you mean 'call_vibe'" in called["result"]["content"][0]["text"]
    assert again["id"] == 3, "the client was not told twice of the first"


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"rubbish", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"id": "a"}', -32600, "a"),
        (b'{"id": true, "method": 7}', -32600, None),
        (b"[]", -32600, None),
        (request("server/discover", 7), -32601, 7),
        (b"x" * (LONGEST_MESSAGE + 1), -32600, None),
    ],
    ids=["no json", "no utf-8", "no method", "odd method", "a batch", "discover", "too long"],
)
async def test_what_is_no_message_is_answered_and_the_next_one_taken(
    client: Client, line: bytes, code: int, request_id: object
) -> None:
    _, refused, pong = await client.answers(initialize(), INITIALIZED, line, request("ping", 9))

    assert (refused["error"]["code"], refused["id"]) == (code, request_id)
    assert (pong["id"], pong["result"]) == (9, {})
