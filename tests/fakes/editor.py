"""An editor behind the ports for files and commands: files with unsaved text, and terminals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from anyio import (
    CancelScope,
    Event,
    from_thread,
    move_on_after,
    open_process,
    sleep_forever,
    wait_readable,
)
from anyio.abc import Process
from anyio.lowlevel import checkpoint

from vibe.core.tools.errors import PathError
from vibe.core.tools.files.text_files import DISK
from vibe.shell.errors import CommandStartError
from vibe.shell.process.capture import Capture, OutputPiece
from vibe.shell.process.port import CommandOrder, CommandResult


class EditorFiles:
    """Files with the editor's buffers over those on disk. Writing to a buffer saves it.

    ``asked`` lists the paths that were read or written. ``types_next`` is called once, after a buffer was read, to play
    what the user types next.
    """

    def __init__(self) -> None:
        self.buffers: dict[Path, str] = {}
        self.asked: list[Path] = []
        self.types_next: Callable[[], None] = lambda: None

    def exists(self, path: Path) -> bool:
        """Return True for a buffer as well, even one that was never saved."""
        return path in self.buffers or DISK.exists(path)

    def read(self, path: Path, name: str) -> AbstractContextManager[BinaryIO]:
        """Open the buffer if there is one, else the file."""
        self.asked.append(path)
        return self._buffer(path) if path in self.buffers else DISK.read(path, name)

    @contextmanager
    def _buffer(self, path: Path) -> Generator[BinaryIO, None, None]:
        yield BytesIO(self.buffers[path].encode())
        typing, self.types_next = self.types_next, lambda: None
        typing()

    def create(self, path: Path, name: str, data: bytes) -> None:
        """Create a file, unless the user has opened a buffer at its path meanwhile."""
        self.asked.append(path)
        if path in self.buffers:
            raise PathError(name, "exists by now", "read it first, then set overwrite")
        DISK.create(path, name, data)

    def replace(self, path: Path, name: str, data: bytes, *, previous: bytes) -> None:
        """Change the buffer and save it."""
        self.asked.append(path)
        if path not in self.buffers:
            DISK.replace(path, name, data, previous=previous)
            return
        if self.buffers[path].encode() != previous:
            raise PathError(name, "has changed meanwhile", "read it again")
        self.buffers[path] = data.decode()
        if path.exists():
            DISK.replace(path, name, data, previous=path.read_bytes())
        else:
            DISK.create(path, name, data)


class DistantFiles(EditorFiles):
    """The files of an editor that is reached over a connection, which the event loop serves."""

    def __init__(self, answer: Callable[[], Coroutine[None, None, None]]) -> None:
        super().__init__()
        self._answer = answer

    def read(self, path: Path, name: str) -> AbstractContextManager[BinaryIO]:
        """Wait for the editor's answer, then read as usual."""
        from_thread.run(self._answer)
        return super().read(path, name)


@dataclass(frozen=True, slots=True)
class Closed:
    """A script's piece that closes the terminal though its command may still run. ``why`` is a sentence."""

    why: str


class ScriptedTerminal:
    """A terminal that plays a script.

    Text is printed, a number is the exit code, an event is waited for, and ``Closed`` loses the terminal. If the script
    ends without an exit code, the command runs until it is stopped or its time is up.
    """

    def __init__(self, order: CommandOrder, script: tuple[str | int | Event | Closed, ...]) -> None:
        self.order = order
        self.is_stopped = False
        self.waits = Event()
        self._script = iter(script)
        self._output = Capture("output", order.limit)
        self._exit_code: int | None = None
        self._timed_out = False
        self._lost = ""

    def run_on(self) -> None:
        """Do nothing: the script's time limit stays as ordered."""

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Play the next piece of the script."""
        if self.is_stopped:
            return None
        await checkpoint()
        match next(self._script, None):
            case str() as text:
                self._output.feed(text.encode())
                return (self._output.take_live(final=False),)
            case Event() as event:
                self.waits.set()
                await event.wait()
                return ()
            case int() as code:
                self._exit_code = code
            case Closed(why):
                self._lost = why
            case None if self.order.timeout is None:
                self.waits.set()
                await sleep_forever()
            case None:
                self._timed_out = True
        await self.stop()
        return (self._output.take_live(final=True),)

    async def stop(self) -> None:
        """End the script."""
        if self.is_stopped:
            return
        with CancelScope(shield=True):
            self.is_stopped = True
            await self._output.finish()

    def result(self) -> CommandResult:
        """Return the result as a terminal reports it: both streams in stdout, and exit code 143 if it was stopped."""
        return CommandResult(
            exit_code=143 if self._exit_code is None else self._exit_code,
            stdout=self._output.text(),
            stderr="",
            timed_out=self._timed_out,
            duration_s=1.0,
            stdout_dropped=self._output.dropped,
            output_files=() if self._output.file is None else (self._output.file,),
            lost=self._lost,
        )


class ScriptedTerminals:
    """Terminals of an editor, one for each script. Once all scripts are used, opening a terminal fails."""

    def __init__(self, *scripts: tuple[str | int | Event | Closed, ...]) -> None:
        self.opened: list[ScriptedTerminal] = []
        self._scripts = iter(scripts)

    async def start(self, order: CommandOrder) -> ScriptedTerminal:
        """Open a terminal that plays the next script."""
        await checkpoint()
        script = next(self._scripts, None)
        if script is None:
            raise CommandStartError(order.cwd, "the editor has no terminal", "go on without commands")
        self.opened.append(ScriptedTerminal(order, script))
        return self.opened[-1]


class SystemTerminal:
    """A command in a pseudo terminal. ``screen`` is the descriptor of the test's end."""

    def __init__(self, process: Process, screen: int, order: CommandOrder) -> None:
        self._process = process
        self._screen = screen
        self._output = Capture("output", order.limit)
        self._started = time.monotonic()
        self._deadline = float("inf") if order.timeout is None else self._started + order.timeout
        self._timed_out = False
        self._is_stopped = False

    def run_on(self) -> None:
        """Remove the command's time limit."""
        self._deadline = float("inf")

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Wait up to 0.1 s for output."""
        if self._is_stopped:
            return None
        with move_on_after(min(0.1, max(0.0, self._deadline - time.monotonic()))):
            await wait_readable(self._screen)
        data = self._read()
        self._timed_out = data is None and time.monotonic() >= self._deadline
        if data == b"" or self._timed_out:
            await self.stop()
            return (self._output.take_live(final=True),)
        return (self._output.take_live(final=False),)

    def _read(self) -> bytes | None:
        """Read the output that is ready. Return None if there is none yet, and b"" at the end."""
        try:
            data = os.read(self._screen, 65536)
        except BlockingIOError:
            return None
        except OSError:  # the other end is closed
            return b""
        self._output.feed(data.replace(b"\r\n", b"\n"))
        return data

    async def stop(self) -> None:
        """Kill the command's process group, and keep the rest of its output."""
        if self._is_stopped:
            return
        with CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            while self._read():
                pass
            self._is_stopped = True
            os.close(self._screen)
            await self._output.finish()

    def result(self) -> CommandResult:
        """Return the result, with both streams in stdout."""
        code = self._process.returncode or 0
        return CommandResult(
            exit_code=code if code >= 0 else 128 - code,
            stdout=self._output.text(),
            stderr="",
            timed_out=self._timed_out,
            duration_s=time.monotonic() - self._started,
            stdout_dropped=self._output.dropped,
            output_files=() if self._output.file is None else (self._output.file,),
        )


class SystemTerminals:
    """Terminals that really run commands, as an editor's do."""

    async def start(self, order: CommandOrder) -> SystemTerminal:
        """Open a terminal for the command."""
        screen, line = os.openpty()
        os.set_blocking(screen, False)
        try:
            process = await open_process(
                order.argv,
                cwd=order.cwd,
                env=order.environ,
                stdin=line,
                stdout=line,
                stderr=line,
                start_new_session=True,
            )
        except OSError as error:
            os.close(screen)
            raise CommandStartError(order.cwd, error.strerror or str(error)) from error
        finally:
            os.close(line)
        return SystemTerminal(process, screen, order)
