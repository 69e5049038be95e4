"""Encodes and decodes all that goes over the wire: events, topics, frames, heartbeats, replay requests and answers.

An event travels as ``topic NUL body``. The topic is ``<tag>|<plan_id or ->|<step_id or ->``, the body is one JSON
object in UTF-8 without a newline. A heartbeat is ``hb NUL {"source": .., "seq": head}``; the last one of a publisher
has ``"end": true``. A replay request is ``{"from": n, "to": m}``. Without ``to`` it asks for everything from ``from``
on, without ``from`` only for the header. The answer is a header in JSON and then the bodies, each on a line of its own.
A publisher on TCP, where any user of the machine can connect, sends only heartbeats, one after each event. Its events
come by replay requests with the run's ``"token"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from msgspec import Struct, ValidationError, json, structs

from ipc.errors import INVALID_JSON, CodecError, decoded
from ipc.events import Event

WIRE_VERSION = 1
"""Version of the wire format. It grows when old readers could not read the new form; new events and fields don't count.
"""

NUL = b"\x00"
"""Separates the topic of a message from its body."""

HEARTBEAT = b"hb"
"""The topic of heartbeats."""

_LARGEST_INT = 2**64 - 1
_SMALLEST_INT = -(2**63)


class Head(Struct, frozen=True, gc=False):
    """Header of an event body, whether or not this version knows the event's type."""

    seq: int
    source: str
    type: str
    plan_id: str | None = None
    subagent_step_id: str | None = None
    step_id: str | None = None

    @property
    def topic(self) -> str:
        """The topic the event travels under."""
        return f"{self.type}|{self.plan_id or '-'}|{self.subagent_step_id or self.step_id or '-'}"


class Heartbeat(Struct, frozen=True, gc=False, omit_defaults=True):
    """A sign of life: ``seq`` is the newest event of ``source``; ``end`` says that there will be no more."""

    source: str
    seq: int
    end: bool = False


class ReplayRequest(Struct, frozen=True, gc=False, rename={"first": "from", "last": "to"}, omit_defaults=True):
    """Asks for events ``first`` to ``last``, inclusive; without ``last`` up to the newest, without ``first`` for none.

    ``token`` is the run's, without which a publisher on TCP reveals nothing.
    """

    first: int | None = None
    last: int | None = None
    token: str = ""


class ReplayHeader(Struct, frozen=True, gc=False, rename={"first": "from"}):
    """The first line of an answer: ``count`` bodies follow, beginning with event ``first``.

    ``refused`` says that the request lacked the run's token; then the other fields mean nothing.
    """

    version: int
    source: str = ""
    seq: int = 0
    end: bool = False
    first: int = 0
    count: int = 0
    journal: str = ""
    refused: bool = False


_encoder = json.Encoder()
_event_decoder: json.Decoder[Event] = json.Decoder(Event)
_head_decoder = json.Decoder(Head)
_heartbeat_decoder = json.Decoder(Heartbeat)
_request_decoder = json.Decoder(ReplayRequest)
_header_decoder = json.Decoder(ReplayHeader)


class EventRecord:
    """One event as a subscriber gets it: ``seq`` and ``body`` as published, the rest decoded on first use."""

    def __init__(self, seq: int, source: str, body: bytes) -> None:
        self.seq = seq
        self.source = source
        self.body = body

    @cached_property
    def topic(self) -> str:
        """The topic: ``<tag>|<plan_id or ->|<step_id or ->``."""
        return decode_head(self.body).topic

    @cached_property
    def event(self) -> Event | None:
        """The event, or None if this version does not know its type."""
        return decode_event(self.body)


def encode_event(event: Event) -> bytes:
    """Return the body of an event. Invalid Unicode and values that JSON can't hold are replaced, never refused."""
    try:
        return _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        return _encoder.encode(_plain(structs.asdict(event)) | {"type": event.__struct_config__.tag})


def decode_event(body: bytes) -> Event | None:
    """Return the event in a body, or None if its type (or a value in it) is newer than this version.

    Raises:
        CodecError: the body is not JSON.
    """
    try:
        return _event_decoder.decode(body)
    except ValidationError:
        return None
    except INVALID_JSON as error:
        raise CodecError("event", str(error)) from error


def decode_head(body: bytes) -> Head:
    """Return the sequence number, source and topic of a body.

    Raises:
        CodecError: the body is not an event of any version.
    """
    return decoded(_head_decoder, body, partial(CodecError, "event"))


def topic_of(event: Event) -> str:
    """Return the topic an event travels under."""
    step = event.subagent_step_id or getattr(event, "step_id", None) or "-"
    return f"{event.__struct_config__.tag}|{event.plan_id or '-'}|{step}"


def event_frame(event: Event, body: bytes) -> bytes:
    """Return the message that carries an encoded event."""
    return topic_of(event).encode("utf-8", "replace") + NUL + body


def heartbeat_frame(heartbeat: Heartbeat) -> bytes:
    """Return the message that carries a heartbeat."""
    return HEARTBEAT + NUL + _encoder.encode(heartbeat)


def decode_frame(frame: bytes) -> tuple[str, bytes] | Heartbeat:
    """Return the topic and body of an event, or a heartbeat.

    Raises:
        CodecError: the message is neither.
    """
    topic, separator, body = frame.partition(NUL)
    if not separator:
        raise CodecError("message", "no NUL after the topic")
    if topic != HEARTBEAT:
        return topic.decode("utf-8", "replace"), body
    return decoded(_heartbeat_decoder, body, partial(CodecError, "heartbeat"))


def encode_request(request: ReplayRequest) -> bytes:
    """Return the bytes of a replay request."""
    return _encoder.encode(request)


def decode_request(data: bytes) -> ReplayRequest:
    """Return the replay request in ``data``.

    Raises:
        CodecError: it holds none.
    """
    return decoded(_request_decoder, data, partial(CodecError, "replay request"))


def encode_answer(header: ReplayHeader, bodies: Sequence[bytes]) -> bytes:
    """Return the bytes of a replay answer."""
    return b"\n".join((_encoder.encode(header), *bodies, b""))


def decode_answer(data: bytes) -> tuple[ReplayHeader, list[bytes]]:
    """Return the header of a replay answer and the bodies that follow it.

    Raises:
        CodecError: the bytes are not a valid answer, or are of another version of the wire format.
    """
    line, _, rest = data.partition(b"\n")
    header = decoded(_header_decoder, line, partial(CodecError, "replay answer"))
    if header.version != WIRE_VERSION:
        raise CodecError("replay answer", f"wire version {header.version}, this program needs {WIRE_VERSION}")
    bodies = rest.split(b"\n")[:-1]
    if len(bodies) != header.count:
        raise CodecError("replay answer", f"{header.count} events announced, {len(bodies)} received")
    return header, bodies


def _plain(value: Any) -> Any:
    """Return a value of any shape as JSON data: what JSON can't hold becomes text, bad Unicode becomes ``?``."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if _SMALLEST_INT <= value <= _LARGEST_INT else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  plain data of any shape
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  plain data of any shape
    if isinstance(value, Struct):
        return _plain(structs.asdict(value))
    return _plain(str(value))
