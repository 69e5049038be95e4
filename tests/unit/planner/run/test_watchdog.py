from __future__ import annotations

import pytest

from ipc.events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantDeltaEvent,
    Event,
    PlacementEvent,
    PlanWaitingEvent,
    QuestionEvent,
    ToolCallEvent,
    ToolResultEvent,
    WarningEvent,
)
from ipc.sink import MemorySink
from planner.run.watchdog import Watchdog
from tests.fakes.clock import ManualClock
from vibe.core.budget import WAITING
from vibe.core.llm.announcing import WAIT, WAITED


def delta(step_id: str | None) -> Event:
    return AssistantDeltaEvent(message_id="m", text="x", subagent_step_id=step_id)


def test_an_event_of_the_step_starts_its_clock_again_and_others_do_not() -> None:
    clock, memory = ManualClock(), MemorySink()
    sink = Watchdog(memory, clock)
    sink.begin("a")
    clock.advance(5)
    assert sink.idle_seconds("a") == 5
    sink.publish(delta("b"))
    sink.publish(delta(None))
    assert sink.idle_seconds("a") == 5
    sink.publish(delta("a"))
    assert sink.idle_seconds("a") == 0
    assert len(memory.events) == 3, "every event is handed on"


def test_waiting_for_a_worker_is_not_idling_and_the_place_ends_it() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(PlanWaitingEvent(step_id="a", waits_for="worker"))
    sink.publish(delta("b"))
    clock.advance(500)
    assert sink.idle_seconds("a") == 0
    sink.publish(PlacementEvent(status="placed", worker="build:1", subagent_step_id="a"))
    clock.advance(5)
    assert sink.idle_seconds("a") == 5


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
        (
            ToolCallEvent(tool_call_id="c", tool="command", arguments={}, subagent_step_id="a"),
            ToolResultEvent(tool_call_id="c", tool="command", status="ok", content="", subagent_step_id="a"),
        ),
    ],
)
def test_an_open_request_or_check_stops_the_clock_until_it_is_answered(request_event: Event, answer: Event) -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(request_event)
    clock.advance(1000)
    assert sink.idle_seconds("a") == 0
    sink.publish(answer)
    assert sink.idle_seconds("a") == 0
    clock.advance(7)
    assert sink.idle_seconds("a") == 7


@pytest.mark.parametrize("code", [WAITING, WAIT])
def test_the_clock_stands_still_while_one_of_its_agents_waits_for_room_or_its_turn(code: str) -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(WarningEvent(code=code, message="waits", subagent_id="one", subagent_step_id="a"))
    sink.publish(AssistantDeltaEvent(message_id="m", text="x", subagent_id="other", subagent_step_id="a"))
    clock.advance(1000)
    assert sink.idle_seconds("a") == 0
    sink.publish(AssistantDeltaEvent(message_id="m", text="x", subagent_id="one", subagent_step_id="a"))
    clock.advance(7)
    assert sink.idle_seconds("a") == 7


def test_a_wait_of_known_length_is_no_silence_whatever_other_agents_say_meanwhile() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(WarningEvent(code="model.retry", message="again", wait_seconds=60, subagent_step_id="a"))
    clock.advance(10)
    sink.publish(delta("a"))
    clock.advance(55)
    assert sink.idle_seconds("a") == 5


def test_with_its_turn_the_clock_runs_again() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(WarningEvent(code=WAIT, message="waits", subagent_id="one", subagent_step_id="a"))
    clock.advance(1000)
    sink.publish(WarningEvent(code=WAITED, message="waited", subagent_id="one", subagent_step_id="a"))
    clock.advance(7)
    assert sink.idle_seconds("a") == 7


def test_a_tool_of_the_agent_that_hangs_does_not_stop_the_clock() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(ToolCallEvent(tool_call_id="c", tool="bash", arguments={}, subagent_step_id="a"))
    clock.advance(5)
    assert sink.idle_seconds("a") == 5


def test_a_step_that_ended_is_forgotten_with_its_requests() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    sink.publish(QuestionEvent(request_id="r", questions=(), subagent_step_id="a"))
    sink.publish(WarningEvent(code=WAITING, message="waits", subagent_id="one", subagent_step_id="a"))
    sink.end("a")
    sink.begin("a")
    clock.advance(3)
    assert sink.idle_seconds("a") == 3


def test_the_seconds_in_which_a_person_was_waited_for_are_counted_once() -> None:
    clock = ManualClock()
    sink = Watchdog(MemorySink(), clock)
    sink.begin("a")
    clock.advance(3)
    asked = [QuestionEvent(request_id=name, questions=(), subagent_step_id="a") for name in "rs"]
    sink.publish(asked[0])
    clock.advance(4)
    sink.publish(asked[1])
    clock.advance(5)
    sink.publish(AnswerEvent(request_id="r"))
    clock.advance(1)
    assert sink.waited("a") == 10
    sink.publish(AnswerEvent(request_id="s"))
    clock.advance(7)
    assert sink.waited("a") == 10
    sink.end("a")
    assert sink.waited("a") == 0
