from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from vibe.acp.greeting import greeted
from vibe.acp.line_transport import LineTransport
from vibe.core.system.line_wire import Wire


class Ends:
    """Both ends of a wire."""

    def __init__(self) -> None:
        self.reading, self.to_us = os.pipe()
        self.from_us, self.writing = os.pipe()
        for descriptor in (self.reading, self.to_us, self.from_us, self.writing):
            os.set_blocking(descriptor, False)
        self.transport = LineTransport(Wire(self.reading, self.writing))

    async def heard(self, data: bytes) -> list[dict[str, Any]]:
        """Send something and hang up; what was received as messages."""
        os.write(self.to_us, data)
        os.close(self.to_us)
        found: list[dict[str, Any]] = []
        with fail_after(10):
            async with create_task_group() as group:
                group.start_soon(self.transport.read)
                while (message := await self.transport.receive()) is not None:
                    found.append(message)
        await self.transport.close()
        return found

    def said(self) -> list[dict[str, Any]]:
        """What was answered so far."""
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self.from_us, 1_000_000)
        return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for descriptor in (made.reading, made.to_us, made.from_us, made.writing):
        with suppress(OSError):
            os.close(descriptor)


BAD: dict[str, tuple[bytes, int]] = {
    "no json": (b"hello\n", -32700),
    "half": (b'{"jsonrpc": "2.0", \n', -32700),
    "no utf-8": (b'"\xff\xfe"\n', -32700),
    "deep": (b"[" * 30_000 + b"\n", -32700),
    "batch": (b"[1, 2]\n", -32600),
    "number": (b"7\n", -32600),
    "odd method": (b'{"id": 1, "method": ["a"]}\n', -32600),
    "odd id": (b'{"id": [1], "method": "a"}\n', -32600),
    "empty": (b'{"id": 1}\n', -32600),
}


@pytest.mark.parametrize(("line", "code"), BAD.values(), ids=BAD)
async def test_what_is_no_message_is_answered_and_the_next_one_received(ends: Ends, line: bytes, code: int) -> None:
    heard = await ends.heard(line + b'\n{"jsonrpc": "2.0", "method": "next"}\n')

    assert heard == [{"jsonrpc": "2.0", "method": "next"}]
    assert [one["error"]["code"] for one in ends.said()] == [code]
    assert ends.transport.gone.is_set()


async def test_a_side_that_is_gone_is_told_nothing_more(ends: Ends) -> None:
    os.close(ends.from_us)

    await ends.transport.send({"jsonrpc": "2.0", "method": "hello"})
    await ends.transport.send({"jsonrpc": "2.0", "method": "again"})

    assert ends.transport.gone.is_set()
    assert await ends.transport.receive() is None
    await ends.transport.close()


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "session/new", "params": {"protocolVersion": 1}},
        {"id": 1, "method": "initialize"},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": True}},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "1"}},
        {"method": "initialize", "params": {"protocolVersion": 1}},
    ],
)
def test_only_a_proper_beginning_is_answered_at_once(message: dict[str, Any]) -> None:
    assert greeted(message) is None


def test_an_editor_with_terminals_is_told_how_a_person_authenticates_in_one() -> None:
    params = {"protocolVersion": 99, "clientCapabilities": {"auth": {"terminal": True}}}

    answer = greeted({"id": 0, "method": "initialize", "params": params})

    assert answer is not None
    assert answer["result"]["protocolVersion"] == 1
    assert answer["result"]["authMethods"][0]["args"] == ["--setup"]
