"""LineTransport: JSON-RPC messages as lines in both directions. Lines that are not messages are answered here.

So is `initialize`, because the library for the protocol is only loaded after it.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from anyio import Event, create_memory_object_stream
from msgspec import Struct

from vibe import __version__
from vibe.core.schemas import list_of, refuse_constant, table_of, tables_of, whole_number
from vibe.system.line_wire import LONGEST_MESSAGE, Wire
from vibe.system.plain_text import shortened

logger = logging.getLogger(__name__)

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603
LINES_AHEAD = 16
"""The most lines that are read ahead. A client that sends more has to wait."""
META = ("_meta", "field_meta")
"""Parameters that are not for us. The library would pass their contents on as parameters of the same names."""
SERVERS = "mcpServers"
"""The parameter with the MCP servers for a session."""
INITIALIZE, PROMPT, CANCEL, DELETE = "initialize", "session/prompt", "session/cancel", "session/delete"
OPENING = ("session/new", "session/load")
"""Requests that some clients send without MCP servers, although the protocol requires a list."""
CANCEL_REQUEST, OPTIONAL = "$/cancel_request", "$/"
"""The notification that cancels a request, and the prefix of notifications that may be ignored if unknown."""
MOST_PROBLEMS = 3
"""The most problems of a request that are named."""
PROBLEM_LENGTH = 200
"""The most characters of one problem."""


class LineTransport:
    """Messages over a wire, in the form the protocol's library expects of a transport."""

    def __init__(self, wire: Wire) -> None:
        self.gone = Event()
        """Set when the other side sends nothing more, or accepts nothing more."""
        self.capabilities: Any = None
        """The editor's capabilities, as its last `initialize` named them."""
        self._wire = wire
        self._into, self._lines = create_memory_object_stream[bytes](LINES_AHEAD)
        self._held = deque[dict[str, Any]]()
        self._asked = set[int]()
        self._prompts: dict[str | float, Any] = {}

    async def read(self) -> None:
        """Read until the other side is gone. Without it, ``receive`` has nothing to return."""
        try:
            await self._wire.receive(self._into)
        finally:
            self.gone.set()

    def push_back(self, message: dict[str, Any]) -> None:
        """Make ``receive`` return this message again."""
        self._held.append(message)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end.

        A line that is not a message is answered with what is wrong with it.
        """
        if self._held:
            return self._held.popleft()
        async for line in self._lines:
            logger.debug("received %r", line)
            try:
                message = _parsed(line)
                taken = self._request(message) if "method" in message else self._response(message)
            except _Refused as problem:
                await self.send(problem.answer)
            else:
                if taken is not None:
                    return taken
        return None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. If the other side is gone, the message is dropped.

        Raises:
            ValueError: it can't be encoded as JSON. For an answer, an error is sent instead.
        """
        call_id, method = message.get("id"), message.get("method")
        try:
            data = _encoded(_explained(message))
        except (ValueError, RecursionError) as error:
            if method is not None:
                raise ValueError(f"{method} can't be sent as JSON: {error}") from error
            logger.exception("an answer can't be sent as JSON")
            data = _encoded(_error(INTERNAL_ERROR, f"an answer can't be sent as JSON: {error}", call_id))
        if method is None:
            self._prompts.pop(cast("str | float", call_id), None)
        elif isinstance(call_id, int):
            self._asked.add(call_id)
        logger.debug("sent %r", data)
        try:
            await self._wire.send(data + b"\n")
        except OSError:
            self.gone.set()
            self._into.close()

    async def close(self) -> None:
        """Receive nothing more. Harmless if repeated."""
        self._into.close()
        self._lines.close()

    def _request(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return a request or a notification in the form the library expects, or None if it is not for the library.

        Raises:
            _Refused: its parameters are not an object.
        """
        given = message.get("params")
        if given is not None and not isinstance(given, dict):
            raise _Refused(INVALID_PARAMS, "`params` must be an object", message.get("id"))
        params = cast("dict[str, Any]", given or {})
        method, call_id = message["method"], message.get("id")
        if method.startswith(OPTIONAL) and call_id is None:
            prompt = params.get("requestId") if method == CANCEL_REQUEST else None
            session_id = self._prompts.get(prompt) if isinstance(prompt, str | int | float) else None
            cancel = {"jsonrpc": "2.0", "method": CANCEL, "params": {"sessionId": session_id}}
            return None if session_id is None else cancel
        if method == INITIALIZE:
            self.capabilities = params.get("clientCapabilities")
        if method in OPENING and params.get(SERVERS) is None:
            params[SERVERS] = []
        if method == PROMPT and call_id is not None:
            self._prompts[call_id] = params.get("sessionId")
        if isinstance(servers := params.get(SERVERS), list):
            params[SERVERS] = [_server(number, given) for number, given in enumerate(cast("list[Any]", servers))]
        if method == DELETE:  # The library only passes it on as if it were an extension.
            method = f"_{method}"
        return {
            **message,
            "method": method,
            "params": {name: value for name, value in params.items() if name not in META},
        }

    def _response(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return an answer in the form the library expects.

        An answer without a result, as after a write, gets a null result.

        Raises:
            _Refused: it does not answer any request.
        """
        call_id = whole_number(message.get("id"))  # Some clients return it as text.
        is_ours = call_id in self._asked
        if not (is_ours or {"result", "error"} & message.keys()):
            raise _Refused(INVALID_REQUEST, "a message needs `method`, `result` or `error`", message.get("id"))
        self._asked.discard(cast("int", call_id))
        error = message.get("error")
        if error is None or message.get("result") is not None:
            return {"jsonrpc": "2.0", "id": call_id, "result": message.get("result")}
        if not isinstance(error, dict):
            error = {"code": INTERNAL_ERROR, "message": shortened(str(error), PROBLEM_LENGTH)}
        return {"jsonrpc": "2.0", "id": call_id, "error": error}


def _server(number: int, given: Any) -> dict[str, Any]:
    """Return an MCP server in the form the library expects.

    The library would silently drop a malformed one, whereas starting it reports what is wrong.
    """
    table = table_of(given)
    name = str(table.get("name") or f"{SERVERS}.{number}")
    kind = table.get("type") or ("http" if "url" in table else "stdio")
    if kind != "stdio":
        kind, headers = "http" if kind == "http" else "sse", _pairs(table.get("headers"))
        return {"type": kind, "name": name, "url": str(table.get("url") or ""), "headers": headers}
    words = [str(word) for word in list_of(table.get("args"))]
    return {"name": name, "command": str(table.get("command") or ""), "args": words, "env": _pairs(table.get("env"))}


def _pairs(given: Any) -> list[dict[str, str]]:
    """Return names with values, given as a list or as a table. Anything that is not a pair is left out."""
    if isinstance(given, list):
        tables = tables_of(cast("object", given))
        given = {str(one["name"]): one["value"] for one in tables if {"name", "value"} <= one.keys()}
    return [{"name": name, "value": str(value)} for name, value in table_of(given).items()]


class _Refused(Exception):
    """A line is not a message. ``answer`` is the answer to it."""

    def __init__(self, code: int, message: str, call_id: object = None) -> None:
        super().__init__(message)
        self.answer = _error(code, message, call_id)


def _parsed(line: bytes) -> dict[str, Any]:
    """Parse a line into an object that can be a message.

    Raises:
        _Refused: it can't.
    """
    if not line:
        raise _Refused(INVALID_REQUEST, f"a message of more than {LONGEST_MESSAGE} bytes is not read")
    try:
        parsed = json.loads(line, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _Refused(PARSE_ERROR, f"a line that is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise _Refused(INVALID_REQUEST, "a line must be one JSON object, a message of JSON-RPC 2.0")
    if b"\\ud" in line.lower() or b"\xed" in line:  # It may contain a lone surrogate, escaped or as bytes.
        parsed = json.loads(json.dumps(parsed, ensure_ascii=False).encode("utf-8", "replace"))
    message = cast("dict[str, Any]", parsed)
    if isinstance(call_id := message.get("id"), float) and call_id.is_integer():  # Some languages have no other.
        call_id = message["id"] = int(call_id)
    if not isinstance(call_id, str | int | None) or isinstance(call_id, bool):
        raise _Refused(INVALID_REQUEST, "`id` must be a string or a whole number")
    if not isinstance(message.get("method", ""), str):
        raise _Refused(INVALID_REQUEST, "`method` must be a string", call_id)
    return message


def _explained(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error that says which parameters are wrong. The library only says so in its data, with the values."""
    match message:
        case {"error": {"code": int(code), "data": {"errors": [*problems]}}}:
            said = "; ".join(map(_problem, cast("list[Mapping[str, Any]]", problems)[:MOST_PROBLEMS]))
            return _error(code, f"invalid params: {said}", message.get("id"))
        case _:
            return message


def _problem(problem: Mapping[str, Any]) -> str:
    place = ".".join(map(str, problem.get("loc", ()))) or "params"
    return shortened(f"{place}: {problem.get('msg', 'not valid')}", PROBLEM_LENGTH)


def _encoded(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "replace")


def _error(code: int, message: str, call_id: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": message}}


PROTOCOL_VERSION = 1
SETUP_METHOD = "setup"
"""The only way to authenticate: a person sets a provider's key, once."""
SETUP_FLAG = "--setup"
"""The flag by which an editor starts the setup."""
SESSION_REQUESTS = ("additionalDirectories", "close", "delete", "fork", "list", "resume")
"""Requests about sessions that are supported."""
CAPABILITIES: Mapping[str, Any] = {
    "loadSession": True,
    "mcpCapabilities": {"http": True, "sse": False},
    "promptCapabilities": {"audio": False, "embeddedContext": True, "image": True},
    "sessionCapabilities": {name: {} for name in SESSION_REQUESTS},
}


class EditorAbilities(Struct, frozen=True, kw_only=True):
    """The parts of the protocol that an editor supports."""

    reads: bool = False
    writes: bool = False
    terminals: bool = False
    forms: bool = False


def answer_to_initialize(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the answer to a valid `initialize`, or None if the message is for the library."""
    params = table_of(message.get("params"))
    if message.get("method") != INITIALIZE or "id" not in message or type(params.get("protocolVersion")) is not int:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": initialize_result(params.get("clientCapabilities"))}


def abilities_of(capabilities: Any) -> EditorAbilities:
    """Return what an editor with these capabilities can do. Malformed capabilities count as absent."""
    can = table_of(capabilities)
    files = table_of(can.get("fs"))
    return EditorAbilities(
        reads=files.get("readTextFile") is True,
        writes=files.get("writeTextFile") is True,
        terminals=can.get("terminal") is True,
        forms=isinstance(table_of(can.get("elicitation")).get("form"), dict),
    )


def initialize_result(capabilities: Any) -> dict[str, Any]:
    """Return the result of `initialize` for an editor with these capabilities."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": dict(CAPABILITIES),
        "agentInfo": {"name": "vibe", "title": "Vibe", "version": __version__},
        "authMethods": [_setup_method(capabilities)],
    }


def _setup_method(capabilities: Any) -> dict[str, Any]:
    method: dict[str, Any] = {
        "id": SETUP_METHOD,
        "name": "Set up a provider",
        "description": "Run `vibe setup` in a terminal: it keeps the key of a provider for you, and tries it.",
    }
    auth = table_of(table_of(capabilities).get("auth"))
    return {**method, "type": "terminal", "args": [SETUP_FLAG]} if auth.get("terminal") is True else method
