"""EditorFiles and EditorTerminals: read and write files, and run commands, through an editor."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from signal import Signals
from typing import Any, BinaryIO, TypeVar

from acp import RequestError
from acp.schema import EnvVariable, TerminalOutputResponse, WaitForTerminalExitResponse
from anyio import CancelScope, Event, fail_after, from_thread, get_cancelled_exc_class, move_on_after, sleep, to_thread
from anyio.abc import TaskGroup
from pydantic import ValidationError

from vibe.acp.transport import EditorAbilities
from vibe.acp.updates import SessionChannel, reason_of
from vibe.core.tools.errors import PathError, ToolError
from vibe.core.tools.files.text_files import DISK, LARGEST_WHOLE_BYTES, BinaryFileError, decode
from vibe.shell.errors import CommandStartError
from vibe.shell.process.capture import Capture, OutputPiece
from vibe.shell.process.port import CommandOrder, CommandResult, StartedCommand
from vibe.shell.process.runner import PROCESSES
from vibe.system.errors import error_as, os_error_as
from vibe.system.racing import shielded

T = TypeVar("T")
ANSWER_SECONDS = 60.0
"""Seconds that an editor has to read or write a file."""
TEXT = "utf-8"
"""The only encoding in which an editor exchanges text. Files in another encoding are left to the disk."""


class UnsavedTextError(PathError):
    """A file has unsaved changes in the editor and can't be written through it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "has changes in the editor that are not saved", "ask the user to save it, then read it")


class EditorFiles:
    """The ``Files`` of one session, including unsaved text. Files that the editor has no text of are read from disk.

    Its methods are called in worker threads, and cancelled with their caller.
    """

    def __init__(self, channel: SessionChannel, can: EditorAbilities) -> None:
        self._client, self._channel = channel.client, channel
        self._can = can

    def exists(self, path: Path) -> bool:
        """Return whether anything exists at a path, saved or not."""
        return DISK.exists(path) or self._text(path) is not None

    @contextmanager
    def read(self, path: Path, name: str) -> Generator[BinaryIO, None, None]:
        """Yield the editor's text as bytes, or else the file.

        Raises:
            ToolError: it is missing, not a file, or not readable.
        """
        data = self._editor_bytes(path)
        if data is not None:
            yield BytesIO(data)
            return
        with DISK.read(path, name) as file:
            yield file

    def create(self, path: Path, name: str, data: bytes) -> None:
        """Create a file on disk and, if possible, in the editor.

        Raises:
            ToolError: something exists there already, or it can't be written.
        """
        if self._editor_bytes(path) is not None:
            raise PathError(name, "exists by now", "read it first, then set overwrite")
        DISK.create(path, name, data)
        text = _as_text(data)
        if self._can.writes and text is not None:
            with suppress(RequestError, ValidationError, ToolError):  # The editor can find it on disk.
                self._call(lambda: self._write(path, text))

    def replace(self, path: Path, name: str, data: bytes, *, previous: bytes) -> None:
        """Replace the text of a file, in the editor and on disk.

        Raises:
            ToolError: it is no longer ``previous``, or it can't be written; nothing has changed.
        """
        open_text = self._editor_bytes(path)
        if open_text is None:
            self._replace_saved(path, name, data, previous)
            return
        if open_text != previous:
            raise PathError(name, "has changed meanwhile", "read it again")
        text = _as_text(data)
        if not self._can.writes or text is None:
            saved = _saved(path) or b""
            if _lines(saved) != _lines(previous):
                raise UnsavedTextError(name)
            # The file keeps its line ends.
            data = _lines(data).replace(b"\n", b"\r\n") if b"\r\n" in saved else data
            DISK.replace(path, name, data, previous=saved)
            return
        self._save(path, name, text)

    def _replace_saved(self, path: Path, name: str, data: bytes, previous: bytes) -> None:
        """Replace a file of which the editor returned no text, through the editor if that can only write text."""
        if self._is_unsaved(path):
            raise UnsavedTextError(name)
        text = _as_text(data)
        if self._can.reads or not self._can.writes or text is None or not _is_text(path):
            DISK.replace(path, name, data, previous=previous)
            return
        if _saved(path) != previous:
            raise PathError(name, "has changed meanwhile", "read it again")
        self._save(path, name, text)

    def _save(self, path: Path, name: str, text: str) -> None:
        try:
            self._call(lambda: self._write(path, text))
        except (RequestError, ValidationError) as error:
            problem = f"could not be written by the editor: {reason_of(error)}"
            raise PathError(name, problem, "read it again") from error
        if not DISK.exists(path):  # Only the editor has the text, so commands would not find it.
            DISK.create(path, name, text.encode(TEXT))

    def _is_unsaved(self, path: Path) -> bool:
        """Return whether the editor has unsaved changes to a file in another encoding, which is read from disk."""
        saved = None if _is_text(path) else _saved(path)
        text = None if saved is None else self._text(path)
        if saved is None or text is None:
            return False
        with suppress(BinaryFileError):
            return _ascii_of(text) != _ascii_of(decode(saved, path.name).text)
        return False

    def _editor_bytes(self, path: Path) -> bytes | None:
        """Return the text of a file that the editor may have open, or None if it must be read from disk."""
        text = self._text(path) if _is_text(path) else None
        return None if text is None else text.encode(TEXT)

    def _text(self, path: Path) -> str | None:
        if not self._can.reads:
            return None
        session_id = self._channel.session_id
        try:
            read = self._call(lambda: self._client.read_text_file(session_id, str(path)))
        except (RequestError, ValidationError):
            return None
        # Some editors return an empty text for a missing file.
        return read.content if read.content or DISK.exists(path) else None

    async def _write(self, path: Path, text: str) -> None:
        await self._client.write_text_file(self._channel.session_id, str(path), text)

    def _call(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call the editor and wait for its answer.

        Raises:
            RequestError, ValidationError: it can't do that, or its answer is malformed.
            ToolError: it is gone, or does not answer in time, or the work was cancelled meanwhile.
        """

        async def in_time() -> T:
            with error_as(get_cancelled_exc_class(), lambda _: ToolError("cancelled")), fail_after(ANSWER_SECONDS):
                return await ask()

        with os_error_as(lambda _: ToolError(f"the editor is gone, or did not answer in {ANSWER_SECONDS:g} s")):
            return from_thread.run(in_time)


def _is_text(path: Path) -> bool:
    """Return whether an editor may have text for a path: it is saved as text, or does not exist on disk."""
    with suppress(ToolError), DISK.read(path, path.name) as file:
        data = file.read(LARGEST_WHOLE_BYTES + 1)
        return len(data) <= LARGEST_WHOLE_BYTES and decode(data, path.name).encoding == TEXT
    return not DISK.exists(path)


def _saved(path: Path) -> bytes | None:
    with suppress(ToolError), DISK.read(path, path.name) as file:
        return file.read(LARGEST_WHOLE_BYTES)
    return None


def _as_text(data: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return data.decode(TEXT)
    return None


def _ascii_of(text: str) -> str:
    """Return the part of a text that two readers agree on, whatever encodings they assume."""
    return "".join(one for one in text if one.isascii() and one != "\r")


def _lines(data: bytes) -> bytes:
    """Return a text with the line ends that editors use."""
    return data.replace(b"\r\n", b"\n")


OUTPUT_BYTES = 1024 * 1024
"""The number of bytes, counted from the end, that an editor is asked to keep of the output."""
FIRST_TICK_SECONDS, TICK_SECONDS = 0.05, 0.5
"""The first and the longest interval at which a command is checked. It is checked often at first, then less often."""
OPENING_SECONDS = 10.0
"""Seconds that an editor has to open a terminal."""
LAST_SECONDS = 5.0
"""Seconds that an editor has to stop a command and return its last output."""
NAMING_SECONDS = 2.0
"""Seconds that an editor which says that a command has ended has to name its exit code or signal."""
MOST_APPROVED = 100
"""The most approved commands that are remembered until they start."""
KILLED = 137
"""The exit code of a command that was stopped and has none of its own, as after SIGKILL."""
OVERLAP = 4096
"""The number of characters by which new output is matched to what was seen before."""
PROGRAM, CLEAN = "env", ("-i", "/bin/sh")
"""The program that starts a command with the variables it was given, and none of the editor's own.

A script sets them, because other users can see arguments but not the script, which only this user can read. The script
is deleted before the command begins.
"""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable that a shell can set."""


class EditorTerminals:
    """The ``Commands`` of one session: those that the person has seen and approved run in terminals of the editor.

    Commands that nobody was asked about run in processes of our own.
    """

    def __init__(self, channel: SessionChannel, tasks: TaskGroup) -> None:
        self._channel, self._tasks = channel, tasks
        self._approved = deque[tuple[str, str]](maxlen=MOST_APPROVED)

    def approve(self, tool_call_id: str, command: str) -> None:
        """Remember that the person approved the command line of a call."""
        self._approved.append((tool_call_id, command))

    async def start(self, order: CommandOrder) -> StartedCommand:
        """Start a command; see ``Commands.start``.

        Raises:
            CommandStartError: it can't be started.
        """
        call = next((one for one in self._approved if one[1] == order.line), None)
        if call is None:
            return await PROCESSES.start(order)
        self._approved.remove(call)
        channel = self._channel
        try:
            launcher = await to_thread.run_sync(_launcher, order.environ)
        except OSError as error:
            problem = f"the script that starts it can't be written ({error.strerror or error})"
            raise CommandStartError(order.cwd, problem, "free space in the folder for temporary files") from error
        opened, answered, is_wanted = list[EditorTerminal](), Event(), True
        problem = "the editor did not open a terminal in time"

        async def open_terminal() -> None:
            nonlocal problem
            try:
                with move_on_after(OPENING_SECONDS):
                    made = await channel.client.create_terminal(
                        channel.session_id,
                        PROGRAM,
                        args=[*CLEAN, str(launcher), *order.argv],
                        env=list[EnvVariable](),
                        cwd=str(order.cwd),
                        output_byte_limit=OUTPUT_BYTES,
                    )
                    opened.append(EditorTerminal(channel, made.terminal_id, order, launcher))
            except (RequestError, ConnectionError, ValidationError) as error:
                problem = f"the editor opens no terminal ({reason_of(error)})"
            finally:
                if not opened:
                    await _remove(launcher)
            answered.set()
            for terminal in opened:
                await (terminal.wait() if is_wanted else terminal.stop())

        self._tasks.start_soon(open_terminal)  # beside the call, because a terminal whose id is lost can't be stopped
        try:
            await answered.wait()
        except BaseException:
            is_wanted = False
            await _remove(launcher)  # what has not begun by now can't begin
            for terminal in opened:
                await terminal.stop()
            raise
        if not opened:
            raise CommandStartError(order.cwd, problem, "go on without it")
        channel.put(channel.updates.in_terminal(call[0], opened[0].id))
        return opened[0]


class EditorTerminal:
    """A command in a terminal."""

    def __init__(self, channel: SessionChannel, terminal_id: str, order: CommandOrder, launcher: Path) -> None:
        self._client, self._session_id = channel.client, channel.session_id
        self.id, self._launcher = terminal_id, launcher
        self._output = Capture("output", order.limit)
        self._started = time.monotonic()
        self._duration = 0.0
        self._deadline = float("inf") if order.timeout is None else self._started + order.timeout
        self._seen = ""
        self._status: WaitForTerminalExitResponse | None = None
        self._naming_until = float("inf")
        self._waiting = CancelScope()
        self._exit_code: int | None = None
        self._timed_out = False
        self._lost = ""
        self._is_stopped = False
        self._has_ended = False
        self._pause = FIRST_TICK_SECONDS

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Wait for a moment or until the command ends, and return its output in that time."""
        if self._is_stopped:
            return None
        await sleep(min(self._pause, max(0.0, self._deadline - time.monotonic())))
        self._pause = min(self._pause * 1.5, TICK_SECONDS)
        await self._take()
        if not self._has_ended and time.monotonic() < self._deadline:
            return (self._output.take_live(final=False),)
        self._timed_out = not self._has_ended
        await self.stop()
        return (self._output.take_live(final=True),)

    async def wait(self) -> None:
        """Wait for the exit status, which some editors do not send with the output."""
        with self._waiting, suppress(RequestError, ConnectionError, ValidationError):  # Then only the output tells.
            self._status = await self._client.wait_for_terminal_exit(self._session_id, self.id)

    def run_on(self) -> None:
        """Remove the time limit."""
        self._deadline = float("inf")

    async def stop(self) -> None:
        """End the command, take its last output, and release the terminal. Shielded, and harmless if repeated."""
        if self._is_stopped:
            return
        self._duration = time.monotonic() - self._started
        self._waiting.cancel()
        with CancelScope(shield=True):
            self._is_stopped = True
            with move_on_after(LAST_SECONDS) as in_time:
                if not self._has_ended:
                    await self._kill()
                    await self._take()
                with suppress(RequestError, ConnectionError, ValidationError):  # The terminal is gone already.
                    await self._client.release_terminal(self._session_id, self.id)
            if in_time.cancelled_caught and not self._lost:
                self._lost = "the editor did not say what became of its terminal"
            await self._output.finish()
            await _remove(self._launcher)  # It is left over if the command never began.

    def result(self) -> CommandResult:
        """Return the result, with both streams in one."""
        return CommandResult(
            exit_code=KILLED if self._exit_code is None else self._exit_code,
            stdout=self._output.text(),
            stderr="",
            timed_out=self._timed_out,
            duration_s=self._duration,
            stdout_dropped=self._output.dropped,
            output_files=() if self._output.file is None else (self._output.file,),
            lost=self._lost,
        )

    async def _take(self) -> None:
        """Take the output since the last time."""
        status = self._status  # From before, so that no output comes after it.
        try:
            answer = await self._client.terminal_output(self._session_id, self.id)
        except (RequestError, ConnectionError, ValidationError) as error:
            self._lose(error)
            return
        new = _new_output(self._seen, answer)
        self._seen = answer.output
        if new:
            self._output.feed(new.replace("\r\n", "\n").encode())
        if self._output.is_waiting:
            await to_thread.run_sync(self._output.keep)
        told = [one for one in (answer.exit_status, status) if one is not None]
        named = [one for one in told if one.exit_code is not None or one.signal]
        if named:
            self._end(named[0].exit_code, named[0].signal)
        elif told:  # The exit code may follow, or be the answer to the other question.
            self._naming_until = min(self._naming_until, time.monotonic() + NAMING_SECONDS)
            if time.monotonic() >= self._naming_until:
                self._end(None, None)

    async def _kill(self) -> None:
        try:
            await self._client.kill_terminal(self._session_id, self.id)
            answer = await self._client.wait_for_terminal_exit(self._session_id, self.id)
        except (RequestError, ConnectionError, ValidationError) as error:
            self._lose(error)
        else:
            self._end(answer.exit_code, answer.signal)

    def _end(self, code: int | None, signal: str | None) -> None:
        self._has_ended = True
        if code is None and not signal and not self._is_stopped:
            self._lost = "the editor named neither an exit code nor a signal"
        elif self._exit_code is None:
            self._exit_code = code if code is not None else 128 + _signal_number(signal or "")

    def _lose(self, error: Exception) -> None:
        if not self._has_ended:
            self._lost = f"the editor's terminal is gone ({reason_of(error)})"
            self._has_ended = True


def _launcher(environ: Mapping[str, str]) -> Path:
    """Write the script that sets the variables and then becomes the command in its arguments."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environ.items() if NAME.fullmatch(name)]
    descriptor, path = tempfile.mkstemp(prefix="vibe-command-", dir=environ.get("TMPDIR"))
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as script:
        script.write("\n".join(['rm -f -- "$0"', *exports, 'exec "$@"', ""]))
    return Path(path)


async def _remove(launcher: Path) -> None:
    await shielded(lambda: to_thread.run_sync(partial(launcher.unlink, missing_ok=True)))


def _signal_number(signal: str) -> int:
    return int(signal) if signal.isdecimal() else getattr(Signals, signal.upper(), Signals.SIGKILL).value


def _new_output(seen: str, answer: TerminalOutputResponse) -> str:
    """Return the output since ``seen``, as far as the editor still has it."""
    if answer.output.startswith(seen):
        return answer.output[len(seen) :]
    end = seen[-OVERLAP:]
    at = answer.output.find(end)
    return answer.output[at + len(end) :] if at >= 0 else answer.output
