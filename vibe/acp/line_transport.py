"""LineTransport: JSON-RPC messages as lines, in both directions; what is no message is answered here."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from anyio import Event, create_memory_object_stream

from vibe.core.system.line_wire import LONGEST_MESSAGE, Wire

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
LINES_AHEAD = 16
"""Lines that are read before somebody wants them; whoever sends more has to wait."""


class LineTransport:
    """Messages over a wire, as the protocol's library takes its transports."""

    def __init__(self, wire: Wire) -> None:
        self.gone = Event()
        """Set when nothing more comes from the other side, or it takes nothing more."""
        self._wire = wire
        self._into, self._lines = create_memory_object_stream[bytes](LINES_AHEAD)
        self._held = deque[dict[str, Any]]()

    async def read(self) -> None:
        """Read until the other side is gone; ``receive`` has nothing without it."""
        try:
            await self._wire.receive(self._into)
        finally:
            self.gone.set()

    def hold(self, message: dict[str, Any]) -> None:
        """Have a message received again."""
        self._held.append(message)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end. What is no message is answered with what is wrong with it."""
        if self._held:
            return self._held.popleft()
        async for line in self._lines:
            message, problem = _parsed(line)
            if message is not None:
                return message
            await self.send(problem)
        return None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; one to a side that is gone is dropped."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
        try:
            await self._wire.send(text.encode("utf-8", "replace") + b"\n")
        except OSError:
            self.gone.set()
            self._into.close()

    async def close(self) -> None:
        """Take nothing more; harmless twice."""
        self._into.close()
        self._lines.close()


def _parsed(line: bytes) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the message of a line, or None and the answer to what is none."""
    if not line:
        return None, _refusal(INVALID_REQUEST, f"a message of more than {LONGEST_MESSAGE} bytes is not read")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, _refusal(PARSE_ERROR, f"a line that is no JSON: {error}")
    if not isinstance(message, dict):
        return None, _refusal(INVALID_REQUEST, "a line must be one JSON object, a message of JSON-RPC 2.0")
    found = cast("dict[str, Any]", message)
    call_id = found.get("id")
    if not isinstance(call_id, str | int | None) or not isinstance(found.get("method", ""), str):
        return None, _refusal(INVALID_REQUEST, "`method` must be a string, and `id` a string or a number")
    if not ({"method", "result", "error"} & found.keys()):
        known = call_id if isinstance(call_id, str | int) else None
        return None, _refusal(INVALID_REQUEST, "a message needs `method`, `result` or `error`", known)
    return found, {}


def _refusal(code: int, message: str, call_id: str | int | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": message}}
