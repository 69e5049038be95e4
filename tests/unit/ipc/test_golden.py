"""Events on the wire stay the same: readers of earlier versions and in other languages rely on every field."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ipc.codec import decode_event, encode_event
from tests.fakes.events import GOLDEN, golden, golden_lines

EARLIER = GOLDEN.with_name("earlier.jsonl")
"""Events as an earlier version wrote them, with fewer fields and fewer kinds."""


def is_within(earlier: Any, now: Any) -> bool:
    """Return True if ``now`` contains all of ``earlier``. Objects in it may have more fields."""
    if isinstance(earlier, dict):
        fields = cast("dict[str, Any]", earlier)
        return all(name in now and is_within(value, now[name]) for name, value in fields.items())
    if isinstance(earlier, list):
        items = cast("list[Any]", earlier)
        return len(items) == len(now) and all(is_within(*pair) for pair in zip(items, now, strict=True))
    return earlier == now


def test_every_event_is_on_the_wire_as_it_was() -> None:
    assert golden_lines().decode() == GOLDEN.read_text(encoding="utf-8"), (
        "if fields or kinds were only added: python -m tests.fakes.events > tests/unit/ipc/golden/events.jsonl"
    )


def test_the_golden_lines_are_read_back() -> None:
    assert [decode_event(line) for line in GOLDEN.read_bytes().splitlines()] == golden()


@pytest.mark.parametrize("line", EARLIER.read_bytes().splitlines(), ids=lambda line: json.loads(line)["type"])
def test_what_an_earlier_version_wrote_is_read_and_nothing_of_it_is_lost(line: bytes) -> None:
    event = decode_event(line)

    assert event is not None
    assert is_within(json.loads(line), json.loads(encode_event(event)))
