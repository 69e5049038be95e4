"""Builds the server's responses from values, and reads the bodies of requests up to a limit."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

JSON = "application/json"
MOST_BYTES = 256 * 1024
"""Maximum size of the body of a request, in bytes."""
LINE_ENDS: Final = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\x85".encode(): b"\\u0085"}
"""Characters that JSON allows unescaped, but that many readers take for the end of a line."""


def encoded(value: Any) -> bytes:
    """Encode a value as JSON on one line, whatever characters its reader takes for the end of one."""
    data = msgspec.json.encode(value)
    for character, escape in LINE_ENDS.items():
        data = data.replace(character, escape)
    return data


def found(value: Any, status: int = 200) -> Response:
    """Return a response with a value as JSON."""
    return Response(encoded(value), status, media_type=JSON)


def refusal(status: int, error: str, message: str, **more: Any) -> Response:
    """Return a response that refuses a request. ``error`` is one stable word, ``message`` a sentence for people."""
    return found({"error": error, "message": message, **more}, status)


class RefusedError(Exception):
    """A request can't be served. ``answer`` is the response that says why."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(status, error, message)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        RefusedError: the body has another content type, is too large, or isn't a JSON object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise RefusedError(415, "kind", f"the body must be of the content type {JSON}")
    data = bytearray()
    try:
        async for part in request.stream():
            data += part
            if len(data) > MOST_BYTES:
                raise RefusedError(413, "large", f"the body has more than {MOST_BYTES:,} bytes")
        return msgspec.json.decode(bytes(data), type=dict[str, Any])
    except ClientDisconnect as error:
        raise RefusedError(400, "invalid", "the body ended early") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, "invalid", f"the body must be a JSON object ({error})") from error
