"""Reads server-sent events from bytes cut anywhere."""

from __future__ import annotations

from typing import Final

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
    are held.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._started = False

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
        self._take_line(events)
        return events

    def _take_line(self, events: list[str]) -> None:
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if not self._started:
            line = line.removeprefix(_BOM)
            self._started = True
        if line:
            self._take_field(line)
        elif self._data:
            events.append(b"\n".join(self._data).decode("utf-8", "replace"))
            self._data.clear()
            self._size = 0

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value) + 1

    def _check_size(self) -> None:
        if self._size + len(self._line) > self._limit:
            raise EventTooLongError(self._limit)
