"""Background commands, which keep running while their agent works and never outlive it."""

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
"""The most background commands of one agent that run at once."""
KEPT_CHARACTERS = 16_000
"""The most characters of unread output kept of a command, counted from the end."""
ENDING_CHARACTERS = 2_000
"""The most characters of output, counted from the end, announced when a command has ended."""
BATCH_SECONDS = 0.5
"""Seconds to wait after the first new output for more that follows right behind it."""


class BackgroundReport(BaseModel):
    """The state of a background command, and the result of the tool that asks for it."""

    handle: str
    command: str
    exit_code: int | None
    """None while it runs."""
    output: str
    """The output that nobody has read yet."""
    dropped: int
    """The number of characters that were dropped before ``output``."""
    seconds: float
    """The time since it started, or the time it ran."""
    output_files: tuple[Path, ...] = ()
    """Files that hold the whole of a long output."""
    timed_out: bool = False
    lost: str = ""
    """The reason why nobody knows its end. Empty if it is known."""


class _Command:
    """One command and the output it has printed."""

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
        """Read output until the command ends or its scope is cancelled. Either way it is marked as ended afterwards."""
        try:
            with self.scope:
                while (pieces := await self.running.next_output()) is not None:
                    self._take("".join(map(str, pieces)))
                self.status = "exited"
        finally:
            await self.running.stop()
            left = self.running.result().left_running
            self._take("\n".join(filter(None, (left and f"[{left}]", await self.after()))))
            self.last = (self.last + self.last_screen.flush())[-ENDING_CHARACTERS:]
            self.duration = time.monotonic() - self.started
            self.ended.set()
            self.news.set()

    def _take(self, text: str) -> None:
        if not text:
            return
        self.last = (self.last + self.last_screen.feed(text))[-ENDING_CHARACTERS:]
        self.keep(self.screen.feed(text))
        self.news.set()

    def keep(self, text: str) -> None:
        """Keep text until it is read, dropping the oldest of what is too much."""
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
        self.foreground = set[anyio.Event]()
        """One event for each command the agent waits for. Setting it moves the command to the background."""
        self._sink: EventSink | None = None
        self._masked: Callable[[str], str] = str

    def announce(self, sink: EventSink, masked: Callable[[str], str]) -> None:
        """Publish to ``sink`` from now on what starts and ends, with texts passed through ``masked``."""
        self._sink, self._masked = sink, masked

    def send_back(self) -> bool:
        """Move the commands that the agent waits for to the background. Return False if it waits for none."""
        for moved in self.foreground:
            moved.set()
        return bool(self.foreground)

    def check_room(self) -> None:
        """Check that one more command may start.

        Raises:
            ToolError: too many are running already.
        """
        active = [handle for handle, command in self._commands.items() if not command.ended.is_set()]
        if len(active) >= MOST_AT_ONCE:
            raise ToolError(
                f"{len(active)} background commands are running, the limit; stop one of {', '.join(active)}"
            )

    def adopt(
        self, running: StartedCommand, line: str, after: Callable[[], Awaitable[str]], *, tool_call_id: str = ""
    ) -> str:
        """Take over a command that was just started, and return its handle.

        ``after`` is called once it has ended; what it returns is appended to the output.
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
        """Return a command's state as soon as it has new output or has ended, or after ``wait_seconds``.

        Raises:
            ToolError: no command has that handle.
        """
        command = self._get(handle)
        with anyio.move_on_after(wait_seconds):
            await command.news.wait()
            with anyio.move_on_after(BATCH_SECONDS):
                await command.ended.wait()
        return self._take_report(handle, command)

    async def stop(self, handle: str) -> BackgroundReport:
        """End a command and everything it started. Harmless if it has ended.

        Raises:
            ToolError: no command has that handle.
        """
        command = self._get(handle)
        command.scope.cancel()
        await command.ended.wait()
        return self._take_report(handle, command)

    def _take_report(self, handle: str, command: _Command) -> BackgroundReport:
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
            timed_out=result.timed_out,
            lost=result.lost,
        )

    def _get(self, handle: str) -> _Command:
        if handle not in self._commands:
            known = ", ".join(self._commands) or "none"
            raise ToolError(f"no background command {handle!r}; there are: {known}")
        return self._commands[handle]


@asynccontextmanager
async def background_commands() -> AsyncGenerator[BackgroundCommands]:
    """Yield the background commands of one agent. At the end of the block, all that still run are ended."""
    async with anyio.create_task_group() as group:
        try:
            yield BackgroundCommands(group)
        finally:
            group.cancel_scope.cancel()
