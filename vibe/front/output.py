"""Output of a run: nothing, lines or JSON while it runs, and its result record at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

from ipc.codec import encode_event
from ipc.events import ErrorEvent, Event, WarningEvent
from vibe.app.engine.result_record import RunRecord
from vibe.front.event_text import describe, one_line, step_of, trouble

TROUBLE = (WarningEvent, ErrorEvent)
SENTENCE_LENGTH = 1_000
"""Characters of a warning or an error: what to do stands at its end."""


class EventLines:
    """An EventSink that writes what ``words`` makes of each event, if anything, as it happens."""

    def __init__(self, out: TextIO, words: Callable[[Event], str]) -> None:
        self._out = out
        self._words = words

    def publish(self, event: Event) -> None:
        """Write it."""
        if text := self._words(event):
            self._out.write(text)
            self._out.flush()


def line_of(kinds: tuple[type[Event], ...], event: Event) -> str:
    """Return a readable line on an event of the given kinds; blank: it is of another."""
    if not isinstance(event, kinds):
        return ""
    said = trouble(event) if isinstance(event, TROUBLE) else describe(event, SENTENCE_LENGTH)
    return f"{step_of(event)}{one_line(said, SENTENCE_LENGTH)}\n"


def json_line(event: Event) -> str:
    """Return an event as one line of JSON, with the same body as on the bus."""
    return encode_event(event).decode() + "\n"


def write_record(record: RunRecord, out: TextIO, *, indent: int | None) -> None:
    """Write the result record: indented as one document, or as the last line of a stream."""
    out.write(json.dumps(record.as_document(), indent=indent, ensure_ascii=False) + "\n")
    out.flush()
