"""FileHistory: takes snapshots of a workspace's files around the tool calls that may change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from anyio import CancelScope, Event, to_thread
from anyio.abc import TaskGroup

from vibe.core.messages import Message, ToolCall, UserMessage
from vibe.core.middleware.port import HOST_NOTICE, Middleware, Notice, TurnContext, Verdict, Warn
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Snapshots
from vibe.core.session.write_turn import WriteTurn


class FileHistory(Middleware):
    """Takes one snapshot before the first changing call of a prompt, and one after every call that may change files.

    ``snapshots`` returns those of the current session, since a summarised conversation may continue in another one.
    Snapshots are taken while this run holds its ``turn`` to write. Changes that others may have made before that are
    recorded first, so that they don't count as the agent's. Calls that change nothing cost nothing. If files can't be
    recorded, a warning says so once and the work goes on; a file that can't be read is left out and named. The next
    model call runs while a snapshot is taken: nothing of ours changes a file meanwhile. However the work ends,
    everything that its calls changed by then is recorded.
    """

    def __init__(self, snapshots: Callable[[], Snapshots], turn: WriteTurn) -> None:
        self._snapshots = snapshots
        self._turn = turn
        self._recorded_prompt: UserMessage | None = None
        self._messages: list[Message] | None = None
        self._searched = (0, 0)
        """The number of messages searched for prompts so far, and the index of the last prompt among them."""
        self._place = 0
        """The number of messages there will be once all calls of this turn are answered."""
        self._background_may_write = False
        """True if background commands may have changed files between turns."""
        self._off = False
        self._warnings: list[Warn] = []
        self._recorded: Event | None = None
        """Set once the snapshot after the last changing call is taken."""
        self._failure: Exception | None = None
        self._tasks: TaskGroup

    def before_run(self, tasks: TaskGroup) -> None:
        """Keep the task group in which snapshots are taken while the model is called."""
        self._tasks = tasks
        self._turn.before_write, self._turn.after_write = self.before_write, self.after_write

    async def before_tools(self, context: TurnContext, calls: Sequence[ToolCall]) -> Sequence[Warn]:
        """Remember the place of the calls in the conversation."""
        self._transcript = context.transcript
        self._place = len(context.transcript.messages) + len(calls)
        self._background_may_write |= any(call.name == "background" for call in calls)
        return self._take_warnings()

    async def before_write(self, others_wrote: bool) -> None:  # noqa: FBT001  the write turn's signature
        """Record the files as a person or other runs left them, before a call that may change some."""
        await self._all_recorded()
        messages = self._transcript.messages
        place = self._last_prompt(messages)
        prompt = None if place is None else messages[place]
        if prompt is not self._recorded_prompt:
            await self._take(place or 0, found=True)
            self._recorded_prompt = prompt if isinstance(prompt, UserMessage) else None
        elif others_wrote:
            await self._take(len(messages), found=True)

    def after_write(self, leave: Callable[[], Awaitable[None]]) -> None:
        """Start to record the files as the calls left them; give up the write turn after that."""
        self._recorded = Event()
        self._tasks.start_soon(self._record, self._place, leave, self._recorded)

    async def after_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002  the port's signature
        """Return the warnings that have not been given yet."""
        return self._take_warnings()

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002  the port's
        """Wait until the changes of the last calls are recorded."""
        await self._all_recorded()
        return self._take_warnings()

    async def after_run(self, context: TurnContext) -> Sequence[Warn]:
        """Record the remaining changes: those of a turn that was cut short and of background commands."""
        self._turn.before_write = self._turn.after_write = None
        await self._all_recorded()
        if self._background_may_write:
            self._background_may_write = False
            await self._take(len(context.transcript.messages))
        return self._take_warnings()

    def _last_prompt(self, messages: list[Message]) -> int | None:
        """Return the index of the last prompt that a person wrote, in a list that only grows."""
        searched, place = self._searched if messages is self._messages else (0, 0)
        for index in range(len(messages) - 1, searched - 1, -1):
            message = messages[index]
            if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE):
                place = index
                break
        self._messages, self._searched = messages, (len(messages), place)
        return place if messages else None

    async def _take(self, place: int, *, found: bool = False) -> None:
        """Take a snapshot; if that fails, warn and take no more."""
        if self._off:
            return
        try:
            await to_thread.run_sync(partial(self._snapshots().take, place, found=found))
        except SnapshotError as error:
            self._off = True
            await to_thread.run_sync(self._snapshots().lose, len(self._messages or ()), str(error))
            self._warnings.append(Warn(code="snapshot.off", message=str(error)))
            return
        unread = self._snapshots().unread()
        if unread:
            self._warnings.append(Warn(code="snapshot.left_out", message=unread))

    async def _record(self, place: int, leave: Callable[[], Awaitable[None]], recorded: Event) -> None:
        """Take a snapshot in the background, shielded from cancellation, then give up the write turn."""
        with CancelScope(shield=True):
            try:
                await self._take(place)
            except Exception as error:  # noqa: BLE001  _all_recorded raises it
                self._failure = error
            await leave()
            recorded.set()

    async def _all_recorded(self) -> None:
        """Wait for the snapshot that is being taken, and raise the error it ended with."""
        if self._recorded is not None:
            await self._recorded.wait()
        if self._failure is not None:
            raise self._failure

    def _take_warnings(self) -> Sequence[Warn]:
        """Return the warnings that have not been given yet, and forget them."""
        warnings, self._warnings = self._warnings, []
        return warnings
