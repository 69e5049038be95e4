"""The EventSink port, and sinks that stamp, tag, fan out and remember events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict, Unpack

from msgspec import structs

from ipc.events import Event


class EventSink(Protocol):
    """Takes events in order, from the event loop's thread. Never blocks and never awaits."""

    def publish(self, event: Event) -> None:
        """Take one event."""


class StampingSink:
    """Gives each event an id, a sequence number, its source and, if it has none, a time, then passes it on.

    There is one at the root of each process run, so that everything below it sees the same ids.
    """

    def __init__(self, source: str, sink: EventSink) -> None:
        self.source = source
        self._sink = sink
        self._seq = 0
        self._id_prefix = os.urandom(12).hex()
        """The prefix of all ids. Drawing random bytes for each event would be a third of what publishing it costs."""

    def publish(self, event: Event) -> None:
        """Stamp the event and pass it on."""
        self._seq = seq = self._seq + 1
        event_id = f"{self._id_prefix}{seq:08x}"
        self._sink.publish(
            structs.replace(event, event_id=event_id, seq=seq, source=self.source, ts=event.ts or time.time())
        )


class Tags(TypedDict, total=False):
    """Fields that say whose event it is. A callable ``session_id`` is asked each time, because a session may change."""

    session_id: str | Callable[[], str]
    plan_id: str | None
    subagent_id: str | None
    subagent_step_id: str | None
    conversation_id: str


class TaggingSink:
    """Fills in whose event it is, and keeps what an inner sink filled in before.

    ``conversation_id`` goes only into events that have such a field.
    """

    def __init__(self, sink: EventSink, **tags: Unpack[Tags]) -> None:
        self._sink = sink
        self._tags = {name: value for name, value in tags.items() if value}

    def publish(self, event: Event) -> None:
        """Tag the event and pass it on."""
        missing = {
            name: value() if callable(value) else value
            for name, value in self._tags.items()
            if not getattr(event, name, True)
        }
        self._sink.publish(structs.replace(event, **missing) if missing else event)


class FanOutSink:
    """Passes each event to several sinks, in their order."""

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)

    def publish(self, event: Event) -> None:
        """Pass the event to each sink."""
        for sink in self._sinks:
            sink.publish(event)


class MemorySink:
    """Keeps every event in a list."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)
