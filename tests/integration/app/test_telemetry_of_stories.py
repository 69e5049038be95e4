"""Whatever events say, their spans are well-formed trees that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from ipc import events as e
from tests.fakes.otlp_receiver import Received, otlp_receiver
from tests.fakes.stories import mixed, numbered, story, strays
from vibe.app.telemetry import Telemetry

ROOTS = ("invoke_workflow ", "plan ", "invoke_agent ", "step ", "chat ", "execute_tool ")


@pytest.mark.parametrize("seed", range(20))
def test_strange_events_leave_no_span_open_and_none_without_what_it_lies_in(seed: int) -> None:
    random = Random(seed)
    events = numbered(mixed(story(random), strays(random, 60), random))
    with otlp_receiver() as received:
        told = Telemetry(received.address, {}, metrics=False)
        for event in events:
            told.publish(event)
        told.close()
    assert received.spans
    for span in received.spans:
        assert span.name.startswith(ROOTS)
        assert span.end_time_unix_nano
        assert not span.parent_span_id or received.above(span) is not None


def test_a_run_that_goes_on_with_a_plan_is_linked_to_the_one_before() -> None:
    steps = (e.StepOutline(id="a", title="A", mode="code"),)
    first = [
        e.PlanStartedEvent(goal="g", steps=steps, plan_id="p", source="one", event_id="1", ts=1.0),
        e.PlanPausedEvent(reason="stopped", plan_id="p", source="one", event_id="2", ts=2.0),
    ]
    second = [e.PlanResumedEvent(goal="g", steps=steps, done=0, plan_id="p", source="two", event_id="3", ts=3.0)]
    with otlp_receiver() as received:
        _tell(received, first)
        _tell(received, second)
    before, after = sorted(received.spans, key=lambda span: span.start_time_unix_nano)
    [link] = after.links
    assert (link.trace_id, link.span_id) == (before.trace_id, before.span_id)
    assert before.trace_id != after.trace_id


def _tell(received: Received, events: Sequence[e.Event]) -> None:
    told = Telemetry(received.address, {}, metrics=False, before=lambda _plan_id, _source: "one")
    for event in events:
        told.publish(event)
    told.close()
