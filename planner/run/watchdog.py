"""Watchdog measures how long each running step has been silent; Timers makes the delayed calls of a run."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
from msgspec import Struct, field

from ipc import events as e
from ipc.sink import EventSink
from subagents.step.command_runner import TOOL_NAME
from vibe.core.budget import WAITING
from vibe.core.llm.announcing import WAIT
from vibe.core.session.write_turn import WAITS as WRITE_WAIT

Clock = Callable[[], float]

Sleep = Callable[[float], Awaitable[None]]

Call = Callable[[], object]


def _since_boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def steady_time(wall: Clock = time.time, steady: Clock = _since_boot) -> Clock:
    """Return a clock in unix seconds that starts now and is never set: differences are the time that has passed."""
    offset = wall() - steady()
    return lambda: offset + steady()


class Timers(Struct, eq=False):
    """Makes calls when they are due, all from the task that awaits ``run``, in the order of their times.

    The task sleeps until the earliest call is due and is woken only by a new, earlier one. Times are in seconds.
    """

    _clock: Clock = time.monotonic
    _sleep: Sleep = anyio.sleep
    _heap: list[tuple[float, int, Call]] = field(default_factory=list["tuple[float, int, Call]"])
    _order: Iterator[int] = field(default_factory=itertools.count)
    _nap: anyio.CancelScope | None = None
    _nap_ends: float = math.inf
    _stopped: bool = False

    def after(self, seconds: float, call: Call) -> None:
        """Have ``call`` made after so many seconds."""
        due = self._clock() + seconds
        heapq.heappush(self._heap, (due, next(self._order), call))
        if due < self._nap_ends:
            self._wake()

    def stop(self) -> None:
        """End ``run``; calls that are not due by then are never made."""
        self._stopped = True
        self._wake()

    async def run(self) -> None:
        """Make the calls until ``stop``."""
        while not self._stopped:
            while self._heap and self._heap[0][0] <= self._clock():
                heapq.heappop(self._heap)[-1]()
                if self._stopped:
                    return
            self._nap_ends = self._heap[0][0] if self._heap else math.inf
            with anyio.CancelScope() as self._nap:
                if self._heap:
                    await self._sleep(max(0.0, self._nap_ends - self._clock()))
                else:
                    await anyio.sleep_forever()
            self._nap = None

    def _wake(self) -> None:
        if self._nap is not None:
            self._nap.cancel()


PLACE = "place of "
"""The prefix, before a step's id, that stands for an agent while the step waits for a worker."""
WAITS = frozenset({WAITING, WAIT, WRITE_WAIT})
"""Codes of warnings that an agent waits; it does until its next event."""


class Watchdog(Struct, eq=False):
    """An event sink that passes events on and records the time of the last one of each step.

    Executors are given this sink in place of the one it wraps. An event counts for the step in its
    ``subagent_step_id``. A step's clock stands still while a request of it (approval or question) is open, while one of
    its agents waits for room in the budget, for its turn at the provider or to repeat a call, while it waits for a
    worker, and while a check runs, which has its own time limit. Only model-driven steps are watched: a command may
    print nothing for long, and has ``timeout_seconds``.
    """

    _sink: EventSink
    _clock: Clock = time.monotonic
    _last: dict[str, float] = field(default_factory=dict[str, float])
    _requests: dict[str, tuple[str, bool]] = field(default_factory=dict[str, "tuple[str, bool]"])
    """Open requests and checks by id, each with its step, and True if a person is asked."""
    _waiting: dict[str | None, str] = field(default_factory=dict["str | None", str])
    """The step of each agent that waits, by the agent's id."""
    _agents: dict[str, str] = field(default_factory=dict[str, str])
    """The agent of each watched step, by the step's id."""
    _waited: dict[str, float] = field(default_factory=dict[str, float])
    """The seconds that each watched step has waited for a person."""
    _counted: float = 0.0

    def publish(self, event: e.Event) -> None:
        """Record the event for its step, and pass it on."""
        self._count_waits()
        step_id = event.subagent_step_id
        self._waiting.pop(event.subagent_id, None)
        self._note_place(event)
        match event:
            case e.ApprovalRequestEvent(request_id=request_id) | e.QuestionEvent(request_id=request_id):
                if step_id in self._last:
                    self._requests[request_id] = step_id, True
            case e.ToolCallEvent(tool=tool, tool_call_id=call_id) if tool == TOOL_NAME and step_id in self._last:
                self._requests[call_id] = step_id, False
            case e.ToolResultEvent(tool_call_id=call_id):
                self._requests.pop(call_id, None)
            case (
                e.ApprovalDecisionEvent(request_id=request_id)
                | e.AnswerEvent(request_id=request_id)
                | e.RequestWithdrawnEvent(request_id=request_id)
            ):
                step_id, _ = self._requests.pop(request_id, (step_id, True))
            case e.WarningEvent(code=code) if code in WAITS and step_id in self._last:
                self._waiting[event.subagent_id] = step_id
            case e.WarningEvent(wait_seconds=float() | int() as seconds) if step_id in self._last:
                self._last[step_id] = max(self._last[step_id], self._clock() + seconds)
            case e.SubAgentStartedEvent(parent_id=None, subagent_id=str(agent_id)) if step_id in self._last:
                self._agents[step_id] = agent_id
            case _:
                pass
        if step_id in self._last:
            self._last[step_id] = max(self._last[step_id], self._clock())
        self._sink.publish(event)

    def _note_place(self, event: e.Event) -> None:
        """Record that a step waits for a worker, or no longer does."""
        if isinstance(event, e.PlanWaitingEvent) and event.waits_for == "worker" and event.step_id in self._last:
            self._waiting[f"{PLACE}{event.step_id}"] = event.step_id
        elif isinstance(event, e.PlacementEvent):
            self._waiting.pop(f"{PLACE}{event.subagent_step_id}", None)

    def begin(self, step_id: str) -> None:
        """Watch a step from now on."""
        self._last[step_id] = self._clock()
        self._waited[step_id] = 0.0

    def end(self, step_id: str) -> None:
        """Stop watching a step."""
        self._last.pop(step_id, None)
        self._agents.pop(step_id, None)
        self._waited.pop(step_id, None)
        self._requests = {request: found for request, found in self._requests.items() if found[0] != step_id}
        self._waiting = {agent: step for agent, step in self._waiting.items() if step != step_id}

    def agent_of(self, step_id: str) -> str | None:
        """Return the agent of a watched step, once it has announced itself."""
        return self._agents.get(step_id)

    def waited(self, step_id: str) -> float:
        """Return the seconds that a step has waited for a person while watched; 0 if it is not watched."""
        self._count_waits()
        return self._waited.get(step_id, 0.0)

    def _count_waits(self) -> None:
        now = self._clock()
        for step_id in {step_id for step_id, is_person in self._requests.values() if is_person}:
            self._waited[step_id] += now - self._counted
        self._counted = now

    def idle_seconds(self, step_id: str) -> float:
        """Return the seconds since the last event of a watched step; 0 while its clock stands still."""
        if any(step == step_id for step, _ in self._requests.values()) or step_id in self._waiting.values():
            return 0.0
        return max(0.0, self._clock() - self._last[step_id])
