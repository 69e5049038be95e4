from __future__ import annotations

from typing import Any

from ipc.events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    BackgroundEndedEvent,
    BackgroundStartedEvent,
    Event,
    ModelEndedEvent,
    ModelStartedEvent,
    QuestionEvent,
    SubAgentFinishedEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from ipc.sink import MemorySink, TaggingSink
from subagents.process.executor import EventCloser
from tests.fakes.clock import ManualClock


def started(parent_id: str | None = None) -> SubAgentStartedEvent:
    return SubAgentStartedEvent(
        title="t", mode="code", model="m", tools=(), max_tokens=1, max_turns=1, parent_id=parent_id
    )


def finished() -> SubAgentFinishedEvent:
    return SubAgentFinishedEvent(outcome="completed", reason=None, tokens=0, turns=0, duration_s=0.0)


def test_what_was_begun_and_not_ended_is_ended_by_whom_it_was_begun() -> None:
    seen, clock = MemorySink(), ManualClock()
    ends = EventCloser(seen, clock)
    outer = TaggingSink(ends, subagent_id="outer", subagent_step_id="s")
    inner = TaggingSink(ends, subagent_id="inner", subagent_step_id="s")
    outer.publish(started())
    inner.publish(started(parent_id="outer"))
    inner.publish(UsageEvent(model="m", prompt_tokens=10, completion_tokens=5, cost_usd=0.5))
    outer.publish(UsageEvent(model="m", prompt_tokens=1, completion_tokens=1, cost_usd=None))
    inner.publish(ToolCallEvent(tool_call_id="c", tool="bash", arguments={}))
    inner.publish(ApprovalRequestEvent(request_id="r", tool_call_id="c", tool="bash", arguments={}, rule=""))
    inner.publish(QuestionEvent(request_id="q", questions=()))
    inner.publish(ModelStartedEvent(message_id="m1", model="m"))
    inner.publish(ModelEndedEvent(message_id="m1", model="m"))
    inner.publish(ModelStartedEvent(message_id="m2", model="m"))
    inner.publish(BackgroundStartedEvent(handle="bg1", command="serve"))
    outer.publish(BackgroundStartedEvent(handle="bg1", command="watch"))
    outer.publish(BackgroundEndedEvent(handle="bg1", command="watch", status="exited", exit_code=0))
    clock.advance(2.0)
    begun = len(seen.events)

    ends.close_open("failed", "crashed", "gone")

    def of(agent: str) -> dict[str, Any]:
        return {"subagent_id": agent, "subagent_step_id": "s"}

    gone: dict[str, Any] = {"outcome": "failed", "reason": "crashed", "duration_s": 2.0}
    assert seen.events[begun:] == [
        ApprovalDecisionEvent(request_id="r", decision="deny", reason="gone", **of("inner")),
        AnswerEvent(request_id="q", cancelled=True, **of("inner")),
        ToolResultEvent(tool_call_id="c", tool="bash", status="cancelled", content="gone", **of("inner")),
        ModelEndedEvent(message_id="m2", model="m", status="cancelled", **of("inner")),
        BackgroundEndedEvent(handle="bg1", command="serve", status="stopped", **of("inner")),
        SubAgentFinishedEvent(tokens=15, turns=1, cost_usd=0.5, **gone, **of("inner")),
        SubAgentFinishedEvent(tokens=2, turns=1, cost_usd=None, **gone, **of("outer")),
    ]


def test_what_has_ended_is_not_ended_again() -> None:
    seen = MemorySink()
    ends = EventCloser(seen)
    sink = TaggingSink(ends, subagent_id="a", subagent_step_id="s")
    events: list[Event] = [
        started(),
        ToolCallEvent(tool_call_id="c", tool="bash", arguments={}),
        ApprovalRequestEvent(request_id="r", tool_call_id="c", tool="bash", arguments={}, rule=""),
        ApprovalDecisionEvent(request_id="r", decision="allow"),
        ToolResultEvent(tool_call_id="c", tool="bash", status="ok", content=""),
        QuestionEvent(request_id="q", questions=()),
        AnswerEvent(request_id="q"),
        finished(),
    ]
    for event in events:
        sink.publish(event)

    ends.close_open("failed", "crashed", "gone")
    ends.close_open("failed", "crashed", "gone")

    assert len(seen.events) == len(events)
