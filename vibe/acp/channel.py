"""SessionChannel: what an editor is told of one session, in order, as fast as it takes it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from acp import Client, schema
from anyio import Event
from pydantic import ValidationError

from ipc.events import Event as VibeEvent
from vibe.acp.updates import SessionUpdate, SessionUpdates
from vibe.system.plain_text import plain_line

logger = logging.getLogger(__name__)


class SessionChannel:
    """The way to the editor for one session, which works in ``root``; an ``EventSink``.

    ``updates`` makes what is told of events. It is sent once ``run`` is running. What the editor is too slow for is put
    together: text, output, states. ``stop`` is called when the person stops the work instead of answering a question.
    """

    def __init__(self, client: Client, root: Path, stop: Callable[[], object]) -> None:
        self.client = client
        self.root = root
        self.stop = stop
        self.session_id = ""
        self.updates = SessionUpdates(root)
        self._waiting = deque[SessionUpdate]()
        self._news, self._rest = Event(), Event()
        self._rest.set()
        self._is_over = False

    def publish(self, event: VibeEvent) -> None:
        """Tell the editor of an event."""
        self.put(*self.updates.of(event))

    def put(self, *updates: SessionUpdate) -> None:
        """Have updates sent; after the end of ``run`` they are dropped."""
        for update in () if self._is_over else updates:
            merged = _merged(self._waiting[-1], update) if self._waiting else None
            if merged is not None:
                self._waiting[-1] = merged
                continue
            if self._rest.is_set():
                self._rest = Event()
            self._waiting.append(update)
            self._news.set()

    async def flush(self) -> None:
        """Wait until all that was put is sent."""
        await self._rest.wait()

    async def run(self) -> None:
        """Send until this is cancelled; an update that can't be sent is logged, and the next one sent."""
        try:
            while True:
                await self._news.wait()
                self._news = Event()
                while self._waiting:
                    await self._send(self._waiting.popleft())
                self._rest.set()
        except ConnectionError:
            return  # the server learns of it, too
        finally:
            self._is_over = True
            self._waiting.clear()
            self._rest.set()

    async def _send(self, update: SessionUpdate) -> None:
        try:
            await self.client.session_update(self.session_id, update)
        except ValueError:
            logger.exception("an update can't be sent: %s", update.session_update)


def reason_of(error: Exception) -> str:
    """Return why an editor did not do what it was asked for, on one line."""
    problem = "its answer does not fit the protocol" if isinstance(error, ValidationError) else str(error)
    return plain_line(problem) or "it gave no reason"


def _merged(last: SessionUpdate, update: SessionUpdate) -> SessionUpdate | None:
    """Return one update in place of two; None: each counts."""
    match last, update:
        case (schema.AgentPlanUpdate(), schema.AgentPlanUpdate()) | (schema.UsageUpdate(), schema.UsageUpdate()):
            return update
        case schema.ToolCallProgress(), schema.ToolCallProgress() if last.tool_call_id == update.tool_call_id:
            given = {name: getattr(update, name) for name in update.model_fields_set}
            return last.model_copy(update={name: value for name, value in given.items() if value is not None})
        case schema.AgentMessageChunk(), schema.AgentMessageChunk():
            return _joined(last, update)
        case schema.AgentThoughtChunk(), schema.AgentThoughtChunk():
            return _joined(last, update)
        case _:
            return None


C = TypeVar("C", schema.AgentMessageChunk, schema.AgentThoughtChunk)


def _joined(last: C, update: C) -> C | None:
    match last.content, update.content:
        case schema.TextContentBlock(text=begun), schema.TextContentBlock(text=more):
            joined = schema.TextContentBlock(type="text", text=begun + more)
            return last.model_copy(update={"content": joined}) if last.message_id == update.message_id else None
        case _:
            return None
