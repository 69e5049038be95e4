"""EventCloser: knows what a step's events began and did not end, and ends it when the step's process is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import structs

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
    RequestWithdrawnEvent,
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


_OPENS: dict[type, tuple[str, str]] = {
    ApprovalRequestEvent: ("approval", "request_id"),
    QuestionEvent: ("question", "request_id"),
    ToolCallEvent: ("call", "tool_call_id"),
    ModelStartedEvent: ("model", "message_id"),
    BackgroundStartedEvent: ("background", "handle"),
}
"""Events that begin something, by what and the field that names it; such things are ended in this order."""
_ENDS: dict[type, tuple[str, str]] = {
    ApprovalDecisionEvent: ("approval", "request_id"),
    AnswerEvent: ("question", "request_id"),
    ToolResultEvent: ("call", "tool_call_id"),
    ModelEndedEvent: ("model", "message_id"),
    BackgroundEndedEvent: ("background", "handle"),
}
"""Events that end it."""


class EventCloser:
    """Hands events on and remembers the subagents, and what they began, that are open."""

    def __init__(self, sink: EventSink, clock: Callable[[], float] = time.monotonic) -> None:
        self.agent_id: str | None = None
        """The step's own agent; None: it has not announced itself yet."""
        self._sink = sink
        self._clock = clock
        self._agents: dict[str, _Agent] = {}
        self._open: dict[str, dict[tuple[str | None, str], Event]] = {what: {} for what, _ in _OPENS.values()}

    def publish(self, event: Event) -> None:
        """Note what it begins or ends, and hand it on."""
        begun, ended = _OPENS.get(type(event)), _ENDS.get(type(event))
        if begun is not None:
            what, name = begun
            self._open[what][event.subagent_id, getattr(event, name)] = event
        elif ended is not None:
            what, name = ended
            self._open[what].pop((event.subagent_id, getattr(event, name)), None)
        else:
            self._note_agent(event)
        self._sink.publish(event)

    def _note_agent(self, event: Event) -> None:
        match event:
            case RequestWithdrawnEvent():
                self._open.get(event.kind, {}).pop((event.subagent_id, event.request_id), None)
            case SubAgentStartedEvent(subagent_id=str(agent_id)):
                self._agents[agent_id] = _Agent(event.subagent_step_id, self._clock())
                self.agent_id = agent_id if event.parent_id is None else self.agent_id
            case UsageEvent(subagent_id=str(agent_id)) if agent_id in self._agents:
                self._agents[agent_id].count(event)
            case SubAgentFinishedEvent(subagent_id=str(agent_id)):
                self._agents.pop(agent_id, None)
            case _:
                pass

    def close_open(self, outcome: str, reason: str, detail: str) -> None:
        """End what is open, innermost first; ``detail`` says for people why."""
        for begun in [event for opened in self._open.values() for event in opened.values()]:
            self.publish(_of(begun, _end_of(begun, detail)))
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


def _end_of(begun: Event, detail: str) -> Event:
    """The end of what nobody ends any more."""
    match begun:
        case ApprovalRequestEvent():
            return ApprovalDecisionEvent(request_id=begun.request_id, decision="deny", reason=detail)
        case QuestionEvent():
            return AnswerEvent(request_id=begun.request_id, cancelled=True)
        case ToolCallEvent():
            return ToolResultEvent(tool_call_id=begun.tool_call_id, tool=begun.tool, status="cancelled", content=detail)
        case ModelStartedEvent():
            return ModelEndedEvent(message_id=begun.message_id, model=begun.model, status="cancelled")
        case BackgroundStartedEvent():
            return BackgroundEndedEvent(handle=begun.handle, command=begun.command, status="stopped")
        case _:
            raise TypeError(f"{type(begun).__name__} begins nothing")


def _of(begun: Event, ended: Event) -> Event:
    """Return the end of what an event began, of the same agent."""
    return structs.replace(ended, subagent_id=begun.subagent_id, subagent_step_id=begun.subagent_step_id)
