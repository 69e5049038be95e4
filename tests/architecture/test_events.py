"""The event vocabulary is complete: every class is in the union, frozen, has a unique tag, and survives encoding."""

from __future__ import annotations

import re

import pytest

from ipc.codec import decode_event, decode_head, encode_event, topic_of
from ipc.events import BaseEvent
from tests.fakes.events import defined_event_classes, event_classes, example

TAG = re.compile(r"[a-z]+(\.[a-z]+)?")


def test_every_event_class_is_in_the_union() -> None:
    assert set(event_classes()) == defined_event_classes()


def test_every_tag_is_unique_and_plain() -> None:
    tags = [str(kind.__struct_config__.tag) for kind in event_classes()]

    assert len(set(tags)) == len(tags)
    assert [tag for tag in tags if not TAG.fullmatch(tag)] == []


def test_every_event_is_frozen() -> None:
    assert [kind.__name__ for kind in event_classes() if not kind.__struct_config__.frozen] == []


@pytest.mark.parametrize("kind", event_classes(), ids=lambda kind: kind.__name__)
def test_every_event_survives_the_wire(kind: type[BaseEvent]) -> None:
    event = example(kind, seq=7)
    body = encode_event(event)

    assert decode_event(body) == event
    assert b"\n" not in body
    assert decode_head(body).seq == 7
    assert decode_head(body).topic == topic_of(event)
