"""FileHistory: has the files of a workspace recorded around the calls that may change them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial

import anyio.to_thread

from vibe.core.config.tool_names import canonical_tool_name
from vibe.core.messages import ToolCall, UserMessage
from vibe.core.middleware.port import HOST_NOTICE, Middleware, Notice, TurnContext, Verdict, Warn
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Snapshots


class FileHistory(Middleware):
    """One snapshot before the first changing call of a prompt, and one after every turn with such calls.

    ``snapshots`` gives those of the session as it is now: a summarised conversation goes on in another. ``harmless``
    are the tools that change nothing: turns with no other cost nothing. Where files can't be recorded, that is said
    once and the work goes on. The model is asked on while a turn is recorded: nothing of ours changes a file meanwhile.
    """

    def __init__(self, snapshots: Callable[[], Snapshots], harmless: Iterable[str]) -> None:
        self._snapshots = snapshots
        self._harmless = frozenset(harmless)
        self._recorded_prompt: UserMessage | None = None
        self._may_have_changed = False
        self._off = False
        self._recording: Future[str] | None = None

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> Sequence[Warn]:
        """Record the files as a person left them, before the first call of their prompt that may change some."""
        if self._off or all(canonical_tool_name(call.name) in self._harmless for call in calls):
            return ()
        warnings = await self._recorded()
        self._may_have_changed = True
        place = _last_prompt(context)
        if self._off or place is None or context.transcript.messages[place] is self._recorded_prompt:
            return warnings
        warnings = await self._take(partial(self._snapshots().take, place, found=True))
        prompt = context.transcript.messages[place]
        self._recorded_prompt = prompt if isinstance(prompt, UserMessage) else None
        return warnings

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Record what the calls came to."""
        warnings = await self._recorded()
        if not self._off and self._may_have_changed:
            self._may_have_changed = False
            self._recording = _begun(partial(self._snapshots().take, len(context.transcript.messages)))
        return warnings

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Have it recorded what the last calls came to."""
        return await self._recorded()

    async def _recorded(self) -> Sequence[Warn]:
        """Until nothing is being recorded any more."""
        recording, self._recording = self._recording, None
        return () if recording is None else await self._take(recording.result)

    async def _take(self, record: Callable[[], str]) -> Sequence[Warn]:
        try:
            await anyio.to_thread.run_sync(record)
        except SnapshotError as error:
            self._off = True
            return (Warn(code="snapshot.off", message=str(error)),)
        return ()


def _begun(record: Callable[[], str]) -> Future[str]:
    """What a thread of its own comes to, which ends by itself, if need be before the process does."""
    recording: Future[str] = Future()

    def run() -> None:
        try:
            recording.set_result(record())
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            recording.set_exception(error)

    threading.Thread(target=run, name="file history").start()
    return recording


def _last_prompt(context: TurnContext) -> int | None:
    """Return where the last prompt stands that is no notice of ours."""
    messages = context.transcript.messages
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE):
            return index
    return 0 if messages else None
