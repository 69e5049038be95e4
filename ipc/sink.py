"""Sinks of events: the EventSink port, and those that stamp, tag, fan out and remember."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict, Unpack

from msgspec import structs

from ipc.events import Event


class EventSink(Protocol):
    """Takes events, in order, from the thread of the event loop. Never blocks and never awaits."""

    def publish(self, event: Event) -> None:
        """Take one event."""
        ...


class StampingSink:
    """Gives each event its id, sequence number, source and, unless it has one, its time, then hands it on.

    One stands at the root of a process run: everything below it sees the same ids.
    """

    def __init__(self, source: str, sink: EventSink, clock: Callable[[], float] = time.time) -> None:
        self.source = source
        self._sink = sink
        self._clock = clock
        self._seq = 0
        self._drawn = os.urandom(12).hex()
        """The same in all its ids: to draw bytes for each event is a third of what publishing it costs."""

    def publish(self, event: Event) -> None:
        """Stamp and hand on."""
        self._seq = seq = self._seq + 1
        event_id = f"{self._drawn}{seq:08x}"
        self._sink.publish(
            structs.replace(event, event_id=event_id, seq=seq, source=self.source, ts=event.ts or self._clock())
        )


class Tags(TypedDict, total=False):
    """Fields of events that say whose they are; the session may become another one meanwhile."""

    session_id: str | Callable[[], str]
    plan_id: str | None
    subagent_id: str | None
    subagent_step_id: str | None
    conversation_id: str


class TaggingSink:
    """Marks each event with whose it is; what an inner sink marked already stays.

    A ``session_id`` that may change is asked for; ``conversation_id`` is for the events that have one.
    """

    def __init__(self, sink: EventSink, **tags: Unpack[Tags]) -> None:
        self._sink = sink
        self._tags = {name: value for name, value in tags.items() if value}

    def publish(self, event: Event) -> None:
        """Tag and hand on."""
        missing = {
            name: value() if callable(value) else value
            for name, value in self._tags.items()
            if not getattr(event, name, True)
        }
        self._sink.publish(structs.replace(event, **missing) if missing else event)


class FanOutSink:
    """Hands each event to several sinks, first to last."""

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)

    def publish(self, event: Event) -> None:
        """Hand to each."""
        for sink in self._sinks:
            sink.publish(event)


class MemorySink:
    """Keeps every event in a list."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)
