from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.to_thread
import pytest

from tests.fakes.mcp_peers import FAULTY, PEN, http_server, left_over, over_http, over_stdio
from tests.fakes.mcp_rig import running
from tests.fakes.ports import free_port
from vibe.core.config.models import McpServerConfig
from vibe.core.tools.mcp import connection
from vibe.system import http
from vibe.system.errors import EnvironmentFailure


def faulty(fault: str, *more: str, **fields: Any) -> McpServerConfig:
    return over_stdio(fault, *FAULTY, fault, *more, **fields)


async def test_one_server_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    async with running(
        tmp_path,
        faulty("none"),
        faulty("silent", startup_timeout_sec=1.0),
        faulty("exit"),
        over_stdio("missing", "no-such-command"),
        over_stdio("keyless", *FAULTY, "none", env={"KEY": "${NOT_SET_ANYWHERE}"}),
    ) as rig:
        problems = {state.name: state.problem for state in rig.servers.states() if state.problem}
        assert (await rig.call("none_echo", text="hi")).content == "Echo: hi"

    assert problems["silent"] == "did not start within 1 s (startup_timeout_sec)"
    assert problems["exit"].startswith("died (exit code 3): cannot open the database; its output is in ")
    assert "no command 'no-such-command'" in problems["missing"]
    assert "NOT_SET_ANYWHERE" in problems["keyless"]
    assert set(problems) == {"silent", "exit", "missing", "keyless"}


async def test_a_server_that_only_makes_noise_is_told_by_how_much(tmp_path: Path) -> None:
    said = ""
    for seconds in (1.0, 5.0, 25.0):  # a busy machine may not have started it within the first
        async with running(tmp_path, faulty("noise", startup_timeout_sec=seconds)) as rig:
            said = rig.state("noise").problem
        if "it printed" in said:
            break

    assert said.startswith("did not start within ")
    assert "it printed 4 lines of something else than MCP" in said


async def test_lines_that_are_no_messages_are_passed_over_and_logged(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("rubbish")) as rig:
        assert (await rig.call("rubbish_echo", text="hi")).content == "Echo: hi"

    assert "Welcome to the server!" in (tmp_path / "logs" / "rubbish.log").read_text()


async def test_a_flood_on_stderr_ends_in_a_file_of_bounded_size(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, faulty("flood")) as rig:
        assert (await rig.call("flood_echo", text="hi")).content == "Echo: hi"

    logged = sum(path.stat().st_size for path in (tmp_path / "logs").iterdir())
    assert 500_000 < logged <= 1_100_000
    assert capfd.readouterr() == ("", "")


async def test_a_server_that_dies_in_a_call_is_brought_back_once(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("dies-once", str(tmp_path))) as rig:
        died = await rig.call("dies-once_echo", text="one")
        again = await rig.call("dies-once_echo", text="two")

    assert died.status == "error"
    assert died.content.startswith("MCP server 'dies-once' died (exit code 9) while echo ran")
    assert (again.status, again.content) == ("ok", "Echo: two")


async def test_a_call_that_can_be_repeated_is_repeated_by_us(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("dies-once", str(tmp_path))) as rig:
        assert (await rig.call("dies-once_look", text="one")).content == "Echo: one"


async def test_a_server_that_dies_again_is_given_up_by_name(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("dies")) as rig:
        answers = [await rig.call("dies_echo", text="one") for _ in range(3)]
        status = rig.state("dies").status.value

    assert [answer.status for answer in answers] == ["error"] * 3
    assert all("MCP server 'dies'" in answer.content for answer in answers)
    assert "died (exit code 9)" in answers[-1].content
    assert "go on without it" in answers[-1].content
    assert status == "failed"


async def test_the_last_words_of_an_earlier_process_are_not_those_of_the_next(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("last-words", str(tmp_path))) as rig:
        first, second = await rig.call("last-words_echo"), await rig.call("last-words_echo")

    assert "died (exit code 9): the disk is full while echo ran" in first.content
    assert "died (exit code 9) while echo ran" in second.content


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("hang", "did not answer echo within 0.5 s"),
        ("mute", "is broken: it closed its output, and went on running while echo ran"),
        ("long-line", "is broken: it sent a message of more than 33554432 bytes while echo ran"),
    ],
)
async def test_an_answer_that_is_none_becomes_an_error_that_names_the_server(
    fault: str, words: str, tmp_path: Path
) -> None:
    seconds = 0.5 if "within 0.5 s" in words else 60.0
    async with running(tmp_path, faulty(fault, tool_timeout_sec=seconds)) as rig:
        answer = await rig.call(f"{fault}_echo", text="hi")

    assert answer.status == "error"
    assert f"MCP server {fault!r}" in answer.content
    assert words in answer.content


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"content": "KEEP"}},
        {"result": "KEEP"},
        {"result": ["KEEP"]},
        {"result": {"text": "KEEP"}},
        {"result": {"toolResult": {"a": "KEEP"}}},
        {"result": {"content": {"type": "text", "text": "KEEP"}}},
        {"result": {"content": None, "structuredContent": ["KEEP"]}},
        {"result": {"content": [{"type": "text", "text": "KEEP"}], "isError": "false", "_meta": []}},
        {"result": {"content": [{"type": "text", "text": "KEEP"}], "isError": "no idea"}},
        {"result": {"content": [{"type": "text", "text": "KEEP"}]}, "error": None},
    ],
    ids=str,
)
async def test_an_answer_in_an_odd_form_is_kept(answer: dict[str, Any], tmp_path: Path) -> None:
    async with running(tmp_path, faulty("says", json.dumps({"tools/call": answer}))) as rig:
        said = await rig.call("says_echo", text="hi")

    assert (said.status, "KEEP" in said.content) == ("ok", True), said.content


ANSWER = '"jsonrpc": "2.0", "result": {"content": [{"type": "text", "text": "KEEP"}]}'


@pytest.mark.parametrize(
    "line",
    [
        '{"id": ID.0, ANSWER}',
        'debug: {"id": ID, ANSWER}',
        'listening {ANSWER, "id": ID} [done]',
        '{"method": "notifications/message", "jsonrpc": "2.0"}{"id": ID, ANSWER}',
        '[{"jsonrpc": "2.0", "method": "notifications/message", "params": 5}, {"id": ID, ANSWER}]',
        '\0{"id": ID, ANSWER}\0',
        '{"id": ID, "tabs": "\t\x01", ANSWER}',
        '{\n  "id": ID,\n  "more": {\n    "a": [\n    ]\n  },\n  ANSWER\n}',
        '{\n{"id": ID, ANSWER}',
    ],
)
async def test_an_answer_is_found_wherever_it_stands_in_its_line(line: str, tmp_path: Path) -> None:
    async with running(tmp_path, faulty("writes", line.replace("ANSWER", ANSWER).replace("\0", "\x7f"))) as rig:
        assert (await rig.call("writes_echo")).content == "KEEP"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"], ids=repr)
async def test_an_answer_is_found_however_its_line_ends_and_is_encoded(encoding: str, end: str, tmp_path: Path) -> None:
    answer = '{"id": ID, ANSWER}'.replace("ANSWER", ANSWER) + end
    async with running(tmp_path, over_stdio("writes", *FAULTY, f"writes:{encoding}", answer)) as rig:
        assert (await rig.call("writes_echo")).content == "KEEP"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"jsonrpc": "2.0", "id": ID, "result": {oops', 'its answer can\'t be read: {"jsonrpc": "2.0", "id": '),
        ("{'id': ID, 'result': {}}", "its answer can't be read: {'id': "),
        ('{"id": ID, "result": ' + '{"a":' * 300 + "1" + "}" * 301, 'its answer can\'t be read: {"id": '),
        ('{"id": ID, "result": ' + '{"a":' * 3000 + "1" + "}" * 3001, 'its answer can\'t be read: {"id": '),
        ('{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "oops"}}', "failed: oops"),
        ('{"error": {"code": -32700, "message": "oops"}}', "oops"),
    ],
    ids=lambda given: given[:40],
)
async def test_an_answer_that_can_not_be_read_is_not_waited_for(line: str, words: str, tmp_path: Path) -> None:
    async with running(tmp_path, faulty("writes", line)) as rig:
        first, second = await rig.call("writes_echo"), await rig.call("writes_echo")

    assert words in first.content
    assert words in second.content


@pytest.mark.parametrize(
    "told",
    [
        {"serverInfo": {"name": "x"}},
        {"serverInfo": {"name": "x", "version": 1}, "instructions": 5},
        {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": [], "logging": True}},
        {"capabilities": None},
        {"capabilities": {"tools": {}, "extensions": {"x": 1, "y": [2]}, "experimental": []}},
    ],
    ids=str,
)
async def test_an_odd_welcome_costs_no_server(told: dict[str, Any], tmp_path: Path) -> None:
    welcome: Any = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **told}}
    async with running(tmp_path, faulty("says", json.dumps({"initialize": welcome}))) as rig:
        assert (await rig.call("says_echo", text="hi")).content == "Echo: hi"


async def test_a_page_that_can_not_be_asked_for_is_told(tmp_path: Path) -> None:
    listed = {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "nextCursor": 5}}
    async with running(tmp_path, faulty("says", json.dumps({"tools/list": listed}))) as rig:
        state = rig.state("says")

    assert (state.tools, state.unusable) == (("says_echo",), ("what follows on its next page: nextCursor is not text",))


async def test_a_list_that_goes_on_after_the_pages_that_are_read_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("endless")) as rig:
        state = rig.state("endless")

    assert len(state.tools) == 100
    assert state.unusable == ("what follows on later pages of a list, of which only 100 are read",)


async def test_odd_names_and_schemas_are_mended_or_told(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("odd-tools"), faulty("bad-list"), faulty("pages")) as rig:
        odd, bad, pages = (rig.state(name) for name in ("odd-tools", "bad-list", "pages"))
        answer = await rig.call(odd.tools[0], text="hi")

    assert odd.tools[0] == "odd-tools_with_space__nd_mehr"
    assert len(set(odd.tools)) == len(odd.tools) == 4
    assert all(len(name) <= 64 for name in odd.tools)
    assert len(odd.unusable) == 3
    assert answer.content == "Echo: hi"
    assert (bad.status.value, bad.tools, len(bad.unusable)) == ("ready", (), 1)
    assert pages.tools == tuple(f"pages_tool{n}" for n in range(5))


async def test_a_required_server_that_fails_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="'missing' is required: can't be started"):
        async with running(tmp_path, over_stdio("missing", "no-such-command", required=True)):
            pass


async def test_a_disabled_server_is_not_started(tmp_path: Path) -> None:
    async with running(tmp_path, over_stdio("off", "no-such-command", required=True, enabled=False)) as rig:
        assert [state.status for state in rig.servers.states()] == ["disabled"]


@pytest.mark.parametrize("fault", ["slow", "slow-restart"])
async def test_a_start_has_its_own_limit_however_short_a_call_must_be(fault: str, tmp_path: Path) -> None:
    async with running(tmp_path, faulty(fault, str(tmp_path), tool_timeout_sec=0.5, startup_timeout_sec=60)) as rig:
        answers = [await rig.call(f"{fault}_look", text="hi") for _ in range(2)]
    assert [answer.content for answer in answers] == ["Echo: hi", "Echo: hi"]


async def test_a_start_that_takes_too_long_names_its_setting(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("silent", tool_timeout_sec=0.2, startup_timeout_sec=2.0)) as rig:
        assert rig.state("silent").problem.startswith("did not start within 2 s (startup_timeout_sec)")


async def test_a_restart_that_fails_is_tried_again(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("lame-restart", str(tmp_path))) as rig:
        answer = await rig.call("lame-restart_look", text="hi")
    assert answer.content == "Echo: hi"


@pytest.mark.parametrize("keys", [{"disabled": True}, {"enabled": False}], ids=str)
async def test_a_server_is_turned_off_by_either_key(keys: dict[str, bool], tmp_path: Path) -> None:
    off = over_stdio("off", "no-such-command", required=True, **keys)
    async with running(tmp_path, off, faulty("none")) as rig:
        assert [(state.name, state.status) for state in rig.servers.states()] == [
            ("off", "disabled"),
            ("none", "ready"),
        ]


@pytest.mark.parametrize("pattern", ["look", "none_look", "l*", "re:(none_)?look"])
async def test_disabled_tools_are_not_offered(pattern: str, tmp_path: Path) -> None:
    async with running(tmp_path, faulty("none", disabled_tools=(pattern,))) as rig:
        assert rig.state("none").tools == ("none_echo",)


async def test_a_server_that_lists_too_much_offers_a_part_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, faulty("many"), faulty("none", max_tools=1)) as rig:
        many, none = rig.state("many"), rig.state("none")
    assert many.tools == tuple(f"many_tool{number:04}" for number in range(128))
    assert many.unusable == ("1872 of 2000 tools, since its max_tools is 128",)
    assert none.tools == ("none_echo",)


async def test_more_resources_and_prompts_than_are_listed_are_told(tmp_path: Path) -> None:
    capabilities: Any = {"tools": {}, "resources": {}, "prompts": {}}
    resources = [{"uri": f"x://{number:04}", "name": "r"} for number in range(1_002)]
    told: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": capabilities},
        "tools/list": {"tools": []},
        "resources/list": {"resources": resources},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": [{"name": f"p{number:03}"} for number in range(203)]},
    }
    lines = {method: {"result": result} for method, result in told.items()}
    async with running(tmp_path, faulty("says", json.dumps(lines))) as rig:
        state, listed = rig.state("says"), (await rig.call("says_read_resource")).content.splitlines()

    cut = "2 of 1002 resources, since the most that are listed is 1000"
    assert state.unusable == (cut, "3 of 203 prompts, since the most that are offered is 200")
    assert (len(listed), listed[0], listed[-1]) == (1_001, "x://0000  r", f"[not listed: {cut}]")


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002  keeps stderr clean
        return


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@contextmanager
def web_server(status: int, body: bytes = b"") -> Generator[str]:
    class Refusing(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

    with served(Refusing) as port:
        yield f"http://user:pass@127.0.0.1:{port}/mcp?key=secret"


class Forgetful(QuietHandler):
    """A server whose content type is ``kind``, and that does not know the session in the first ``forgets`` calls."""

    kind = "application/json"
    forgets = 0
    status = 404
    body = b""
    before = after = b""
    is_compressed = False
    tools = ("pay",)
    answer: ClassVar[dict[str, Any]] = {}
    taken: ClassVar[list[str]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["method"] == "tools/call" and self.forgets:
            type(self).forgets -= 1
            self.reply(self.status, self.body)
        elif "id" not in asked:
            self.reply(202, b"")
        else:
            answer = {
                "jsonrpc": "2.0",
                "id": asked["id"],
                "result": self.result(asked["method"], asked.get("params", {})),
            }
            if asked["method"] == "tools/call" and self.answer:
                answer = {"jsonrpc": "2.0", "id": asked["id"], **self.answer}
            self.reply(200, self.before + json.dumps(answer).encode() + self.after)

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/call":
            self.taken.append(params["name"])
            return {"content": [{"type": "text", "text": "done"}]}
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}
        known: Any = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **known}

    def do_DELETE(self) -> None:
        self.reply(200, b"")

    def do_GET(self) -> None:
        self.reply(405, b"")

    def reply(self, status: int, data: bytes) -> None:
        self.send_response(status)
        if self.is_compressed:
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        if self.kind:
            self.send_header("Content-Type", self.kind)
        self.send_header("Mcp-Session-Id", f"s{self.forgets}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def forgetful(port: int = 0, **fields: Any) -> Generator[tuple[str, list[str]]]:
    """Run such a server, and yield its address and the calls it receives."""
    taken: list[str] = []
    with served(type("Server", (Forgetful,), {**fields, "taken": taken}), port) as given:
        yield f"http://127.0.0.1:{given}/mcp", taken


UNKNOWN = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (404, UNKNOWN),
        (404, UNKNOWN.replace(b"-32001", b"-32600")),
        (404, b"<h1>no such session</h1>"),
        (400, UNKNOWN.replace(b"Session not found", b"Bad Request: No valid session ID provided")),
        (400, UNKNOWN.replace(b"Session not found", b"Bad Request: Server not initialized")),
    ],
)
async def test_a_call_of_a_session_that_is_not_known_is_sent_again_once(
    status: int, body: bytes, tmp_path: Path
) -> None:
    with forgetful(forgets=1, status=status, body=body) as (url, taken):
        async with running(tmp_path, over_http("web", url)) as rig:
            first, second = await rig.call("web_pay"), await rig.call("web_pay")

    assert (first.content, second.content, taken) == ("done", "done", ["pay", "pay"])


async def test_a_call_that_no_session_is_known_for_is_said_not_to_have_been_made(tmp_path: Path) -> None:
    with forgetful(forgets=9, body=UNKNOWN) as (url, taken):
        async with running(tmp_path, over_http("web", url)) as rig:
            answer = await rig.call("web_pay")

    assert (answer.status, taken) == ("error", [])
    assert "does not know our session any more: pay was not called" in answer.content


EVENTS: dict[str, Any] = {"kind": "text/event-stream"}
FORMS: list[dict[str, Any]] = [
    {},
    {"before": b"[", "after": b"]"},
    {**EVENTS, "before": b"event: message\ndata: ", "after": b"\n\n"},
    {**EVENTS, "before": b": hello\r\nevent: answer\r\nid: 1\r\ndata:"},
    {**EVENTS, "before": b"data: listening\n\nevent: ping\ndata: {}\n\ndata: ", "after": b"\n\n"},
    {**EVENTS, "before": b"data: [\ndata: ", "after": b"\ndata: ]\n\n"},
]
"""Ways in which servers wrap an answer."""


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"result": "KEEP"}, "ok", "KEEP"),
        ({"result": ["KEEP"], "error": None}, "ok", "KEEP"),
        ({"error": "boom"}, "error", "failed: boom"),
        ({"error": {"code": "E_FAIL", "message": "boom"}}, "error", "failed: E_FAIL: boom"),
        ({"error": {"code": -32000, "message": "quota used up"}}, "error", "quota used up"),
        ({"error": {"code": -32000, "message": {"why": "boom"}}}, "error", "{'why': 'boom'}"),
        ({"error": {"code": -32000, "message": "no", "data": {"hint": "try b"}}}, "error", 'no ({"hint": "try b"})'),
        ({"error": {"code": "E", "message": "no", "data": "z" * 9_000}}, "error", f"E: no ({'z' * 1_999}…)"),
        ({"id": None, "error": {"code": -32000, "message": "boom"}}, "error", "boom"),
        ({"id": "another", "result": {"content": [{"type": "text", "text": "KEEP"}]}}, "ok", "KEEP"),
    ],
    ids=lambda given: str(given)[:60],
)
@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_an_answer_over_http_in_no_form_of_the_protocol_is_kept(
    form: dict[str, Any], answer: dict[str, Any], status: str, words: str, tmp_path: Path
) -> None:
    with forgetful(answer=answer, **form) as (url, _):
        async with running(tmp_path, over_http("web", url)) as rig:
            said = await rig.call("web_pay")

    assert (said.status, words in said.content) == (status, True), said.content


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "its answer is empty"),
        (b"all good", "its answer can't be read: all good"),
        (b'{"jsonrpc": "2.0", "id": 3, "result": {"cont', 'its answer can\'t be read: {"jsonrpc"'),
    ],
)
async def test_a_body_that_is_no_answer_is_told_in_words(body: bytes, words: str, tmp_path: Path) -> None:
    with forgetful(forgets=1, status=200, body=body) as (url, _):
        async with running(tmp_path, over_http("web", url)) as rig:
            first, second = await rig.call("web_pay"), await rig.call("web_pay")

    assert first.content.startswith(f"MCP server 'web' failed: {words}")
    assert second.content == "done"


async def test_an_answer_in_a_stream_may_be_as_long_as_any_other(tmp_path: Path) -> None:
    text = "z" * 20_000_000
    with forgetful(answer={"result": {"content": [{"type": "text", "text": text}]}}, **EVENTS, before=b"data:") as (
        url,
        _,
    ):
        async with running(tmp_path, over_http("web", url)) as rig:
            said = await rig.call("web_pay")

    assert (said.status, said.content[:9]) == ("ok", "z" * 9), said.content[:200]


class Endless(Forgetful):
    """Answers a call, and with ``ends_badly`` the end of a session, with ``status`` and text that never ends."""

    endless_kind = "text/plain"
    part = b"x" * 65_536
    pause = 0.0
    ends_badly = False

    def reply(self, status: int, data: bytes) -> None:
        if data != self.body:
            super().reply(status, data)
            return
        self.send_response(status)
        self.send_header("Content-Type", self.endless_kind)
        if self.is_compressed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        pack = zlib.compressobj(wbits=31)
        with suppress(OSError):
            self.wfile.write(self.packed(pack, data))
            while True:
                self.wfile.write(self.packed(pack, self.part))
                time.sleep(self.pause)

    def packed(self, pack: Any, data: bytes) -> bytes:
        return pack.compress(data) if self.is_compressed else data

    def do_DELETE(self) -> None:
        self.reply(200, self.body if self.ends_badly else b"")


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize(
    ("kind", "status", "body", "words"),
    [
        (
            "text/plain",
            500,
            b"it broke: ",
            "answered HTTP 500 at {url}: see the server's own log; it says: it broke: x",
        ),
        (
            "application/json",
            502,
            b'{"error": "',
            "answered HTTP 502 at {url}: see the server's own log; it says: {{\"e",
        ),
        ("text/event-stream", 503, b"data: ", "answered HTTP 503 at {url}: see the server's own log; it says: data: x"),
        ("text/html", 500, b"<p>", "answered HTTP 500 at {url}: see the server's own log"),
        ("application/json", 200, b'{"result": "', "failed: its answer can't be read: it is longer than 33,554,432 b"),
        ("text/plain", 200, b'{"result": "', "failed: its answer can't be read: it is longer than 33,554,432 bytes"),
        ("text/event-stream", 200, b"data: ", "failed: its answer can't be read: it is longer than 33,554,432 bytes"),
        ("text/event-stream", 200, b": ", "failed: its answer can't be read: it is longer than 33,554,432 bytes"),
    ],
)
async def test_an_answer_without_end_is_told_at_once(
    kind: str,
    status: int,
    body: bytes,
    words: str,
    is_compressed: bool,  # noqa: FBT001  a table
    tmp_path: Path,
) -> None:
    table = {"endless_kind": kind, "status": status, "body": body, "is_compressed": is_compressed}
    server = type("Server", (Endless,), {"forgets": 1, "taken": [], "ends_badly": True, **table})
    with served(server) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with running(tmp_path, over_http("web", url, tool_timeout_sec=60)) as rig:
            with anyio.fail_after(40):
                said = await rig.call("web_pay")

    assert said.content.startswith(f"MCP server 'web' {words.format(url=url)}"), said.content[:300]


async def test_a_refusal_that_comes_by_letters_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ERROR_SECONDS", 0.5)
    table: dict[str, Any] = {"forgets": 1, "taken": [], "status": 500, "body": b"it broke ", "part": b"z", "pause": 0.1}
    with served(type("Server", (Endless,), table)) as port:
        async with running(tmp_path, over_http("web", f"http://127.0.0.1:{port}/mcp")) as rig:
            with anyio.fail_after(20):
                said = await rig.call("web_pay")

    assert "; it says: it broke z" in said.content


async def test_a_compressed_answer_is_read(tmp_path: Path) -> None:
    with forgetful(is_compressed=True) as (url, _):
        async with running(tmp_path, over_http("web", url)) as rig:
            assert (await rig.call("web_pay")).content == "done"


@pytest.mark.parametrize("kind", ["", "text/plain", "text/plain; charset=utf-8", "text/json", "Application/JSON"])
async def test_an_answer_is_read_whatever_type_it_says_it_is(kind: str, tmp_path: Path) -> None:
    with forgetful(kind=kind) as (url, _):
        async with running(tmp_path, over_http("web", url)) as rig:
            assert (await rig.call("web_pay")).content == "done"


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "api_key_env"), (403, "HTTP 403"), (404, "HTTP 404"), (429, "wait before"), (500, "HTTP 500")],
)
async def test_the_status_of_a_refusal_is_told_without_secrets(status: int, words: str, tmp_path: Path) -> None:
    with web_server(status) as url:
        async with running(tmp_path, over_http("web", url)) as rig:
            problem = rig.state("web").problem

    assert words in problem
    assert not {"pass", "secret"} & set(problem.replace("@", " ").replace("=", " ").split())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": "credits used up"}', '; it says: {"error": "credits used up"}'),
        (b"the scope\n\x1b[1mrepo is missing", "; it says: the scope repo is missing"),
        (b"api_key=hunter2hunter2 is not known", "; it says: api_key=[redacted] is not known"),
        (b"<!doctype html><title>Forbidden</title>", ""),
    ],
)
async def test_what_a_server_says_of_a_refusal_is_told(body: bytes, words: str, tmp_path: Path) -> None:
    with web_server(403, body) as url:
        async with running(tmp_path, over_http("web", url)) as rig:
            problem = rig.state("web").problem

    assert problem == f"refused access (HTTP 403): check what the key may do{words}"


async def test_an_address_where_nobody_listens_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, over_http("gone", f"http://127.0.0.1:{free_port()}/mcp")) as rig:
        assert "can't be reached at http://127.0.0.1:" in rig.state("gone").problem


async def test_an_http_server_that_was_restarted_is_found_again(tmp_path: Path) -> None:
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        config = over_http("pen", url)
        connected = running(tmp_path, config)
        rig = await connected.__aenter__()
    try:
        with http_server(*PEN, "http", str(port), port=port):
            first = await rig.call("pen_echo", text="one")
            second = await rig.call("pen_echo", text="two")
    finally:
        await connected.__aexit__(None, None, None)

    assert "Echo: one" in first.content or "MCP server 'pen'" in first.content
    assert second.content == "Echo: two"


async def test_a_server_that_was_given_up_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REST_SECONDS", 0.0)
    port, told = free_port(), list[str]()

    async def note() -> None:
        told.append("changed")

    with forgetful(port=port) as (url, _):
        connected = running(tmp_path, over_http("web", url), on_change=note)
        rig = await connected.__aenter__()
    try:
        gone = await rig.call("web_pay")
        with forgetful(port=port, tools=("pay", "refund")):
            back = await rig.call("web_pay")
            await rig.hire()
            new = await rig.call("web_refund")
    finally:
        await connected.__aexit__(None, None, None)

    assert "MCP server 'web'" in gone.content
    assert (back.content, new.content) == ("done", "done")
    assert told == ["changed", "changed"]


async def test_servers_are_closed_side_by_side_and_nothing_is_left(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    async with running(tmp_path, *(over_stdio(f"s{n}", *FAULTY, "stubborn", mark) for n in range(6))):
        assert len(await anyio.to_thread.run_sync(left_over, mark)) >= 6
        closing = time.monotonic()
    took = time.monotonic() - closing

    assert took < 15, "three seconds each"
    assert await anyio.to_thread.run_sync(left_over, mark) == []


async def test_cancelling_a_run_closes_its_servers(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with anyio.CancelScope() as scope:
        async with running(tmp_path, faulty("none", mark)) as rig:
            assert rig.state("none").status.value == "ready"
            scope.cancel()
            await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert await anyio.to_thread.run_sync(left_over, mark) == []


class Talkative(Forgetful):
    """A server that answers a call with a stream that never ends, and sets ``left`` when nobody reads that any more."""

    left: ClassVar[threading.Event]

    def reply(self, status: int, data: bytes) -> None:
        if b"done" not in data:
            super().reply(status, data)
            return
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with suppress(OSError):
            while not self.left.wait(0.02):
                self.wfile.write(b"id: 1\ndata:\n\n")
        self.left.set()


async def test_the_stream_of_a_call_that_timed_out_is_not_read_on(tmp_path: Path) -> None:
    left = threading.Event()
    with served(type("Server", (Talkative,), {"left": left, "taken": []})) as port:
        server = over_http("talks", f"http://127.0.0.1:{port}/mcp", tool_timeout_sec=0.5)
        try:
            async with running(tmp_path, server) as rig:
                late = await rig.call("talks_pay")
                was_left = await anyio.to_thread.run_sync(left.wait, 10)
        finally:
            left.set()
    assert "did not answer pay within 0.5 s" in late.content
    assert was_left
