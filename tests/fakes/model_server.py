"""A real HTTP model server on the loopback interface, whose answers and failures a test scripts."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, cast

Shape = Literal["openai", "mistral", "anthropic"]


@dataclass(frozen=True, kw_only=True)
class ServedCall:
    """A tool call. Text in ``arguments`` is sent unchanged, valid or not, and a dict is sent as an object."""

    name: str
    arguments: str | dict[str, Any] = "{}"
    id: str = "call00001"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer.

    A ``finish_reason`` of None stands for the one that fits, and an empty one is not sent. ``events`` gives the data of
    the events verbatim. After ``cut_after`` events the connection breaks; after ``silent_after`` events nothing more
    comes until the client leaves. With ``body`` the answer is not streamed.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ServedCall, ...] = ()
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 7})
    finish_reason: str | None = None
    done: bool = True
    events: tuple[str, ...] | None = None
    cut_after: int | None = None
    silent_after: int | None = None
    status: int = 200
    body: str | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as received: headers in lower case, the decoded body, and the number of its TCP connection."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    connection: int


class ModelServer:
    """Serves ``POST .../chat/completions`` or ``.../messages`` in threads. Use it as a context manager.

    ``shape`` says how answers are streamed: tool calls in fragments (``openai``), calls whole (``mistral``), or
    everything in blocks (``anthropic``). Answers come from ``enqueue``, or from ``responder`` if they depend on the
    request.
    """

    def __init__(self, shape: Shape = "openai", responder: Callable[[Received], Reply] | None = None) -> None:
        self.shape: Shape = shape
        self.responder = responder
        self.models: tuple[str, ...] | None = None
        """The models listed by ``GET .../models``. If None, that page does not exist."""
        self.key = ""
        """The only key that is accepted. If empty, every key is."""
        self.required: dict[str, str] = {}
        """Headers, in lower case, that each request must have."""
        self.requests: list[Received] = []
        self.connections = 0
        self.asked = threading.Event()
        """Set with the first request."""
        self.disconnected = threading.Event()
        """Set when a client has left before the end of a stream."""
        self.stopping = threading.Event()
        self._replies: deque[Reply] = deque()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """The root of the server, without a version path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api_base(self) -> str:
        """The ``api_base`` for a provider."""
        return f"{self.url}/v1"

    @property
    def open_connections(self) -> int:
        """The number of connections that neither side has closed."""
        with self._lock:
            return len(self._sockets)

    def enqueue(self, *replies: Reply) -> None:
        """Answer the next requests with these replies, in order."""
        self._replies.extend(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        with self._lock:
            for connection in self._sockets:
                _shut(connection)

    def opened(self, connection: socket.socket) -> int:
        """Count a new connection and return its number."""
        with self._lock:
            self.connections += 1
            self._sockets.add(connection)
            return self.connections

    def closed(self, connection: socket.socket) -> None:
        """Record the end of a connection."""
        with self._lock:
            self._sockets.discard(connection)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return True if the key is right and in the right header, and all required headers are present."""
        if any(headers.get(name) != value for name, value in self.required.items()):
            return False
        name, scheme = ("x-api-key", "") if self.shape == "anthropic" else ("authorization", "Bearer ")
        return not self.key or headers.get(name) == f"{scheme}{self.key}"

    def answer(self, request: Received) -> Reply:
        """Record a request and return the reply to it."""
        with self._lock:
            self.requests.append(request)
            self.asked.set()
            if not self.admits(request.headers):
                return Reply(status=401, body='{"message": "Unauthorized"}')
            if self.responder is not None:
                return self.responder(request)
            if self._replies:
                return self._replies.popleft()
        return Reply(status=500, body='{"error": {"message": "the test enqueued no reply for this request"}}')


def events_of(reply: Reply, shape: Shape) -> list[str]:
    """Return the data of each event of an answer."""
    if reply.events is not None:
        return list(reply.events)
    if shape == "anthropic":
        return [json.dumps(event) for event in _message_events(reply)]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if reply.reasoning:
        thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": reply.reasoning}]}]
        deltas.append({"reasoning_content": reply.reasoning} if shape == "openai" else {"content": thinking})
    deltas += [{"content": f"{word} "} for word in reply.text.split()]
    for index, call in enumerate(reply.tool_calls):
        deltas += _call_deltas(index, call, shape)
    events = [_chunk(delta, None) for delta in deltas]
    finish = reply.finish_reason
    if finish is None:
        finish = "tool_calls" if reply.tool_calls else "stop"
    last = _chunk({}, finish or None)
    if reply.usage is not None and shape == "mistral":
        last["usage"] = dict(reply.usage)
    events.append(last)
    if reply.usage is not None and shape == "openai":
        events.append(_chunk(None, None) | {"usage": dict(reply.usage)})
    return [json.dumps(event) for event in events] + (["[DONE]"] if reply.done else [])


def _chunk(delta: dict[str, Any] | None, finish: str | None) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def _call_deltas(index: int, call: ServedCall, shape: Shape) -> list[dict[str, Any]]:
    if shape == "mistral" or isinstance(call.arguments, dict):
        function = {"name": call.name, "arguments": call.arguments}
        return [{"tool_calls": [{"index": index, "id": call.id, "function": function}]}]
    half = len(call.arguments) // 2
    first = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    rest = [
        {"index": index, "function": {"arguments": part}} for part in (call.arguments[:half], call.arguments[half:])
    ]
    return [{"tool_calls": [piece]} for piece in (first, *rest)]


def _message_events(reply: Reply) -> Iterator[dict[str, Any]]:
    told = reply.usage or {}
    cached = told.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    begun = {
        "input_tokens": told.get("prompt_tokens", 0) - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    yield {"type": "message_start", "message": message | ({"usage": begun} if told else {})}
    yield {"type": "ping"}
    index = 0
    if reply.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": reply.reasoning},
            {"type": "signature_delta", "signature": "sig"},
        ]
        yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
        index += 1
    if reply.text:
        words = [{"type": "text_delta", "text": f"{word} "} for word in reply.text.split()]
        yield from _block(index, {"type": "text", "text": ""}, words)
        index += 1
    for number, call in enumerate(reply.tool_calls, index):
        yield from _block(number, *_tool_use(call))
    finish = reply.finish_reason
    if finish is None:
        finish = "tool_use" if reply.tool_calls else "end_turn"
    counts = {"usage": {"output_tokens": told["completion_tokens"]}} if told else {}
    yield {"type": "message_delta", "delta": {"stop_reason": finish or None, "stop_sequence": None}, **counts}
    if reply.done:
        yield {"type": "message_stop"}


def _block(index: int, opened: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": opened}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def _tool_use(call: ServedCall) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    opened: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    if isinstance(call.arguments, dict):
        return opened | {"input": call.arguments}, []
    half = len(call.arguments) // 2
    parts = [] if call.arguments == "{}" else ["", call.arguments[:half], call.arguments[half:]]
    return opened, [{"type": "input_json_delta", "partial_json": part} for part in parts]


class _Server(ThreadingHTTPServer):
    # The base class lets five clients wait to connect; tests have more agents than that.
    request_queue_size = 128

    def __init__(self, owner: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    number = 0

    @property
    def _owner(self) -> ModelServer:
        return cast("_Server", self.server).owner

    def setup(self) -> None:
        super().setup()
        self.number = self._owner.opened(self.connection)

    def finish(self) -> None:
        self._owner.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Print nothing: standard error belongs to the tests."""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self._owner.disconnected.set()

    def do_GET(self) -> None:
        known = self._owner.models
        if not self._owner.admits({name.lower(): value for name, value in self.headers.items()}):
            self._send_body(Reply(status=401, body='{"message": "Unauthorized"}'))
        elif known is None or not self.path.endswith("/models"):
            self._send_body(Reply(status=404, body='{"message": "no such page"}'))
        else:
            self._send_body(Reply(body=json.dumps({"data": [{"id": name} for name in known]})))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = cast("dict[str, Any]", json.loads(raw or b"{}"))
        reply = self._owner.answer(Received(path=self.path, headers=headers, body=body, connection=self.number))
        if reply.status != 200 or reply.body is not None:
            self._send_body(reply)
        else:
            self._send_stream(reply)

    def _send_body(self, reply: Reply) -> None:
        data = (reply.body or "").encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _send_stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate([*events_of(reply, self._owner.shape), None]):
            if number == reply.cut_after:
                self.close_connection = True
                _shut(self.connection)
                return
            if number == reply.silent_after:
                self._wait_for_end()
                return
            named = f"event: {_kind_of(event)}\n" if event is not None and self._owner.shape == "anthropic" else ""
            data = f"{named}data: {event}\n\n".encode() if event is not None else b""
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _wait_for_end(self) -> None:
        self.close_connection = True
        while not self._owner.stopping.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable and not _peek(self.connection):
                self._owner.disconnected.set()
                return


def _kind_of(event: str) -> str:
    try:
        return str(json.loads(event).get("type", "message"))
    except ValueError:
        return "message"


def _peek(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
