"""Whatever the events are, their spans form well-formed trees and have all ended."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from anyio import to_thread
from msgspec import structs

from ipc import events as e
from ipc.registry import Registry
from tests.fakes.otlp_receiver import Received, otlp_receiver
from tests.fakes.runs import running
from tests.fakes.stories import mixed, numbered, story, strays
from vibe.app import telemetry
from vibe.app.telemetry import Telemetry, run_before
from vibe.system.errors import EnvironmentFailure

ROOTS = ("invoke_workflow ", "plan ", "invoke_agent ", "step ", "chat ", "execute_tool ")


@pytest.mark.parametrize("seed", range(20))
def test_strange_events_leave_no_span_open_and_none_without_what_it_lies_in(seed: int) -> None:
    random = Random(seed)
    events = numbered(mixed(story(random), strays(random, 60), random))
    with otlp_receiver() as received:
        told = Telemetry(received.address, {}, is_export=True)
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


async def test_the_run_before_is_the_last_that_had_ended(vibe_home: Path) -> None:
    for source, plan_id in (("old", "plan-1"), ("one", "plan-1"), ("other", "plan-2")):
        async with running(vibe_home, source, plan_id):
            pass
    registry = Registry(vibe_home)
    resumed = e.PlanResumedEvent(goal="g", steps=(), done=0, plan_id="plan-1", source="two", ts=time.time())

    assert await to_thread.run_sync(run_before, registry, resumed) == "one"
    assert await to_thread.run_sync(run_before, registry, structs.replace(resumed, ts=1.0)) == ""


def test_what_can_not_be_sent_at_all_is_told_as_well() -> None:
    told = Telemetry("http://[no-address", {}, is_export=True)
    told.publish(e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id="1", ts=1.0))

    with pytest.raises(EnvironmentFailure, match="takes no spans"):
        told.close()


def test_spans_that_are_not_taken_in_the_end_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(number: str) -> e.Event:
        return e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id=number, ts=1.0)

    with otlp_receiver() as received:
        told = Telemetry(received.address, {})
        told.publish(begun("1"))
        told.publish(begun("2"))
        told.flush()
        monkeypatch.setattr(telemetry, "LAST_SECONDS", 0.0)  # as if it had become slow
        with pytest.raises(EnvironmentFailure, match="takes only 1 of 2 spans"):
            told.close()
    assert len(received.spans) == 1


@pytest.mark.parametrize("status", [429, 503, 400])
def test_a_receiver_that_refuses_in_the_end_is_not_asked_again(status: int) -> None:
    with otlp_receiver() as received:
        received.status = status
        told = Telemetry(received.address, {})
        told.publish(e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id="1", ts=1.0))
        with pytest.raises(EnvironmentFailure, match=rf"takes no spans \(it answers HTTP {status}\)"):
            told.close()
    assert len(received.headers) == 1


def test_a_receiver_that_cuts_links_in_the_end_is_asked_once_more_since_a_kept_one_may_have_ended() -> None:
    links: list[socket.socket] = []

    def cut() -> None:
        with suppress(OSError):
            while True:
                links.append(server.accept()[0])
                links[-1].close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=cut)
        thread.start()
        told = Telemetry(f"http://127.0.0.1:{server.getsockname()[1]}", {})
        told.publish(e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id="1", ts=1.0))
        with pytest.raises(EnvironmentFailure, match=r"takes no spans \(no answer: check the address\)"):
            told.close()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(links) == 2


def test_an_export_waits_until_all_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "LAST_SECONDS", 0.0)  # as if the receiver were slow
    monkeypatch.setattr(telemetry, "MOST_QUEUED", 8)
    monkeypatch.setattr(telemetry, "BATCH", 2)
    with otlp_receiver() as received:
        told = Telemetry(received.address, {}, is_export=True)
        for number in range(100):
            event_id = str(number)
            told.publish(e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id=event_id, ts=1.0))
        told.close()
    assert len(received.spans) == 100


def test_below_a_parent_that_is_not_sampled_nothing_is_missing() -> None:
    with otlp_receiver() as received:
        told = Telemetry(received.address, {}, is_export=True, parent=f"00-{'a' * 32}-{'b' * 16}-00")
        told.publish(e.PlanStartedEvent(goal="g", steps=(), plan_id="p", source="one", event_id="1", ts=1.0))
        told.close()
    assert received.spans == []


def _tell(received: Received, events: Sequence[e.Event]) -> None:
    told = Telemetry(received.address, {}, is_export=True, before=lambda _resumed: "one")
    for event in events:
        told.publish(event)
    told.close()
