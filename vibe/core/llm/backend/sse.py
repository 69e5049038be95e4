"""Reads server-sent events from bytes cut anywhere."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from ipc.errors import INVALID_JSON

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLongError(ValueError):
    """One event is longer than the parser is willing to hold."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event is longer than {limit} bytes")
        self.limit = limit


class SseParser:
    """Turns a byte stream into the data of its events; comments and other fields are dropped.

    Lines may end in LF, CRLF or CR, and the stream may be cut between any two bytes. At most ``max_event_bytes``
    are held. What a server names an error comes as one (``{"error": …}``), and so does a bare line of JSON. A body that
    begins with ``{`` is no stream (``is_plain``): all of it is one event, at the end.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._started = False
        self._is_error = False
        self._is_plain: bool | None = None

    @property
    def is_plain(self) -> bool:
        """True if what came so far is JSON and no stream."""
        return self._is_plain is True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that ``chunk`` completes.

        Raises:
            EventTooLongError: an event outgrew the limit.
        """
        if not chunk:
            return []
        if self._after_cr:
            # The other half of a CRLF that was cut in two.
            chunk = chunk.removeprefix(b"\n")
        events: list[str] = []
        for piece in chunk.splitlines(keepends=True):
            self._line += piece
            if piece.endswith((b"\n", b"\r")):
                self._take_line(events)
            self._check_size()
        self._after_cr = chunk.endswith(b"\r")
        return events

    def close(self) -> list[str]:
        """The data of an event that the end of the stream left without its blank line."""
        events: list[str] = []
        self._take_line(events)
        self._dispatch(events)
        return events

    def _take_line(self, events: list[str]) -> None:
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if not self._started:
            line = line.removeprefix(_BOM)
            self._started = True
        if not line:
            if not self._is_plain:
                self._dispatch(events)
            return
        if self._is_plain is None:
            self._is_plain = line.lstrip().startswith(b"{")
        if self._is_plain or line.startswith(b"{"):
            self._add(line)
        else:
            self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._is_error = value.strip() == b"error"
        elif name == b"error":  # llama.cpp's own way of it
            self._is_error = True
            self._add(value)
        elif name == b"data":
            self._add(value)

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._size += len(value) + 1

    def _dispatch(self, events: list[str]) -> None:
        if self._data:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            events.append(_as_error(data) if self._is_error else data)
            self._data.clear()
            self._size = 0
        self._is_error = False

    def _check_size(self) -> None:
        if self._size + len(self._line) > self._limit:
            raise EventTooLongError(self._limit)


def _as_error(data: str) -> str:
    told: object = data
    with suppress(*INVALID_JSON):  # words, not JSON
        told = msgspec.json.decode(data)
    if isinstance(told, dict) and cast("dict[str, Any]", told).get("error"):
        return data
    return msgspec.json.encode({"error": told or "no reason told"}).decode()
