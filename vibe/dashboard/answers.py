"""Answers of the server as values, and the bodies of requests, bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

JSON = "application/json"
MOST_BYTES = 256 * 1024
"""Of the body of a request."""
LINE_ENDS: Final = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\x85".encode(): b"\\u0085"}
"""They may stand in JSON as they are, but many a reader of lines ends one there."""


class WebAnswer(Struct, frozen=True, kw_only=True):
    """An answer to a request: a status, and what is sent with it."""

    status: int = 200
    body: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = {}

    async def send(self, send: Send) -> None:
        """Send it whole."""
        said = {"content-type": self.kind, "content-length": str(len(self.body)), **self.headers}
        headers = [(name.encode(), value.encode()) for name, value in said.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def encoded(value: Any) -> bytes:
    """A value as JSON on one line, whatever its reader takes for the end of one."""
    data = msgspec.json.encode(value)
    for character, escape in LINE_ENDS.items():
        data = data.replace(character, escape)
    return data


def found(value: Any) -> WebAnswer:
    """Return the answer that is a value, as JSON."""
    return WebAnswer(body=encoded(value))


def refusal(status: int, error: str, message: str, **more: Any) -> WebAnswer:
    """The reason why not: ``error`` is one stable word, ``message`` a sentence for people."""
    return WebAnswer(status=status, body=encoded({"error": error, "message": message, **more}))


class RefusedError(Exception):
    """A request can't be served; ``answer`` says why."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(status, error, message)


async def read_json(scope: Scope, receive: Receive) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        RefusedError: it is of another kind, too large, or none.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != JSON.encode():
        raise RefusedError(415, "kind", f"the body must be of the content type {JSON}")
    data = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RefusedError(400, "invalid", "the body ended early")
        data += message.get("body", b"")
        if len(data) > MOST_BYTES:
            raise RefusedError(413, "large", f"the body has more than {MOST_BYTES:,} bytes")
        if not message.get("more_body"):
            break
    try:
        return msgspec.json.decode(bytes(data), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, "invalid", f"the body must be a JSON object ({error})") from error
