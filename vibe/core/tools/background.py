"""Background commands: they run on while their agent works, and none of them outlives it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel

from ipc.events import BackgroundEndedEvent, BackgroundStartedEvent
from ipc.sink import EventSink
from vibe.core.tools.errors import ToolError
from vibe.shell.process.port import StartedCommand
from vibe.shell.process.screen import Screen

MOST_AT_ONCE = 8
KEPT_CHARACTERS = 16_000
"""So much of what nobody has read yet is kept: its end."""
TOLD_CHARACTERS = 2_000
"""So much of its output, the end, is told when it has ended."""
BATCH_SECONDS = 0.5
"""After the first new output: how long to wait for what comes right behind it."""


class BackgroundReport(BaseModel):
    """State of a background command, and the result of the tool that asks for it.

    ``exit_code`` None: it runs. ``output`` is what nobody has read yet, ``dropped`` how many characters before it are
    gone; ``output_files`` hold the whole of what is long. ``seconds`` since its start. ``lost`` says why nobody knows
    how it ended.
    """

    handle: str
    command: str
    exit_code: int | None
    output: str
    dropped: int
    seconds: float
    output_files: tuple[Path, ...] = ()
    lost: str = ""


async def _nothing() -> str:
    return ""


class _Command:
    """One command and who reads it."""

    def __init__(self, handle: str, running: StartedCommand, line: str, after: Callable[[], Awaitable[str]]) -> None:
        self.handle = handle
        self.running = running
        self.line = line
        self.after = after
        self.started = time.monotonic()
        self.duration: float | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.news = anyio.Event()
        self.unread = ""
        self.dropped = 0
        self.screen = Screen()
        self.last = ""
        self.last_screen = Screen()
        self.status = "stopped"

    async def read(self) -> None:
        """Read until it ends or its scope is cancelled; then it has ended, whatever came."""
        try:
            with self.scope:
                while (pieces := await self.running.next_output()) is not None:
                    self._take("".join(map(str, pieces)))
                self.status = "exited"
        finally:
            await self.running.stop()
            left = self.running.result().left_running
            self._take("\n".join(filter(None, (left and f"[{left}]", await self.after()))))
            self.last = (self.last + self.last_screen.flush())[-TOLD_CHARACTERS:]
            self.duration = time.monotonic() - self.started
            self.ended.set()
            self.news.set()

    def _take(self, text: str) -> None:
        if not text:
            return
        self.last = (self.last + self.last_screen.feed(text))[-TOLD_CHARACTERS:]
        self.keep(self.screen.feed(text))
        self.news.set()

    def keep(self, text: str) -> None:
        """Keep it, or its end, until it is read."""
        self.unread += text
        surplus = len(self.unread) - KEPT_CHARACTERS
        if surplus > 0:
            self.unread = self.unread[surplus:]
            self.dropped += surplus


class BackgroundCommands:
    """The background commands of one agent, by handle."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._commands: dict[str, _Command] = {}
        self.in_front = set[anyio.Event]()
        """One for each command that the agent waits for; it is set where the command is to be adopted instead."""
        self._sink: EventSink | None = None
        self._masked: Callable[[str], str] = str

    def announce(self, sink: EventSink, masked: Callable[[str], str]) -> None:
        """Have ``sink`` told from now on what starts and ends, ``masked``."""
        self._sink, self._masked = sink, masked

    def send_back(self) -> bool:
        """Have the commands that the agent waits for run on in the background; False: it waits for none."""
        for wish in self.in_front:
            wish.set()
        return bool(self.in_front)

    def check_room(self) -> None:
        """See that one more may start.

        Raises:
            ToolError: too many run already.
        """
        active = [handle for handle, command in self._commands.items() if not command.ended.is_set()]
        if len(active) >= MOST_AT_ONCE:
            raise ToolError(
                f"{len(active)} background commands are running, the limit; stop one of {', '.join(active)}"
            )

    def adopt(
        self,
        running: StartedCommand,
        line: str,
        after: Callable[[], Awaitable[str]] = _nothing,
        *,
        tool_call_id: str = "",
    ) -> str:
        """Take over a command that has just been started; the handle names it from now on.

        ``after`` is called once it has ended, and adds to what it printed.
        """
        handle = f"bg{len(self._commands) + 1}"
        command = _Command(handle, running, line, after)
        self._commands[handle] = command
        if self._sink is not None:
            shown = self._masked(line)
            self._sink.publish(BackgroundStartedEvent(handle=handle, command=shown, tool_call_id=tool_call_id))
        self._group.start_soon(self._read, command)
        return handle

    async def _read(self, command: _Command) -> None:
        try:
            await command.read()
        finally:
            if self._sink is not None:
                self._sink.publish(self._end_of(command))

    def _end_of(self, command: _Command) -> BackgroundEndedEvent:
        result = command.running.result()
        status = "lost" if result.lost else "timeout" if result.timed_out else command.status
        return BackgroundEndedEvent(
            handle=command.handle,
            command=self._masked(command.line),
            status=status,
            exit_code=None if result.lost else result.exit_code,
            duration_s=command.duration or 0.0,
            output=self._masked(command.last),
            output_files=tuple(map(str, result.output_files)),
        )

    async def report(self, handle: str, *, wait_seconds: float = 0.0) -> BackgroundReport:
        """Return how a command stands, once it has said something new or ended, or after ``wait_seconds``.

        Raises:
            ToolError: nothing has that handle.
        """
        command = self._get(handle)
        with anyio.move_on_after(wait_seconds):
            await command.news.wait()
            with anyio.move_on_after(BATCH_SECONDS):
                await command.ended.wait()
        return self._taken(handle, command)

    async def stop(self, handle: str) -> BackgroundReport:
        """End a command with everything it started; harmless if it has ended.

        Raises:
            ToolError: nothing has that handle.
        """
        command = self._get(handle)
        command.scope.cancel()
        await command.ended.wait()
        return self._taken(handle, command)

    def _taken(self, handle: str, command: _Command) -> BackgroundReport:
        command.keep(command.screen.flush())
        output, dropped = command.unread, command.dropped
        command.unread, command.dropped = "", 0
        result = command.running.result()
        done = command.ended.is_set()
        if not done:
            command.news = anyio.Event()
        return BackgroundReport(
            handle=handle,
            command=command.line,
            exit_code=result.exit_code if done else None,
            output=output,
            dropped=dropped,
            seconds=round(time.monotonic() - command.started if command.duration is None else command.duration, 1),
            output_files=result.output_files,
            lost=result.lost,
        )

    def _get(self, handle: str) -> _Command:
        if handle not in self._commands:
            known = ", ".join(self._commands) or "none"
            raise ToolError(f"no background command {handle!r}; there are: {known}")
        return self._commands[handle]


@asynccontextmanager
async def background_commands() -> AsyncGenerator[BackgroundCommands]:
    """The background commands of one agent; what still runs at the end of the block is ended with all it started."""
    async with anyio.create_task_group() as group:
        try:
            yield BackgroundCommands(group)
        finally:
            group.cancel_scope.cancel()
