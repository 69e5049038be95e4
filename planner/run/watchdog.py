"""ActivitySink: knows for how long a step has been silent, by watching its events pass."""

from __future__ import annotations

import time
from collections.abc import Callable

from ipc.events import (
    AnswerEvent,
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    QuestionEvent,
    RequestWithdrawnEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    WarningEvent,
)
from ipc.sink import EventSink
from subagents.step.command_runner import TOOL_NAME
from vibe.core.budget import WAITING
from vibe.core.llm.announcing import WAIT
from vibe.core.session.write_turn import WAITS as WRITE_WAIT

WAITS = frozenset({WAITING, WAIT, WRITE_WAIT})
"""Codes of the warnings that an agent waits, until its next event."""


class ActivitySink:
    """Hands events on and remembers, per step, when the last one came.

    Give executors this sink in place of the one it wraps: events count for the step in ``subagent_step_id``. While a
    request (approval or question) of a step is open its clock stands still: a person is thinking, not the step. So it
    does while an agent of the step waits for room in the budget, for its turn at the provider or to repeat a call, and
    while a check runs, which has a time limit of its own. Only model-driven steps are watched: a command may rightly
    print nothing for long and has ``timeout_seconds``.
    """

    def __init__(self, sink: EventSink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._clock = clock
        self._last: dict[str, float] = {}
        self._requests: dict[str, str] = {}
        self._waiting: dict[str | None, str] = {}  # agents, and their steps
        self._agents: dict[str, str] = {}

    def publish(self, event: Event) -> None:
        """Note whose it is and hand it on."""
        step_id = event.subagent_step_id
        self._waiting.pop(event.subagent_id, None)
        match event:
            case ApprovalRequestEvent(request_id=request_id) | QuestionEvent(request_id=request_id):
                if step_id in self._last:
                    self._requests[request_id] = step_id
            case ToolCallEvent(tool=tool, tool_call_id=call_id) if tool == TOOL_NAME and step_id in self._last:
                self._requests[call_id] = step_id
            case ToolResultEvent(tool_call_id=call_id):
                self._requests.pop(call_id, None)
            case (
                ApprovalDecisionEvent(request_id=request_id)
                | AnswerEvent(request_id=request_id)
                | RequestWithdrawnEvent(request_id=request_id)
            ):
                step_id = self._requests.pop(request_id, step_id)
            case WarningEvent(code=code) if code in WAITS and step_id in self._last:
                self._waiting[event.subagent_id] = step_id
            case WarningEvent(wait_seconds=float() | int() as seconds) if step_id in self._last:
                self._last[step_id] = max(self._last[step_id], self._clock() + seconds)
            case SubAgentStartedEvent(parent_id=None, subagent_id=str(agent_id)) if step_id in self._last:
                self._agents[step_id] = agent_id
            case _:
                pass
        if step_id in self._last:
            self._last[step_id] = max(self._last[step_id], self._clock())
        self._sink.publish(event)

    def begin(self, step_id: str) -> None:
        """Watch a step from now on."""
        self._last[step_id] = self._clock()

    def end(self, step_id: str) -> None:
        """Watch it no longer."""
        self._last.pop(step_id, None)
        self._agents.pop(step_id, None)
        self._requests = {request: step for request, step in self._requests.items() if step != step_id}
        self._waiting = {agent: step for agent, step in self._waiting.items() if step != step_id}

    def agent_of(self, step_id: str) -> str | None:
        """The agent of a watched step, once it has announced itself."""
        return self._agents.get(step_id)

    def idle_seconds(self, step_id: str) -> float:
        """Seconds since the last event of a watched step; 0 while its clock stands still."""
        if step_id in self._requests.values() or step_id in self._waiting.values():
            return 0.0
        return max(0.0, self._clock() - self._last[step_id])
