"""FileHistory: has the files of a workspace recorded around the calls that may change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from anyio import CancelScope, Event, to_thread
from anyio.abc import TaskGroup

from vibe.core.config.tool_names import canonical_tool_name
from vibe.core.messages import Message, ToolCall, UserMessage
from vibe.core.middleware.port import HOST_NOTICE, Middleware, Notice, TurnContext, Verdict, Warn
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Snapshots


class FileHistory(Middleware):
    """One snapshot before the first changing call of a prompt, and one after every turn with such calls.

    ``snapshots`` gives those of the session as it is now: a summarised conversation goes on in another. ``harmless``
    are the tools that change nothing: turns with no other cost nothing, and of those with others no more is recorded
    where their calls are known to have changed nothing. Where files can't be recorded, that is said once and the work
    goes on; a file that can't be read is left out and named. The model is asked on while a turn is recorded: nothing of
    ours changes a file meanwhile. However the work ends, all that its calls changed by then is recorded.
    """

    def __init__(self, snapshots: Callable[[], Snapshots], harmless: Iterable[str]) -> None:
        self._snapshots = snapshots
        self._harmless = frozenset(harmless)
        self._recorded_prompt: UserMessage | None = None
        self._messages: list[Message] | None = None
        self._seen = (0, 0)
        """The number of messages that were looked at for prompts, and the place of the last one."""
        self._may_have_changed = False
        self._calls: frozenset[str] = frozenset()
        """The ids of this turn's calls that may change files."""
        self._off = False
        self._recording: _Recording | None = None
        self._tasks: TaskGroup

    def before_run(self, tasks: TaskGroup) -> None:
        """Have somewhere to record a turn while the model is asked."""
        self._tasks = tasks

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> Sequence[Warn]:
        """Record the files as a person left them, before the first call of their prompt that may change some."""
        changing = frozenset(call.id for call in calls if canonical_tool_name(call.name) not in self._harmless)
        if self._off or not changing:
            return ()
        warnings = await self._recorded()
        place = self._last_prompt(context.transcript.messages)
        if not self._off and place is not None and context.transcript.messages[place] is not self._recorded_prompt:
            taken = to_thread.run_sync(partial(self._snapshots().take, place, found=True))
            warnings = (*warnings, *await self._said(taken))
            prompt = context.transcript.messages[place]
            self._recorded_prompt = prompt if isinstance(prompt, UserMessage) else None
        self._may_have_changed |= bool(self._calls)  # of a turn after which nobody asked
        self._calls = changing  # not before: what a person changed until then would pass for the agent's
        return warnings

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Record what the calls came to."""
        warnings = await self._recorded()
        may_have_changed = self._may_have_changed or not self._calls <= context.only_read
        self._may_have_changed, self._calls = False, frozenset()
        if may_have_changed and not self._off:
            self._recording = _Recording(self._turn(context))
            self._tasks.start_soon(self._recording.run)
        return warnings

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002  the port's
        """Have it recorded what the last calls came to."""
        return await self._recorded()

    async def after_run(self, context: TurnContext) -> Sequence[Warn]:
        """Have it recorded what was not, since the work ended within a turn."""
        warnings = await self._recorded()
        if self._off or not (self._may_have_changed or self._calls):
            return warnings
        self._may_have_changed, self._calls = False, frozenset()
        return (*warnings, *await self._said(to_thread.run_sync(self._turn(context))))

    def _last_prompt(self, messages: list[Message]) -> int | None:
        """Return where the last prompt stands that is no notice of ours, in a list that only grows."""
        seen, place = self._seen if messages is self._messages else (0, 0)
        for index in range(len(messages) - 1, seen - 1, -1):
            message = messages[index]
            if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE):
                place = index
                break
        self._messages, self._seen = messages, (len(messages), place)
        return place if messages else None

    def _turn(self, context: TurnContext) -> Callable[[], None]:
        return partial(self._snapshots().take, len(context.transcript.messages))

    async def _recorded(self) -> Sequence[Warn]:
        """Wait until nothing is being recorded any more."""
        if self._recording is None:
            return ()
        warnings = await self._said(self._recording.wait())
        self._recording = None
        return warnings

    async def _said(self, recorded: Awaitable[object]) -> Sequence[Warn]:
        try:
            await recorded
        except SnapshotError as error:
            self._off = True
            await to_thread.run_sync(self._snapshots().lose, len(self._messages or ()), str(error))
            return (Warn(code="snapshot.off", message=str(error)),)
        unread = self._snapshots().unread()
        return (Warn(code="snapshot.left_out", message=unread),) if unread else ()


class _Recording:
    """A snapshot that is taken while something else is done; it is taken to its end."""

    def __init__(self, record: Callable[[], None]) -> None:
        self._record = record
        self._ended = Event()
        self._failure: Exception | None = None

    async def run(self) -> None:
        with CancelScope(shield=True):
            try:
                await to_thread.run_sync(self._record)
            except Exception as error:  # noqa: BLE001  raised where it is waited for
                self._failure = error
            self._ended.set()

    async def wait(self) -> None:
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure
