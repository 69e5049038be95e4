"""A run of a plan on a real bus in this process, whose events a test chooses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from ipc import events as e
from ipc.bus import EventBus, event_bus
from ipc.commands import Reply, RunCommand
from ipc.control import control_server
from ipc.registry import RunInfo
from ipc.sink import StampingSink, TaggingSink

ASKED = e.ApprovalRequestEvent(
    request_id="request-1", tool_call_id="1", tool="bash", arguments={"command": "make"}, rule="ask", confined=False
)
STEPS = tuple(e.StepOutline(id=name, title=name, mode="code") for name in ("a", "b"))


class Run:
    """Publishes the events of a plan. ``taken`` records the commands it received."""

    def __init__(self, bus: EventBus, plan_id: str) -> None:
        self.bus = bus
        self.entry = bus.entry
        self.taken: list[RunCommand] = []
        self.reply = Reply(ok=True, message="done")
        self._sink = TaggingSink(StampingSink(bus.entry.source, bus), plan_id=plan_id)

    def says(self, *events: e.Event) -> None:
        for event in events:
            self._sink.publish(event)

    def agent_says(self, step_id: str, *events: e.Event) -> None:
        """Publish events as the agent of a step."""
        sink = TaggingSink(self._sink, subagent_id=step_id, subagent_step_id=step_id)
        for event in events:
            sink.publish(event)

    def begins(self) -> None:
        """Start a plan of two steps."""
        self.says(e.PlanStartedEvent(goal="Tidy up", steps=STEPS))

    def moves(self, step_id: str, status: str, previous: str = "pending") -> None:
        self.says(e.PlanStepUpdateEvent(step_id=step_id, title=step_id, status=status, previous=previous))

    async def serve(self, command: RunCommand) -> Reply:
        self.taken.append(command)
        return self.reply


@asynccontextmanager
async def running(home: Path, source: str = "one", plan_id: str = "plan-1") -> AsyncGenerator[Run]:
    info = RunInfo(cwd="/work", title="a title", plan_id=plan_id or None)
    async with event_bus(partial(EventBus, home, source=source, info=info)) as bus:
        run = Run(bus, plan_id)
        async with control_server(bus.entry, run.serve):
            yield run
