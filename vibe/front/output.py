"""Output of a run: nothing, lines or JSON while it runs, and its result record at the end."""

from __future__ import annotations

import json
from typing import TextIO

from ipc.codec import encode_event
from ipc.events import ErrorEvent, Event, WarningEvent
from vibe.app.engine.result_record import RunRecord
from vibe.front.event_text import describe, one_line, trouble

TROUBLE = (WarningEvent, ErrorEvent)
SENTENCE_LENGTH = 1_000
"""Characters of a warning or an error: what to do stands at its end."""


class LineSink:
    """Writes one readable line for each event of the given kinds, as it happens."""

    def __init__(self, out: TextIO, kinds: tuple[type[Event], ...]) -> None:
        self._out = out
        self._kinds = kinds

    def publish(self, event: Event) -> None:
        """Write a line if the event is of interest."""
        if isinstance(event, self._kinds):
            step = f"[{one_line(event.subagent_step_id)}] " if event.subagent_step_id else ""
            said = trouble(event) if isinstance(event, TROUBLE) else describe(event, SENTENCE_LENGTH)
            self._out.write(f"{step}{one_line(said, SENTENCE_LENGTH)}\n")
            self._out.flush()


class JsonLinesSink:
    """Writes every event as one line of JSON, with the same body as on the bus."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def publish(self, event: Event) -> None:
        """Write the event's body."""
        self._out.write(encode_event(event).decode() + "\n")
        self._out.flush()


def write_record(record: RunRecord, out: TextIO, *, indent: int | None) -> None:
    """Write the result record: indented as one document, or as the last line of a stream."""
    out.write(json.dumps(record.as_document(), indent=indent, ensure_ascii=False) + "\n")
    out.flush()
