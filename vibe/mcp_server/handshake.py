"""Handshake: answers the first requests of a client at once, while the library that speaks the protocol is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from vibe import __version__
from vibe.mcp_server.tools import TOOLS

SERVER_NAME, SERVER_TITLE = "vibe", "Vibe"
INSTRUCTIONS = (
    "vibe is a coding agent. call_vibe has one task done and returns its answer; give it the absolute path of the "
    "folder and all it must know. Use mode observe for questions: nothing can be changed then. plan_run has a larger "
    "task planned and carried out by several agents in the background; ask after it with plan_status and plan_result."
)
VERSIONS = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions in which the answers look so; a client with another one waits for the library."""
DISCOVER = "server/discover"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601


class Handshake:
    """The answers to ``initialize``, ``ping`` and ``tools/list``, which are the same for every client.

    ``unheard`` are the lines that the library must hear of: what it has to answer, and before that the ``initialize``
    that was answered here, if it ``is_initialized``. ``listed`` is called when a client has seen the tools.
    """

    def __init__(self, listed: Callable[[], object]) -> None:
        self.unheard: list[bytes] = []
        self.is_initialized = False
        self._listed = listed

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message; None: it has to wait for the library."""
        request = _request(line)
        answer = None if request is None else self._answered(request, line)
        if answer is None:
            self.unheard.append(line)
        return answer

    def _answered(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        match request.get("method"):
            case "initialize" if not self.is_initialized:
                return self._initialized(request, line)
            case "ping":
                return _answer(request, {})
            case "tools/list" if self.is_initialized:
                self._listed()
                return _answer(request, {"tools": [tool.listed() for tool in TOOLS]})
            case _:
                return declined(line)

    def _initialized(self, request: Mapping[str, Any], line: bytes) -> bytes | None:
        params = request.get("params")
        wanted = cast("Mapping[str, Any]", params).get("protocolVersion") if isinstance(params, dict) else None
        if wanted not in VERSIONS:
            return None
        self.unheard.insert(0, line)
        self.is_initialized = True
        result = {
            "capabilities": {"tools": {"listChanged": False}},
            "instructions": INSTRUCTIONS,
            "protocolVersion": wanted,
            "serverInfo": {"name": SERVER_NAME, "title": SERVER_TITLE, "version": __version__},
        }
        return _answer(request, result)


def declined(line: bytes) -> bytes | None:
    """Return the refusal of a request that begins a connection on which we could not ask a person; None: it is none.

    Clients that make it go on with ``initialize``, and can be asked then.
    """
    if DISCOVER.encode() not in line:
        return None
    request = _request(line)
    if request is None or request.get("method") != DISCOVER:
        return None
    error = {"code": METHOD_NOT_FOUND, "message": "Method not found", "data": DISCOVER}
    return _line({"jsonrpc": "2.0", "id": request["id"], "error": error})


def refusal(line: bytes, problem: str) -> bytes | None:
    """Return the answer to a line that is no message; None: it is meant as an answer itself, and gets none."""
    try:
        message = json.loads(line) if line else None
    except (ValueError, RecursionError):
        return _line({"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": problem}})
    fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    if {"result", "error"} & fields.keys():
        return None
    given = fields.get("id")
    request_id = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    return _line({"jsonrpc": "2.0", "id": request_id, "error": {"code": INVALID_REQUEST, "message": problem}})


def _request(line: bytes) -> dict[str, Any] | None:
    """Return the request of a line; None: it is none that could be answered at once."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    request = cast("dict[str, Any]", message)
    known = isinstance(request.get("id"), str | int) and isinstance(request.get("method"), str)
    return request if known else None


def _answer(request: Mapping[str, Any], result: Mapping[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": request["id"], "result": result})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
