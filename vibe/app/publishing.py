"""Publishing: the one root sink of a process run, over its bus and whoever listens in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import anyio.to_thread

from ipc.bus import EventBus, event_bus
from ipc.registry import RunInfo
from ipc.sink import EventSink, FanOutSink, StampingSink, TaggingSink
from vibe.app.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """``sink`` takes the run's events; ``source`` is what subscribers know the run by."""

    sink: EventSink
    bus: EventBus
    source: str
    session_id: str

    async def about(self, workspace: Path, title: str, *, plan_id: str | None = None) -> Publishing:
        """The same run, announced as what it turned out to be; its events carry the plan's id."""
        info = RunInfo(cwd=str(workspace), title=title, plan_id=plan_id, session_id=self.session_id)
        await anyio.to_thread.run_sync(self.bus.announce, info)
        return replace(self, sink=TaggingSink(self.sink, plan_id=plan_id))


@asynccontextmanager
async def publishing(
    host: Host, listeners: Sequence[EventSink], *, address: str | None = None
) -> AsyncGenerator[Publishing]:
    """Open the bus for one run; it closes, with all that was published on disk, when the block ends.

    Raises:
        ipc.errors.BusUnavailableError: pynng can't be loaded, or the address can't be bound.
    """
    source = session_id = uuid4().hex
    info = RunInfo(cwd="", session_id=session_id)
    async with event_bus(
        host.home, source=source, info=info, address=address or None, runtime_dir=host.runtime_dir
    ) as bus:
        root = StampingSink(source, FanOutSink([bus, *listeners]))
        sink = TaggingSink(root, session_id=session_id)
        yield Publishing(sink=sink, bus=bus, source=source, session_id=session_id)
