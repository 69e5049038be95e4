"""Runs child processes: each in a session of its own, with bounded output, and never left behind."""

from __future__ import annotations

import atexit
import errno
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from anyio import CancelScope, current_time, move_on_after, to_thread, wait_readable
from msgspec.structs import replace

from vibe.shell.errors import CommandStartError
from vibe.shell.process.capture import ROOM, Capture, OutputLimit, OutputLog, OutputPiece
from vibe.shell.process.port import CommandOrder, CommandResult
from vibe.shell.process.watch import AT_ONCE, WITH_DAEMONS
from vibe.shell.sandbox.landlock import LAUNCHER
from vibe.system.process import end_session
from vibe.system.programs import command_environ, find_shell, is_internal
from vibe.system.racing import shielded
from vibe.system.redaction import SECRET_NAME

PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from vibe.shell.process.starter_program import main; "
    "sys.exit(main(int(sys.argv[2]), sys.argv[3:]))"
)
IMPORT_ROOT = str(Path(__file__).parents[3])
LENGTH = struct.Struct("!I")
TERM_FIRST = b"t"
EXIT_SECONDS = 2.0
AT_ONCE_BYTES = 32 * 1024
"""Bytes that a socket takes without waiting for its reader."""


class Starter:
    """Handle of the process that starts commands.

    The process is started for the first command, and again if it is killed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        atexit.register(self._disconnect)

    def start_at_once(self, request: bytes, descriptors: Sequence[int]) -> bool:
        """Have a command started if that needs no waiting. Otherwise do nothing and return False."""
        if len(request) > AT_ONCE_BYTES or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._link is None:
                return False
            _send(self._link, request, descriptors, socket.MSG_DONTWAIT)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return False
        finally:
            self._lock.release()
        return True

    def start(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Have a command started. Blocks for a moment.

        Raises:
            OSError: no process can be started.
        """
        with self._lock:
            try:
                _send(self._connected(), request, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                self._disconnect()
                _send(self._connected(), request, descriptors)

    def _connected(self) -> socket.socket:
        if self._link is None:
            ours, theirs = socket.socketpair()
            with theirs:
                program = [sys.executable, "-I", "-S", "-c", PROGRAM, IMPORT_ROOT, str(theirs.fileno()), *LAUNCHER]
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    program,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._link = ours
        return self._link

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_SECONDS)
            self._process = None


@cache
def starter() -> Starter:
    """Return the starter of this process."""
    return Starter()


class WatchedCommand:
    """A command as reported by its watcher. ``code`` is None while it runs, or if it is unknown how it ended.

    ``line`` and ``status`` are our ends of the pipe on which the watcher is told to end the command, and of the pipe
    on which it reports.
    """

    def __init__(self, line: int, status: int) -> None:
        self.line = line
        self.status = status
        self.pid = 0
        self.code: int | None = None
        self.problem = 0
        self.is_gone = False
        self.left = (0, "")
        """The number of processes the command left running, which were stopped, and the names of the first."""
        self._partial_line = b""

    async def begun(self) -> None:
        """Wait until the command has begun, and ``pid`` is set.

        Raises:
            OSError: the command could not be started, or its watcher is gone.
        """
        while not (self.pid or self.problem or self.has_ended):
            await wait_readable(self.status)
            self.read_reports()
        if not self.pid and self.code is None:
            number = self.problem or errno.EAGAIN
            raise OSError(number, os.strerror(number))

    @property
    def has_ended(self) -> bool:
        """True once the command itself has ended, even if processes it started still run."""
        return self.code is not None or self.is_gone

    def read_reports(self) -> None:
        """Read the reports of the watcher, once ``status`` is readable."""
        with suppress(BlockingIOError):
            self._take(os.read(self.status, 256))

    def end(self, how: bytes) -> None:
        """Have all its processes ended: ``AT_ONCE``, or by SIGTERM and, after 2 s, SIGKILL."""
        if not self.is_gone:
            with suppress(BrokenPipeError, BlockingIOError):
                os.write(self.line, how)

    def close(self) -> None:
        """Close the pipes. The watcher then kills whatever still runs."""
        os.close(self.line)
        os.close(self.status)

    def _take(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self.is_gone = not data
        for word, number, *names in (line.split() for line in lines):
            match word:
                case b"gone":
                    self.is_gone = True
                case b"left":
                    self.left = int(number), b"".join(names).decode(errors="replace").replace(",", ", ")
                case b"pid":
                    self.pid = int(number)
                case b"code":
                    self.code = int(number)
                case _:
                    self.problem = int(number) or errno.EAGAIN


async def start(order: CommandOrder, output: Sequence[int], report: int | None) -> WatchedCommand:
    """Start a command that prints to the descriptors ``output``. The caller must ``close`` the returned handle.

    ``report`` becomes the command's descriptor ``REPORT``.

    Raises:
        OSError: the command can't be started.
        ValueError: the words, a variable or the folder contains a null character.
    """
    argv, environ, cwd = [*order.argv], {**order.environ}, str(order.cwd)
    text = "".join((*argv, cwd, *environ, *environ.values()))
    if b"\0" in os.fsencode(text):
        raise ValueError("a null character in the command; leave it out")
    their_line, line = os.pipe()
    status, their_status = os.pipe()
    os.set_blocking(status, False)
    os.set_blocking(line, False)
    started = WatchedCommand(line, status)
    try:
        try:
            request = json.dumps({"argv": argv, "environ": environ, "cwd": cwd}).encode()
            descriptors = (*output, their_status, their_line, *(() if report is None else (report,)))
            if not starter().start_at_once(request, descriptors):
                await to_thread.run_sync(starter().start, request, descriptors)
        finally:
            os.close(their_line)
            os.close(their_status)
        await started.begun()
    except BaseException:
        started.close()
        raise
    return started


def _send(link: socket.socket, request: bytes, descriptors: Sequence[int], flags: int = 0) -> None:
    data = LENGTH.pack(len(request)) + request
    # Not by ``socket.send_fds``, which ignores the flags.
    sent = link.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))], flags)
    if sent < len(data):
        link.sendall(data[sent:])


NOT_INTERACTIVE = {
    "CI": "true",
    "NONINTERACTIVE": "1",
    "NO_TTY": "1",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Variables that tell programs that nobody is there to answer their questions."""

MISLEADING_NAMES = frozenset([
    "BASHOPTS",
    "CDPATH",
    "GLOBIGNORE",
    "POSIXLY_CORRECT",
    "RIPGREP_CONFIG_PATH",
    "SHELLOPTS",
])
"""Variables that would make a command do, or look at, something else than its words say."""

TICK_SECONDS = 0.1
LAST_EXIT_SECONDS = 5.0
"""Time to wait for a command's watcher, in seconds: longer than the watcher takes to end everything."""
LAST_OUTPUT_SECONDS = 0.5
CHUNK_BYTES = 64 * 1024
MOST_REPORTED = 128 * 1024
"""Maximum size of a report in bytes. One byte more is read, to notice a longer one."""
KILLED = 137
TERMINAL_SIZE = (24, 76)
"""Rows and columns of the terminal for commands that print to one."""


def child_environ(environ: Mapping[str, str], *, by_vibe: bool = False) -> dict[str, str]:
    """Return ``environ`` without secrets and misleading variables, and with ``NOT_INTERACTIVE``.

    Set ``by_vibe`` for commands that vibe starts unasked and unconfined. They don't find programs in a workspace.
    """
    allowed = environ if by_vibe else command_environ(environ)
    kept = {
        name: value
        for name, value in allowed.items()
        if name not in MISLEADING_NAMES and not is_internal(name) and not SECRET_NAME.search(name)
    }
    return kept | NOT_INTERACTIVE


async def _ignore(_: OutputPiece) -> None:
    """Ignore output that is printed before the end."""


async def run_command(
    command: str | Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    timeout: float | None = None,  # noqa: ASYNC109  a caller's own deadline would lose the output
    on_output: Callable[[OutputPiece], Awaitable[None]] = _ignore,
    limit: OutputLimit | None = None,
) -> CommandResult:
    """Run a shell line (or an argv) to its end and return its result.

    Standard input is empty, there is no terminal, and ``environ`` is all the command gets (see ``child_environ``).
    When it ends, runs past ``timeout`` seconds or the call is cancelled, everything it started in its session is
    stopped with SIGTERM and, after 2 s, SIGKILL. If this process is killed, the session is killed too. ``on_output``
    gets whole lines about ten times a second. If there is too much output for that, it gets only the end.

    Raises:
        CommandStartError: the folder doesn't exist, or the system refuses to start a process.
    """
    argv = shell_argv(command) if isinstance(command, str) else command
    order = CommandOrder(argv=tuple(argv), cwd=cwd, environ=environ, timeout=timeout, limit=limit or OutputLimit())
    return await run_to_end(await RunningCommand.start(order), on_output)


async def run_to_end(running: RunningCommand, on_output: Callable[[OutputPiece], Awaitable[None]]) -> CommandResult:
    """Wait for a command to end and return its result. See ``run_command``."""
    try:
        while (pieces := await running.next_output()) is not None:
            for piece in pieces:
                await on_output(piece)
    finally:
        await running.stop()
    return running.result()


class RunningCommand:
    """A running command, for callers that poll rather than pass a callback: call ``next_output`` until it is None."""

    def __init__(
        self, process: WatchedCommand, pipes: tuple[int, int], order: CommandOrder, report: int | None, started: float
    ) -> None:
        self.patience: float | None = None
        """Seconds between SIGTERM and SIGKILL. None means the watcher's default."""
        self.ends_daemons = False
        """End processes that left the command's session too, if the command is ended before it ends by itself."""
        self._process = process
        self._report = report
        self._report_data: bytes | None = None
        self._log = order.limit.log
        self._streams = (Capture("stdout", order.limit), Capture("stderr", order.limit))
        self._pipes = tuple(zip(pipes, self._streams, strict=True))
        # A single place to wait for all descriptors. On our platforms it has a descriptor of its own.
        self._selector: selectors.DefaultSelector = selectors.DefaultSelector()
        self._selector.register(process.status, selectors.EVENT_READ)
        for pipe, stream in self._pipes:
            self._selector.register(pipe, selectors.EVENT_READ, stream)
        self._started = started
        self._deadline = None if order.timeout is None else current_time() + order.timeout
        self._timed_out = False
        self._stopped = False
        self._duration = 0.0

    @classmethod
    async def start(cls, order: CommandOrder, *, in_terminal: bool = False) -> RunningCommand:
        """Start a command. The caller must ``stop`` it, whatever happens.

        With ``in_terminal`` it prints to a terminal, so usually in colour, but can't read from one.

        Raises:
            CommandStartError: the folder doesn't exist, or the system refuses to start a process.
        """
        began = time.monotonic()  # if we have to wait for the processor, it may have ended when we look at it first
        ours, theirs = zip(*(_terminal() if in_terminal else _pipe() for _ in range(2)), strict=True)
        report = await to_thread.run_sync(_open_report) if order.reports else None
        try:
            process = await start(order, theirs, report)
        except (OSError, ValueError) as error:
            _close(*ours, report)
            problem = getattr(error, "strerror", "") or str(error)
            raise CommandStartError(order.cwd, problem) from error
        except BaseException:
            _close(*ours, report)
            raise
        finally:
            _close(*theirs)
        return cls(process, ours, order, report, began)

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Wait about 0.1 s and return the output since the last call, in whole lines. None once it has ended."""
        if self._stopped:
            return None
        wait = TICK_SECONDS if self._deadline is None else min(TICK_SECONDS, self._deadline - current_time())
        with move_on_after(max(wait, 0)):
            await self._read_until(lambda: self._process.has_ended)
        if not self._process.has_ended:
            await _flush(self._log)
            if self._deadline is None or current_time() < self._deadline:
                return self._live(final=False)
            self._timed_out = True
        await self.stop()
        return self._live(final=True)

    def run_on(self) -> None:
        """Drop the timeout, so that the command runs for as long as it takes."""
        self._deadline = None

    async def stop(self) -> None:
        """Stop everything the command started, and read the rest of its output.

        It is shielded from cancellation, and calling it again does no harm.
        """
        if self._stopped:
            return
        self._duration = time.monotonic() - self._started
        with CancelScope(shield=True):
            if not (self._process.is_gone and self._process.code is not None and self._drain()):
                await self._end()
            self._stopped = True
            self._selector.close()
            self._process.close()
            for pipe, stream in self._pipes:
                os.close(pipe)
                await stream.finish()
            if self._report is not None:
                self._report_data = await to_thread.run_sync(_read_report, self._report)

    def result(self) -> CommandResult:
        """Return the result. Call this after ``stop`` has returned."""
        code = KILLED if self._process.code is None else self._process.code
        out, err = self._streams
        return CommandResult(
            exit_code=code if code >= 0 else 128 - code,
            stdout=out.text(),
            stderr=err.text(),
            timed_out=self._timed_out,
            duration_s=self._duration,
            stdout_dropped=out.dropped,
            output_files=tuple(stream.file for stream in self._streams if stream.file is not None),
            report=self._report_data,
            left=self._process.left,
        )

    def _live(self, *, final: bool) -> Sequence[OutputPiece]:
        taken = (stream.take_live(final=final) for stream in self._streams)
        return [piece for piece in taken if piece.text]

    async def _read_until(self, condition: Callable[[], bool]) -> None:
        """Read output and the watcher's reports until the condition holds."""
        while not condition():
            await wait_readable(self._selector.fileno())
            for key, _ in self._selector.select(0):
                await (self._read_status() if key.data is None else self._read(key.fd, key.data))

    async def _read_status(self) -> None:
        self._process.read_reports()
        if self._process.is_gone:
            self._selector.unregister(self._process.status)

    async def _read(self, pipe: int, stream: Capture) -> None:
        _take(pipe, stream)
        if stream.ended:
            self._selector.unregister(pipe)
        if stream.is_waiting:
            await shielded(lambda: to_thread.run_sync(stream.keep))
        await _flush(self._log, ROOM)

    def _drain(self) -> bool:
        """Read the available output. Return whether all of it is read and none has to be written first."""
        for pipe, stream in self._pipes:
            while not (stream.ended or stream.is_waiting) and _take(pipe, stream):
                pass
        return self._has_all_output() and (self._log is None or self._log.waiting <= ROOM)

    def _has_all_output(self) -> bool:
        return all(stream.ended for stream in self._streams)

    async def _end(self) -> None:
        with move_on_after(LAST_EXIT_SECONDS):
            self._process.end(WITH_DAEMONS if self.ends_daemons else TERM_FIRST)
            with move_on_after(self.patience):
                await self._read_until(lambda: self._process.is_gone)
            self._process.end(AT_ONCE)
            await self._read_until(lambda: self._process.is_gone)
            if self._process.code is None:  # the watcher was gone before the command
                await end_session(self._process.pid)
        with move_on_after(LAST_OUTPUT_SECONDS):
            await self._read_until(self._has_all_output)


class OwnProcesses:
    """Runs commands as processes of our own.

    ``patience`` is the time between SIGTERM and SIGKILL in seconds; None means the watcher's default. ``mark``, a
    variable and its value, is given to every command. Processes that leave the session of a command with a mark end
    with it, if the command is ended.
    """

    def __init__(self, patience: float | None = None, mark: tuple[str, str] | None = None) -> None:
        self._patience = patience
        self._mark = mark

    async def start(self, order: CommandOrder) -> RunningCommand:
        """Start a command. The caller must ``stop`` it, whatever happens.

        Raises:
            CommandStartError: the folder doesn't exist, or the system refuses to start a process.
        """
        if self._mark is not None:
            order = replace(order, environ={**order.environ, self._mark[0]: self._mark[1]})
        running = await RunningCommand.start(order)
        running.patience, running.ends_daemons = self._patience, self._mark is not None
        return running


PROCESSES = OwnProcesses()


async def _flush(log: OutputLog | None, room: int = 0) -> None:
    """Write the log to disk if more than ``room`` bytes wait in it."""
    if log is not None and log.waiting > room:
        await shielded(lambda: to_thread.run_sync(log.write))


def _take(pipe: int, stream: Capture) -> bool:
    """Read once. Return False if there was nothing to read yet."""
    try:
        stream.feed(os.read(pipe, CHUNK_BYTES))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        stream.feed(b"")  # the end of a terminal
    return True


def _pipe() -> tuple[int, int]:
    """Open a pipe and return our end and the child's."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    return ours, theirs


def _terminal() -> tuple[int, int]:
    """Open a terminal that passes output on unchanged, and return our end and the child's."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    termios.tcsetwinsize(theirs, TERMINAL_SIZE)
    return ours, theirs


def shell_argv(command: str) -> list[str]:
    """Return the argv of a shell that runs the line."""
    return [find_shell(), "-c", command]


def _open_report() -> int:
    """Open a file without a name and return its descriptor."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _read_report(descriptor: int) -> bytes:
    """Return the report, up to ``MOST_REPORTED`` bytes and one more, and close the file, which removes it."""
    try:
        return os.pread(descriptor, MOST_REPORTED + 1, 0)
    finally:
        os.close(descriptor)


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)
