from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from acp.schema import NewSessionRequest
from anyio import create_task_group, fail_after

from vibe.acp.content import server_of
from vibe.acp.transport import EditorAbilities, LineTransport, abilities_of, answer_to_initialize
from vibe.system.errors import UsageError
from vibe.system.line_wire import Wire


class Ends:
    """Both ends of a wire."""

    def __init__(self) -> None:
        self.reading, self.to_us = os.pipe()
        self.from_us, self.writing = os.pipe()
        for descriptor in (self.reading, self.to_us, self.from_us, self.writing):
            os.set_blocking(descriptor, False)
        self.transport = LineTransport(Wire(self.reading, self.writing))

    async def heard(self, data: bytes) -> list[dict[str, Any]]:
        """Send bytes, hang up, and return the messages that were received."""
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
        """Return the answers so far."""
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
    "id that is no number": (b'{"id": true, "method": "a"}\n', -32600),
    "no number of JSON": (b'{"id": 1, "method": "a", "params": {"b": NaN}}\n', -32700),
    "parameters by position": (b'{"id": 1, "method": "a", "params": [1]}\n', -32602),
    "empty": (b'{"id": 1}\n', -32600),
}


@pytest.mark.parametrize(("line", "code"), BAD.values(), ids=BAD)
async def test_what_is_no_message_is_answered_and_the_next_one_received(ends: Ends, line: bytes, code: int) -> None:
    heard = await ends.heard(line + b'\n{"jsonrpc": "2.0", "method": "next"}\n')

    assert heard == [{"jsonrpc": "2.0", "method": "next", "params": {}}]
    assert [one["error"]["code"] for one in ends.said()] == [code]
    assert ends.transport.gone.is_set()


HALVES: dict[str, tuple[bytes, str]] = {
    "escaped": (rb"a\ud83db", "a?b"),
    "escaped in capitals": (rb"a\uD83Db", "a?b"),
    "the second half": (rb"a\udc00", "a?"),
    "as bytes": (b"a\xed\xa0\xbdb", "a?b"),
    "a whole pair": (rb"\ud83d\ude00", "\N{GRINNING FACE}"),
    "a letter that begins alike": ("\ud55c".encode(), "\ud55c"),
}


@pytest.mark.parametrize(("given", "taken"), HALVES.values(), ids=HALVES)
async def test_half_a_surrogate_pair_is_a_question_mark_wherever_it_is(ends: Ends, given: bytes, taken: str) -> None:
    line = b'{"id": "%s", "method": "%s", "params": {"%s": ["%s"]}}\n' % ((given,) * 4)

    assert await ends.heard(line) == [{"id": taken, "method": taken, "params": {taken: [taken]}}]


ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a result": ('"result": {"a": 1}', {"result": {"a": 1}}),
    "no result": ('"more": 1', {"result": None}),
    "both": ('"result": null, "error": {"code": 1, "message": "no"}', {"error": {"code": 1, "message": "no"}}),
    "no error": ('"error": null', {"result": None}),
    "an error in words": ('"error": "broken"', {"error": {"code": -32603, "message": "broken"}}),
    "an error in a list": ('"error": [1]', {"error": {"code": -32603, "message": "[1]"}}),
}


@pytest.mark.parametrize("call_id", ["7", "7.0", '"7"'])
async def test_a_number_is_the_same_id_however_it_is_written(ends: Ends, call_id: str) -> None:
    await ends.transport.send({"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": {}})

    line = f'{{"id": {call_id}, "result": {{}}}}\n{{"id": 8.0, "method": "session/list"}}\n'.encode()
    assert [one["id"] for one in await ends.heard(line)] == [7, 8]


@pytest.mark.parametrize(("given", "taken"), ANSWERS.values(), ids=ANSWERS)
async def test_answers_come_in_many_forms(ends: Ends, given: str, taken: dict[str, Any]) -> None:
    await ends.transport.send({"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": {}})

    assert await ends.heard(f'{{"jsonrpc": "2.0", "id": 7, {given}}}\n'.encode()) == [
        {"jsonrpc": "2.0", "id": 7, **taken}
    ]


async def test_what_is_not_for_us_is_taken_out_of_a_request(ends: Ends) -> None:
    params = {"cwd": "/a", "_meta": {"cwd": "/b", "self": 1}, "field_meta": {}}

    (heard,) = await ends.heard(json.dumps({"id": 1, "method": "session/list", "params": params}).encode() + b"\n")

    assert heard["params"] == {"cwd": "/a"}


async def test_a_prompt_whose_request_is_cancelled_is_cancelled_in_its_session(ends: Ends) -> None:
    def cancelled(request_id: object) -> bytes:
        return json.dumps({"method": "$/cancel_request", "params": {"requestId": request_id}}).encode() + b"\n"

    prompt = b'{"id": 7, "method": "session/prompt", "params": {"sessionId": "s"}}\n'

    heard = await ends.heard(
        cancelled(7) + prompt + cancelled(8) + cancelled({}) + cancelled(7) + b'{"method": "$/more"}\n'
    )

    assert [(one["method"], one["params"]) for one in heard] == [
        ("session/prompt", {"sessionId": "s"}),
        ("session/cancel", {"sessionId": "s"}),
    ]


async def test_wrong_parameters_are_named_in_a_sentence_and_not_repeated(ends: Ends) -> None:
    problems = [{"loc": ("prompt", 0), "msg": "Field required", "input": "x" * 1000}]
    error = {"code": -32602, "message": "Invalid params", "data": {"errors": problems}}

    await ends.transport.send({"jsonrpc": "2.0", "id": 1, "error": error})
    await ends.transport.close()

    assert [one["error"] for one in ends.said()] == [
        {"code": -32602, "message": "invalid params: prompt.0: Field required"}
    ]


async def test_an_answer_that_json_has_no_form_for_is_an_error(ends: Ends) -> None:
    await ends.transport.send({"jsonrpc": "2.0", "id": 1, "result": float("nan")})
    with pytest.raises(ValueError, match="session/update can't be sent"):
        await ends.transport.send({"jsonrpc": "2.0", "method": "session/update", "params": {"a": float("inf")}})
    await ends.transport.close()

    (said,) = ends.said()
    assert (said["id"], said["error"]["code"]) == (1, -32603)


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
    assert answer_to_initialize(message) is None


@pytest.mark.parametrize(
    ("given", "files", "terminals"),
    [
        ({"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}, True, True),
        ({"fs": {"readTextFile": 1}, "terminal": "yes"}, False, False),
        ({"fs": 5}, False, False),
        (None, False, False),
        ([], False, False),
    ],
)
def test_an_editor_can_do_what_it_says_in_the_words_of_the_protocol(
    given: Any,
    files: bool,  # noqa: FBT001  a parameter of the cases
    terminals: bool,  # noqa: FBT001  as above
) -> None:
    assert abilities_of(given) == EditorAbilities(reads=files, writes=files, terminals=terminals)


def test_an_editor_with_terminals_is_told_how_a_person_authenticates_in_one() -> None:
    params = {"protocolVersion": 99, "clientCapabilities": {"auth": {"terminal": True}}}

    answer = answer_to_initialize({"id": 0, "method": "initialize", "params": params})

    assert answer is not None
    assert answer["result"]["protocolVersion"] == 1
    assert answer["result"]["authMethods"][0]["args"] == ["--setup"]


NONE: dict[str, str] = {}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "a", "command": "c"}, ("a", ("c",), (), NONE)),
        ({"name": "a", "command": 5, "args": [1, "b"], "env": {"N": 1}}, ("a", ("5",), ("1", "b"), {"N": "1"})),
        ({"command": "c", "args": "b", "env": ["A=b"], "type": "stdio"}, ("mcpServers.0", ("c",), ("b",), NONE)),
        ("c", ("mcpServers.0", ("",), (), NONE)),
        (None, ("mcpServers.0", ("",), (), NONE)),
    ],
)
async def test_an_odd_server_is_kept_for_its_start_to_tell_of_it(given: Any, told: object, ends: Ends) -> None:
    config = server_of(await received(given, ends))

    assert (config.name, config.command, config.args, config.env) == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "a", "url": "https://h"}, ("a", "https://h", NONE)),
        ({"name": "a", "type": "http"}, ("a", "", NONE)),
        ({"name": "a", "type": "http", "url": 5, "headers": {"X": "y"}}, ("a", "5", {"X": "y"})),
        ({"url": "u", "headers": [{"name": "X", "value": 1}, {"name": "Y"}, 3]}, ("mcpServers.0", "u", {"X": "1"})),
    ],
)
async def test_an_odd_server_on_the_network_is_kept_too(given: Any, told: object, ends: Ends) -> None:
    config = server_of(await received(given, ends))

    assert (config.name, config.url, config.headers) == told


@pytest.mark.parametrize("given", [{"name": "a", "type": "sse"}, {"name": "a", "type": "acp", "id": "1"}])
async def test_a_server_of_another_kind_is_named(given: Any, ends: Ends) -> None:
    with pytest.raises(UsageError, match="'a' can't be used"):
        server_of(await received(given, ends))


async def received(given: Any, ends: Ends) -> Any:
    """Return a server's settings as the library parses them."""
    params = {"cwd": "/", "mcpServers": [given]}
    [message] = await ends.heard(json.dumps({"id": 1, "method": "session/new", "params": params}).encode() + b"\n")
    [server] = NewSessionRequest.model_validate(message["params"]).mcp_servers
    return server
