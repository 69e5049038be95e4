"""EventCloser: knows what a step's events began and did not end, and ends it when the step's process is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import structs

from ipc.events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    QuestionEvent,
    SubAgentFinishedEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from ipc.sink import EventSink


class _Agent:
    """A subagent that works."""

    def __init__(self, step_id: str | None, started: float) -> None:
        self.step_id = step_id
        self.started = started
        self.tokens = 0
        self.turns = 0
        self.cost_usd: float | None = 0.0

    def count(self, usage: UsageEvent) -> None:
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.turns += 1
        self.cost_usd = None if self.cost_usd is None or usage.cost_usd is None else self.cost_usd + usage.cost_usd


class EventCloser:
    """Hands events on and remembers the subagents, calls and requests among them that are open."""

    def __init__(self, sink: EventSink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._clock = clock
        self._agents: dict[str, _Agent] = {}
        self._calls: dict[str, ToolCallEvent] = {}
        self._approvals: dict[str, ApprovalRequestEvent] = {}
        self._questions: dict[str, QuestionEvent] = {}

    def publish(self, event: Event) -> None:
        """Note what it begins or ends, and hand it on."""
        match event:
            case SubAgentStartedEvent(subagent_id=str(agent_id)):
                self._agents[agent_id] = _Agent(event.subagent_step_id, self._clock())
            case UsageEvent(subagent_id=str(agent_id)) if agent_id in self._agents:
                self._agents[agent_id].count(event)
            case SubAgentFinishedEvent(subagent_id=str(agent_id)):
                self._agents.pop(agent_id, None)
            case ToolCallEvent():
                self._calls[event.tool_call_id] = event
            case ToolResultEvent():
                self._calls.pop(event.tool_call_id, None)
            case ApprovalRequestEvent():
                self._approvals[event.request_id] = event
            case ApprovalDecisionEvent():
                self._approvals.pop(event.request_id, None)
            case QuestionEvent():
                self._questions[event.request_id] = event
            case AnswerEvent():
                self._questions.pop(event.request_id, None)
            case _:
                pass
        self._sink.publish(event)

    def close_open(self, outcome: str, reason: str, detail: str) -> None:
        """End what is open, innermost first; ``detail`` says for people why."""
        for asked in list(self._approvals.values()):
            self.publish(_of(asked, ApprovalDecisionEvent(request_id=asked.request_id, decision="deny", reason=detail)))
        for question in list(self._questions.values()):
            self.publish(_of(question, AnswerEvent(request_id=question.request_id, cancelled=True)))
        for call in list(self._calls.values()):
            ended = ToolResultEvent(tool_call_id=call.tool_call_id, tool=call.tool, status="cancelled", content=detail)
            self.publish(_of(call, ended))
        for agent_id, agent in reversed(list(self._agents.items())):
            self.publish(
                SubAgentFinishedEvent(
                    subagent_id=agent_id,
                    subagent_step_id=agent.step_id,
                    outcome=outcome,
                    reason=reason,
                    tokens=agent.tokens,
                    turns=agent.turns,
                    duration_s=self._clock() - agent.started,
                    cost_usd=agent.cost_usd,
                )
            )


def _of(begun: Event, ended: Event) -> Event:
    """Return the end of what an event began, of the same agent."""
    return structs.replace(ended, subagent_id=begun.subagent_id, subagent_step_id=begun.subagent_step_id)
