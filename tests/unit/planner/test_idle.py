from __future__ import annotations

import pytest

from ipc.events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantDeltaEvent,
    Event,
    QuestionEvent,
)
from ipc.sink import MemorySink
from planner.idle import ActivitySink
from tests.fakes.clock import ManualClock


def delta(step_id: str | None) -> Event:
    return AssistantDeltaEvent(message_id="m", text="x", subagent_step_id=step_id)


def test_an_event_of_the_step_starts_its_clock_again_and_others_do_not() -> None:
    clock, memory = ManualClock(), MemorySink()
    sink = ActivitySink(memory, clock)
    sink.begin("a")
    clock.advance(5)
    assert sink.idle_seconds("a") == 5
    sink.publish(delta("b"))
    sink.publish(delta(None))
    assert sink.idle_seconds("a") == 5
    sink.publish(delta("a"))
    assert sink.idle_seconds("a") == 0
    assert len(memory.events) == 3, "every event is handed on"


@pytest.mark.parametrize(
    ("request_event", "answer"),
    [
        (
            ApprovalRequestEvent(
                request_id="r", tool_call_id="t", tool="bash", arguments={}, rule="", subagent_step_id="a"
            ),
            ApprovalDecisionEvent(request_id="r", decision="allow"),
        ),
        (QuestionEvent(request_id="r", questions=(), subagent_step_id="a"), AnswerEvent(request_id="r")),
    ],
)
def test_an_open_request_stops_the_clock_until_it_is_answered(request_event: Event, answer: Event) -> None:
    clock = ManualClock()
    sink = ActivitySink(MemorySink(), clock)
    sink.begin("a")
    sink.publish(request_event)
    clock.advance(1000)
    assert sink.idle_seconds("a") == 0
    sink.publish(answer)
    assert sink.idle_seconds("a") == 0
    clock.advance(7)
    assert sink.idle_seconds("a") == 7


def test_a_step_that_ended_is_forgotten_with_its_requests() -> None:
    clock = ManualClock()
    sink = ActivitySink(MemorySink(), clock)
    sink.begin("a")
    sink.publish(QuestionEvent(request_id="r", questions=(), subagent_step_id="a"))
    sink.end("a")
    sink.begin("a")
    clock.advance(3)
    assert sink.idle_seconds("a") == 3
