"""Server-sent events survive any cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from vibe.core.llm.backend.http import EventTooLongError, SseParser

STREAM = (
    '\ufeffdata: {"a": "grün"}\n\n'
    ": a comment\n\n"
    "event: note\r\ndata: first\r\ndata:second\r\nid: 3\r\n\r\n"
    "data: old mac\r\rretry: 5\n\n"
    "data\n\n"
    "data: 🙂\n\ndata: [DONE]\n\n"
).encode()
EVENTS = ['{"a": "grün"}', "first\nsecond", "old mac", "", "🙂", "[DONE]"]


def parse(chunks: list[bytes]) -> list[str]:
    parser = SseParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def test_every_line_ending_comment_and_foreign_field_is_understood() -> None:
    assert parse([STREAM]) == EVENTS


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(cut: int) -> None:
    assert parse([STREAM[:cut], STREAM[cut:]]) == EVENTS


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=40))
def test_any_number_of_cuts_changes_nothing(cuts: list[int]) -> None:
    borders = [0, *sorted(cuts), len(STREAM)]
    assert parse([STREAM[start:end] for start, end in pairwise(borders)]) == EVENTS


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n", b"\r"])
def test_the_end_of_the_stream_ends_the_last_event(tail: bytes) -> None:
    assert parse([b"data: x\n\ndata: [DONE]" + tail]) == ["x", "[DONE]"]


@pytest.mark.parametrize("chunk", [b"data: xxxxxxxxxxxxxxxxxxxx", b"data: xxxxx\n", b"xxxxxxxxxxxxxxxx"])
def test_an_endless_event_is_refused(chunk: bytes) -> None:
    parser = SseParser(max_event_bytes=100)

    def feed_for_ever() -> None:
        while True:
            parser.feed(chunk)

    with pytest.raises(EventTooLongError, match="100 bytes"):
        feed_for_ever()


def test_many_small_events_never_reach_the_limit() -> None:
    parser = SseParser(max_event_bytes=20)
    assert sum(len(parser.feed(b"data: 123456\n\n")) for _ in range(100)) == 100


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"event: error\ndata: it broke\n\ndata: x\n\n", ['{"error":"it broke"}', "x"]),
        (b'event: error\ndata: {"error":1}\n\n', ['{"error":1}']),
        (b'error: {"code":5}\n\n', ['{"error":{"code":5}}']),
        (b'data: x\n\n{"error":1}\n\n', ["x", '{"error":1}']),
        (b'{\n\n"a": 1}\n', ['{\n"a": 1}']),
    ],
)
def test_errors_by_name_and_bare_json_are_heard(stream: bytes, events: list[str]) -> None:
    assert parse([stream]) == events
    assert parse([bytes([byte]) for byte in stream]) == events
