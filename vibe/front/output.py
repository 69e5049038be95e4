"""Writes the output of a run: nothing, lines or JSON while it runs, and its result record at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from ipc.codec import encode_event
from ipc.events import ErrorEvent, Event, WarningEvent
from vibe.front.event_text import describe, problem_text, step_of
from vibe.system.plain_text import one_line

TROUBLE = (WarningEvent, ErrorEvent)
LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})
SENTENCE_LENGTH = 1_000
"""Characters of a warning or an error; this is long because they end with what to do."""


class EventLines:
    """An EventSink that writes each event as it happens, in the text that ``words`` makes of it, if any."""

    def __init__(self, out: TextIO, words: Callable[[Event], str]) -> None:
        self._out = out
        self._words = words

    def publish(self, event: Event) -> None:
        """Write the event's text, if it has any."""
        if text := self._words(event):
            self._out.write(text)
            self._out.flush()


def line_of(kinds: tuple[type[Event], ...], event: Event) -> str:
    """Return a readable line for an event of one of the given kinds, or ``""`` for any other."""
    if not isinstance(event, kinds):
        return ""
    text = problem_text(event) if isinstance(event, TROUBLE) else describe(event, SENTENCE_LENGTH)
    return f"{step_of(event)}{one_line(text, SENTENCE_LENGTH)}\n"


def json_line(event: Event) -> str:
    """Return an event as one line of JSON, equal to its body on the bus."""
    return in_one_line(encode_event(event).decode())


def write_document(document: Mapping[str, Any], out: TextIO, *, indent: int | None = None) -> None:
    """Write a document, either indented or as one line of a stream."""
    out.write(in_one_line(json.dumps(document, indent=indent, ensure_ascii=False)))
    out.flush()


def in_one_line(text: str) -> str:
    """Return JSON with a line feed at its end, escaping other characters that some readers take for a line end."""
    return (text if text.isascii() else text.translate(LINE_ENDS)) + "\n"
