"""All HTTP backends against a server whose answers and failures are scripted."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall, events_of
from tests.integration.core.llm.backend.conftest import KEY, Connect
from vibe import __version__
from vibe.core.config.models import BackendKind, ModelConfig
from vibe.core.llm.backend import http as backend_http
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelCreditError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRequestError,
    ModelTransportError,
)
from vibe.core.llm.port import FinishReason, ModelRequest, ToolSchema
from vibe.core.llm.retry import RetryingBackend, RetryPolicy
from vibe.core.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from vibe.system.errors import EnvironmentFailure

CHAT = [BackendKind.MISTRAL, BackendKind.GENERIC]
"""The backends that speak chat completions."""
CALLS = (
    ServedCall(name="read_file", arguments='{"path": "a.txt"}', id="aaaaaaaa1"),
    ServedCall(name="list_dir", arguments="{}", id="bbbbbbbb2"),
)


async def test_an_answer_streams_and_comes_back_whole(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(text="I will read it", reasoning="let me see", tool_calls=CALLS))
    seen = MemoryObserver()
    done = await connect(server.api_base).complete(request(), seen)
    assert done.message.content == "I will read it "
    assert done.message.reasoning == "let me see"
    assert done.message.tool_calls == (
        ToolCall("aaaaaaaa1", "read_file", '{"path": "a.txt"}'),
        ToolCall("bbbbbbbb2", "list_dir", "{}"),
    )
    assert done.finish_reason is FinishReason.TOOL_CALLS
    assert done.usage == Usage(prompt_tokens=11, completion_tokens=7, calls=1)
    assert [delta.text for delta in seen.deltas if delta.text] == ["I ", "will ", "read ", "it "]


async def test_the_request_says_everything_and_carries_the_key(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(text="ok"))
    tool = ToolSchema(name="read_file", description="Reads.", parameters={"type": "object", "properties": {}})
    history = (
        SystemMessage("brief"),
        UserMessage("go"),
        AssistantMessage("", (ToolCall("aaaaaaaa1", "read_file", "{}"),)),
        ToolMessage("text", "aaaaaaaa1", "read_file"),
    )
    model = ModelConfig(name="big", provider="acme", temperature=0.3, max_output_tokens=99)
    await connect(server.api_base).complete(
        ModelRequest(model=model, messages=history, tools=(tool,), extra_headers={"X-Step": "s1"}), MemoryObserver()
    )
    got = server.requests[0]
    assert got.headers["x-step"] == "s1"
    assert (got.body["model"], got.body["stream"], got.body["temperature"]) == ("big", True, 0.3)
    assert got.body["max_tokens"] == 99
    if server.shape == "anthropic":
        assert (got.path, got.headers["x-api-key"]) == ("/v1/messages", KEY)
        assert (got.headers["anthropic-version"], "authorization" in got.headers) == ("2023-06-01", False)
        assert [message["role"] for message in got.body["messages"]] == ["user", "assistant", "user"]
        return
    assert got.path == "/v1/chat/completions"
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert [message["role"] for message in got.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert got.body["messages"][2]["tool_calls"][0]["function"] == {"name": "read_file", "arguments": "{}"}
    assert got.body["messages"][3]["tool_call_id"] == "aaaaaaaa1"
    assert got.body["tools"][0]["function"]["name"] == "read_file"


async def test_a_provider_learns_who_asks_and_gets_the_users_headers(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(text="ok"), Reply(text="ok"))
    own = {"X-Team": "search", "User-Agent": "gateway-client"}
    asked = replace(request(), extra_headers={"x-affinity": "conversation-1"})

    await connect(server.api_base).complete(asked, MemoryObserver())
    await connect(server.api_base, extra_headers=own).complete(asked, MemoryObserver())

    plain, with_own = (received.headers for received in server.requests)
    assert (plain["user-agent"], plain["x-affinity"]) == (f"vibe/{__version__}", "conversation-1")
    assert (with_own["user-agent"], with_own["x-team"]) == ("gateway-client", "search")
    assert KEY in (with_own.get("x-api-key") or with_own["authorization"])


@pytest.mark.parametrize("kind", CHAT, indirect=True)
async def test_thoughts_in_a_field_of_another_name_are_read(server: ModelServer, connect: Connect) -> None:
    events = [
        json.dumps({"choices": [{"index": 0, "delta": {"thoughts": "hm"}}]}),
        json.dumps({"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}),
        json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
        "[DONE]",
    ]
    server.enqueue(Reply(events=tuple(events)), Reply(events=tuple(events)))

    told = await connect(server.api_base, reasoning_field_name="thoughts").complete(request(), MemoryObserver())
    untold = await connect(server.api_base).complete(request(), MemoryObserver())

    assert (told.message.content, told.message.reasoning, untold.message.reasoning) == ("yes", "hm", "")


async def test_cached_tokens_are_counted(server: ModelServer, connect: Connect) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 64}}
    server.enqueue(Reply(text="ok", usage=usage))
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert done.usage == Usage(90, 2, 64, 1)


async def test_usage_that_is_not_sent_is_estimated(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(text="ok", usage=None))
    done = await connect(server.api_base).complete(request(prompts=("x" * 400,)), MemoryObserver())
    assert done.usage == Usage(104, 1, 0, 1)


async def test_a_missing_done_is_harmless(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(text="ok", done=False))
    assert (await connect(server.api_base).complete(request(), MemoryObserver())).message.content == "ok "


async def test_a_body_left_open_after_the_answer_holds_up_nobody(server: ModelServer, connect: Connect) -> None:
    whole = Reply(text="ok")
    server.enqueue(Reply(text="ok", silent_after=len(events_of(whole, server.shape))))
    with anyio.fail_after(80):
        done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert done.message.content == "ok "


async def test_an_error_body_of_any_size_is_quoted_shortly(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(status=500, body="x" * 5_000_000))
    with pytest.raises(ModelOverloadedError) as caught:
        await connect(server.api_base).complete(request(), MemoryObserver())
    assert len(str(caught.value)) < 500


async def test_an_empty_answer_passes(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply())
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert (done.message.content, done.finish_reason) == ("", FinishReason.STOP)


@pytest.mark.parametrize("arguments", ['{"path": ', "not json", '["a"]'])
async def test_malformed_arguments_are_kept_as_worded(server: ModelServer, connect: Connect, arguments: str) -> None:
    server.enqueue(Reply(tool_calls=(ServedCall(name="read_file", arguments=arguments),)), Reply(text="ok"))
    backend = connect(server.api_base)
    done = await backend.complete(request(), MemoryObserver())
    assert done.message.tool_calls[0].arguments == arguments
    answer = ToolMessage("no JSON", done.message.tool_calls[0].id, "read_file", "error")
    await backend.complete(request(UserMessage("go"), done.message, answer), MemoryObserver())
    told = server.requests[1].body["messages"][1]
    calls = told["content"] if server.shape == "anthropic" else told["tool_calls"]
    sent = calls[0].get("input") or json.loads(calls[0]["function"]["arguments"])
    assert sent == {"malformed_arguments": arguments}


async def test_arguments_may_come_as_an_object(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(tool_calls=(ServedCall(name="read_file", arguments={"path": "a"}),)))
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert done.message.tool_calls[0].arguments == '{"path":"a"}'


async def test_json_where_a_stream_was_asked_for_is_the_answer(server: ModelServer, connect: Connect) -> None:
    if server.shape == "anthropic":
        body = {"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
    else:
        body = {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
    server.enqueue(Reply(body=json.dumps(body)))
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert (done.message.content, done.finish_reason) == ("ok", FinishReason.STOP)


async def test_an_answer_whose_end_is_told_by_done_alone_is_whole_and_odd(
    server: ModelServer, connect: Connect
) -> None:
    server.enqueue(Reply(text="all is well", finish_reason=""), Reply(tool_calls=CALLS, finish_reason=""))
    backend = connect(server.api_base)

    said = await backend.complete(request(), MemoryObserver())
    called = await backend.complete(request(), MemoryObserver())

    assert (said.message.content, said.finish_reason) == ("all is well ", FinishReason.STOP)
    assert (len(called.message.tool_calls), called.finish_reason) == (2, FinishReason.TOOL_CALLS)
    assert "without a finish_reason" in said.oddity


@pytest.mark.parametrize("reason", ["length", "model_length", "MAX_TOKENS", "max_output_tokens"])
async def test_text_cut_by_the_output_limit_is_told_as_such(server: ModelServer, connect: Connect, reason: str) -> None:
    server.enqueue(Reply(text="half of", finish_reason=reason))
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert (done.message.content, done.finish_reason) == ("half of ", FinishReason.LENGTH)


async def test_a_call_cut_by_the_output_limit_is_told_as_such(server: ModelServer, connect: Connect) -> None:
    server.enqueue(Reply(tool_calls=(ServedCall(name="write", arguments='{"text": "a'),), finish_reason="length"))
    done = await connect(server.api_base).complete(request(), MemoryObserver())
    assert done.finish_reason is FinishReason.LENGTH


@dataclass(frozen=True)
class Fault:
    name: str
    reply: Reply
    error: type[ModelError]
    words: str = ""


FAULTS = [
    Fault("401", Reply(status=401, body='{"message": "Unauthorized"}'), ModelAccessError, "ACME_KEY"),
    Fault("402", Reply(status=402, body="pay"), ModelCreditError, "pay"),
    Fault("404", Reply(status=404, body='{"error": {"message": "no model m"}}'), ModelRequestError, "no model m"),
    Fault("422", Reply(status=422, body='{"detail": [{"loc": ["x"], "msg": "bad", "type": "t"}]}'), ModelRequestError),
    Fault("429", Reply(status=429, body="{}", headers={"Retry-After": "3"}), ModelOverloadedError),
    Fault("quota", Reply(status=429, body='{"message": "insufficient_quota"}'), ModelCreditError),
    Fault("500", Reply(status=500, body="<html>oops</html>"), ModelOverloadedError, "oops"),
    Fault("503", Reply(status=503, body=""), ModelOverloadedError),
    Fault("too long", Reply(status=400, body='{"message": "maximum context length is 5"}'), ContextTooLongError),
    Fault("redirect", Reply(status=307, body="", headers={"Location": "http://127.0.0.1:9/"}), ModelRequestError),
    Fault("no SSE", Reply(body='{"choices": []}'), ModelProtocolError, "event stream"),
    Fault("HTML", Reply(body="<html>log in</html>", content_type="text/html"), ModelProtocolError, "text/html"),
    Fault("error with 200", Reply(body='{"error": {"code": 429, "message": "slow"}}'), ModelOverloadedError, "slow"),
    Fault("no reason", Reply(text="half", finish_reason="", done=False), ModelProtocolError, "finish_reason"),
    Fault("no reason, nothing said", Reply(finish_reason=""), ModelProtocolError, "finish_reason"),
    Fault(
        "no reason, torn call",
        Reply(tool_calls=(ServedCall(name="write", arguments='{"text": "a'),), finish_reason=""),
        ModelProtocolError,
        "finish_reason",
    ),
    Fault("reason error", Reply(text="half", finish_reason="error"), ModelProtocolError),
    Fault("invalid JSON", Reply(events=('{"choices": [',)), ModelProtocolError),
    Fault("wrong types", Reply(events=('{"id": "1", "model": "m", "choices": 5}',)), ModelProtocolError),
    Fault("only DONE", Reply(events=("[DONE]",)), ModelProtocolError),
    Fault("nothing", Reply(events=()), ModelProtocolError),
    Fault(
        "error in the stream",
        Reply(events=('{"error": {"type": "overloaded_error", "message": "busy"}}',)),
        ModelOverloadedError,
        "busy",
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_becomes_its_error(server: ModelServer, connect: Connect, fault: Fault) -> None:
    server.enqueue(fault.reply)
    with pytest.raises(ModelError) as caught:
        await connect(server.api_base).complete(request(), MemoryObserver())
    assert type(caught.value) is fault.error
    assert fault.words in str(caught.value)
    assert "'acme'" in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.retry_after == (3.0 if fault.name == "429" else None)


STREAM = Reply(text="one two three", tool_calls=CALLS)


@pytest.mark.parametrize("cut", range(len(events_of(STREAM, "openai")) - 2))
async def test_a_stream_cut_after_any_event_is_a_broken_wire_or_whole(
    server: ModelServer, connect: Connect, cut: int
) -> None:
    events = events_of(STREAM, server.shape)
    reasons = ('"finish_reason": "tool_calls"', '"stop_reason": "tool_use"')
    said_why = next(number for number, event in enumerate(events) if any(reason in event for reason in reasons))
    server.enqueue(Reply(text=STREAM.text, tool_calls=CALLS, cut_after=cut))
    backend = connect(server.api_base)
    if cut > said_why:
        assert (await backend.complete(request(), MemoryObserver())).message.tool_calls[1].name == "list_dir"
    else:
        with pytest.raises(ModelTransportError):
            await backend.complete(request(), MemoryObserver())


@pytest.mark.parametrize("after", [0, 2])
async def test_silence_is_a_broken_wire_after_the_idle_time(server: ModelServer, connect: Connect, after: int) -> None:
    server.enqueue(Reply(text="a b c", silent_after=after))
    with pytest.raises(ModelTransportError, match=r"sent nothing for 0\.2 s"):
        await connect(server.api_base, timeout_seconds=0.2).complete(request(), MemoryObserver())


async def test_a_server_that_is_not_there_is_a_broken_wire(connect: Connect) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ModelTransportError, match=f"cannot be reached at http://127.0.0.1:{port}"):
            await connect(f"http://127.0.0.1:{port}/v1").complete(request(), MemoryObserver())


async def test_a_name_that_does_not_resolve_is_a_broken_wire(connect: Connect) -> None:
    with pytest.raises(ModelTransportError, match=r"no-such-host\.invalid"):
        await connect("http://no-such-host.invalid/v1").complete(request(), MemoryObserver())


async def test_a_server_without_tls_is_a_broken_wire(server: ModelServer, connect: Connect) -> None:
    with pytest.raises(ModelTransportError):
        await connect(server.api_base.replace("http", "https")).complete(request(), MemoryObserver())


async def test_many_requests_share_one_connection(server: ModelServer, connect: Connect) -> None:
    backend = connect(server.api_base)
    server.enqueue(*(Reply(text=f"answer {n}", tool_calls=CALLS) for n in range(10)))
    server.enqueue(Reply(status=429, body="{}"), Reply(text="last"))
    for _ in range(10):
        await backend.complete(request(), MemoryObserver())
    with pytest.raises(ModelOverloadedError):
        await backend.complete(request(), MemoryObserver())
    await backend.complete(request(), MemoryObserver())
    assert len(server.requests) == 12
    assert server.connections == 1


async def test_cancelling_closes_the_connection_and_the_next_call_works(server: ModelServer, connect: Connect) -> None:
    backend = connect(server.api_base)
    server.enqueue(Reply(text="a b c", silent_after=2), Reply(text="ok"))
    async with anyio.create_task_group() as group:
        group.start_soon(backend.complete, request(), MemoryObserver())
        assert await anyio.to_thread.run_sync(server.asked.wait, 120)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(server.disconnected.wait, 120)
    assert (await backend.complete(request(), MemoryObserver())).message.content == "ok "


async def test_a_call_cancelled_at_any_moment_leaves_no_connection_behind(
    server: ModelServer, connect: Connect
) -> None:
    backend = connect(server.api_base)
    server.enqueue(Reply(text="warm"), *(Reply(text="a", silent_after=1) for _ in range(30)))
    await backend.complete(request(), MemoryObserver())
    for step in range(30):
        with anyio.move_on_after(step / 2000):
            await backend.complete(request(), MemoryObserver())
    assert await anyio.to_thread.run_sync(becomes_true, lambda: server.open_connections <= 1)


def becomes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


async def test_a_proxy_is_used_where_the_environment_names_one(
    server: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.enqueue(Reply(text="ok"))
    await connect("http://models.example/v1").complete(request(), MemoryObserver())
    assert server.requests[0].path.startswith("http://models.example/v1/")


@contextmanager
def socks_proxy(target: tuple[str, int]) -> Generator[str]:
    """Run a SOCKS5 proxy (RFC 1928) that connects everything to ``target``, and yield its address.

    It asks for no authentication.
    """

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            _version, methods = self.rfile.read(2)
            self.rfile.read(methods)
            self.wfile.write(b"\x05\x00")
            kind = self.rfile.read(4)[3]
            self.rfile.read({1: 4, 4: 16}.get(kind) or self.rfile.read(1)[0])
            self.rfile.read(2)
            self.wfile.write(b"\x05\x00\x00\x01" + bytes(6))
            with socket.create_connection(target) as behind:
                threading.Thread(target=self._back, args=(behind,), daemon=True).start()
                while data := self.connection.recv(65536):
                    behind.sendall(data)

        def _back(self, behind: socket.socket) -> None:
            with suppress(OSError):
                while data := behind.recv(65536):
                    self.connection.sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
async def test_a_socks_proxy_is_used(
    server: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    server.enqueue(Reply(text="ok"))
    with socks_proxy(("127.0.0.1", int(server.url.rpartition(":")[2]))) as address:
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://{address}")
        await connect("http://models.example/v1").complete(request(), MemoryObserver())
    assert server.requests[0].path.startswith("/v1/")


@contextmanager
def faulty_proxy(reply: bytes, seconds: float = 0.0) -> Generator[str]:
    """Run a proxy that answers each client with ``reply`` and hangs up after ``seconds``, and yield its address."""

    class Session(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(reply)
            time.sleep(seconds)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


@pytest.mark.parametrize("variable", ["https_proxy", "all_proxy"])
@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (b"", 0.0),
        (b"SSH-2.0-OpenSSH_9.0\r\n", 0.0),
        (b"HTTP/1.1 200 OK\r\n\r\nnot TLS", 0.0),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", 0.0),
        (b"", 5.0),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_what_fails_at_a_proxy_is_told_of_it(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, variable: str, reply: bytes, seconds: float, scheme: str
) -> None:
    monkeypatch.setattr(backend_http, "CONNECT_SECONDS", 0.5)
    with faulty_proxy(reply, seconds) as address:
        monkeypatch.setenv(variable, f"{scheme}://user:secret@{address}")
        with pytest.raises(ModelTransportError) as told:
            await connect("https://models.example/v1").complete(request(), MemoryObserver())

    assert f"cannot be reached at https://models.example through the proxy in {variable}" in str(told.value)
    assert told.value.unreachable
    assert ("it does not answer" in str(told.value)) == bool(seconds), "no backend waits for it longer than to connect"
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("name", ["ALL_PROXY", "http_proxy"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "gopher://u:pw@x", "http://[::1", "127.0.0.1:9"])
async def test_no_proxy_leads_to_this_machine(
    server: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str, proxy: str
) -> None:
    monkeypatch.setenv(name, proxy)
    server.enqueue(Reply(text="ok"))
    assert (await connect(server.api_base).complete(request(), MemoryObserver())).message.content == "ok "


@pytest.mark.parametrize(
    "proxy", ["gopher://u:secret@x", "http://[::1", "socks9://secret", "http://x:port", "http://x:99999"]
)
async def test_a_proxy_that_cannot_be_used_is_said(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(EnvironmentFailure, match=r"the proxy in http_proxy can't be used: write") as told:
        await connect("http://models.example/v1").complete(request(), MemoryObserver())
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("entries", "way"),
    [
        ("[::1]", "proxied"),
        ("::1,fe80::/10,10.0.0.0/8,http://,:80,[,*bad*", "proxied"),
        ("other.example, ,", "proxied"),
        ("models.invalid", "direct"),
        (".models.invalid", "direct"),
        ("*.invalid", "direct"),
        ("x.test models.invalid:80", "direct"),
        ("*", "direct"),
    ],
)
async def test_hosts_without_a_proxy_are_listed_as_people_do(
    server: ModelServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, entries: str, way: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", entries)
    server.enqueue(Reply(text="ok"))
    asked = connect("http://models.invalid/v1").complete(request(), MemoryObserver())
    if way == "direct":
        with pytest.raises(ModelTransportError) as told:
            await asked
        assert "proxy" not in str(told.value)
    else:
        assert (await asked).message.content == "ok "


async def test_agents_side_by_side_share_a_backend(server: ModelServer, connect: Connect) -> None:
    backend = connect(server.api_base)

    def echo(got: Received) -> Reply:
        content = got.body["messages"][0]["content"]
        return Reply(text=f"to {content if isinstance(content, str) else content[0]['text']}")

    server.responder = echo
    answers: dict[str, str] = {}

    async def ask(prompt: str) -> None:
        answers[prompt] = (await backend.complete(request(prompts=(prompt,)), MemoryObserver())).message.content

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(ask, f"p{number}")
    assert answers == {f"p{n}": f"to p{n} " for n in range(12)}


async def test_a_closed_backend_opens_anew(server: ModelServer, connect: Connect) -> None:
    backend = connect(server.api_base)
    server.enqueue(Reply(text="one"), Reply(text="two"))
    await backend.complete(request(), MemoryObserver())
    await backend.aclose()
    await backend.aclose()
    assert (await backend.complete(request(), MemoryObserver())).message.content == "two "


async def test_retries_end_in_one_visible_answer(server: ModelServer, connect: Connect) -> None:
    server.enqueue(
        Reply(status=429, body="{}", headers={"Retry-After": "0.01"}),
        Reply(text="all is well", cut_after=3),
        Reply(status=500, body="{}"),
        Reply(text="all is", finish_reason="", done=False),
        Reply(text="all is well"),
    )
    seen = MemoryObserver()
    backend = RetryingBackend(connect(server.api_base), RetryPolicy(initial_seconds=0.01))
    done = await backend.complete(request(), seen)
    assert done.message.content == seen.visible == "all is well "
    assert seen.text != seen.visible
    assert len(seen.notices) == 4


async def test_a_provider_without_a_key_is_sent_none_from_the_environment(
    server: ModelServer, kind: BackendKind, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-somebody-elses")
    server.enqueue(Reply(text="ok"))
    backend = connect(server.api_base)
    keyless = type(backend)(backend._provider, api_key=None)  # type: ignore[attr-defined, call-arg]
    await keyless.complete(request(), MemoryObserver())
    await keyless.aclose()
    assert "somebody" not in json.dumps(dict(server.requests[0].headers))
    assert ("authorization" in server.requests[0].headers) == (kind is BackendKind.MISTRAL)
    assert "x-api-key" not in server.requests[0].headers


async def test_a_base_without_its_version_is_found_out_once(
    kind: BackendKind, server: ModelServer, connect: Connect
) -> None:
    def answer(got: Received) -> Reply:
        return Reply(text="ok") if got.path.startswith("/v1/") else Reply(status=404, body='{"message": "not found"}')

    server.responder = answer
    backend = connect(server.url)
    for _ in range(2):
        assert (await backend.complete(request(), MemoryObserver())).message.content == "ok "
    expected = [False, True, True] if kind is BackendKind.GENERIC else [True, True]
    assert [got.path.startswith("/v1/") for got in server.requests] == expected


async def test_nothing_found_names_the_address(server: ModelServer, connect: Connect) -> None:
    server.enqueue(*[Reply(status=404, body='{"message": "no such page"}')] * 2)
    with pytest.raises(ModelRequestError, match=rf"answered with an error at {server.url}/\S+ \(HTTP 404\): no such"):
        await connect(f"{server.url}/gateway/v7").complete(request(), MemoryObserver())
