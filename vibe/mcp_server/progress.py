"""CallProgress: what happens in a call, told to its client a few times a second at most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import Event as Signal
from anyio import create_task_group, sleep

from ipc.events import (
    ApprovalRequestEvent,
    Event,
    ModelStartedEvent,
    PlanStepUpdateEvent,
    SubAgentStartedEvent,
    ToolCallEvent,
)
from vibe.core.plain_text import plain_line, shortened
from vibe.mcp_server.tools import Caller

T = TypeVar("T")
BETWEEN_SECONDS = 0.25
LINE_LENGTH = 200


class CallProgress:
    """An EventSink that keeps the latest thing of note; what comes faster than it is told is skipped, but counted."""

    def __init__(self) -> None:
        self._count = 0
        self._latest = ""
        self._news = Signal()

    def publish(self, event: Event) -> None:
        """Hear of what happens."""
        line = _line(event)
        if line:
            self._count += 1
            self._latest = shortened(plain_line(line), LINE_LENGTH)
            self._news.set()

    async def tell(self, caller: Caller) -> None:
        """Tell the client, until this is cancelled."""
        while True:
            await self._news.wait()
            self._news = Signal()
            await caller.report(self._count, self._latest)
            await sleep(BETWEEN_SECONDS)


async def with_progress(progress: CallProgress, caller: Caller, work: Callable[[], Awaitable[T]]) -> T:
    """Do some work and tell the client how it goes; what it raises leaves as it is, in no group."""
    result: list[T] = []
    refused: Exception | None = None
    async with create_task_group() as beside:
        beside.start_soon(progress.tell, caller)
        try:
            result.append(await work())
        except Exception as error:  # noqa: BLE001  raised below, where the group can't wrap it
            refused = error
        beside.cancel_scope.cancel()
    if refused is not None:
        raise refused
    return result[0]


def _line(event: Event) -> str:
    """Return an event in a line; empty: of no note."""
    match event:
        case ToolCallEvent():
            return event.summary or event.tool
        case ModelStartedEvent():
            return f"{event.model} is at work"
        case SubAgentStartedEvent():
            return f"subagent {event.title}"
        case ApprovalRequestEvent():
            return f"waits for approval: {event.summary or event.tool}"
        case PlanStepUpdateEvent():
            return f"step {event.step_id}: {event.status}"
        case _:
            return ""
