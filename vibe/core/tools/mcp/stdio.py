"""Runs a server as a child process, with one line of JSON per message, in a process session that ends with ours."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vibe.core.tools.mcp.client import Launch, load_library
from vibe.core.tools.mcp.sieve import encoded, messages_in
from vibe.system.files import append_rotating
from vibe.system.line_wire import LONGEST_MESSAGE, read_ready, write_whole
from vibe.system.process import end_session

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

    Inbound: TypeAlias = SessionMessage | Exception


FILE_BYTES = 1_000_000
"""The length at which a log file is renamed to ``<name>.1``, replacing the one before."""
LINE_LENGTH = 300
"""The most bytes of output that are searched for its last line."""
WINDOW_SECONDS = 10.0
"""The length of the window over which a log's bytes are limited."""
WINDOW_BYTES = 1_000_000
"""The most bytes that are logged in one window. A server that prints more loses the excess."""


class ServerLog:
    """The log of one server. ``last_line`` is the last line that was not blank.

    If the file can't be written, the run continues without it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last_line = ""
        self._window = 0.0
        self._in_window = 0
        self._dropped = 0

    async def write(self, data: bytes) -> None:
        """Append ``data``, or count it as dropped if too much arrives at once."""
        lines = data[-LINE_LENGTH:].decode("utf-8", "replace").split("\n")
        self.last_line = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), self.last_line)
        now = time.monotonic()
        if now - self._window >= WINDOW_SECONDS:
            self._window, self._in_window = now, 0
        if self._in_window + len(data) > WINDOW_BYTES:
            self._dropped += len(data)
            return
        self._in_window += len(data)
        if self._dropped:
            data = f"\n[{self._dropped} bytes dropped: too much at once]\n".encode() + data
            self._dropped = 0
        await anyio.to_thread.run_sync(self._append, data)

    def _append(self, data: bytes) -> None:
        try:
            append_rotating(self.path, data, FILE_BYTES)
        except OSError:
            self._dropped += len(data)


RUBBISH_SHOWN = 400
"""The most bytes of a line that is not a message which are logged."""
MESSAGES_WAITING = 16
"""The most messages waiting for a server that does not read. Cancelling a call does not wait for them."""

EXIT_CODE_SECONDS = 0.5
"""Seconds to wait for the exit code after a server has closed its output."""
FLUSH_SECONDS = 0.5
"""Seconds that pending messages may take to be sent when a session ends."""
GOODBYE_SECONDS = 1.0
"""Seconds that a server has to end by itself after its standard input is closed."""
LAST_EXIT_SECONDS = 2.0
"""Seconds to wait for the exit code after the server's process session was killed."""

# The guard is a grandchild in the server's session. It reads a pipe whose other end only we hold. However we die, it
# then reads the end of the file and kills the session, including a server that ignores the end of its input.
_GUARDED = (
    'exec 3</dev/fd/"$1"; shift; '
    '( { read -r _; pkill -KILL -s "$$"; kill -KILL 0; } <&3 >/dev/null 2>&1 & ); exec "$@" 3<&-'
)
"""The shell script that starts the guard and then becomes the server."""


class ServerProcess:
    """A running server.

    ``flaw`` says what was wrong with the output of ``process``, and ``rubbish`` counts the lines that were no messages.
    ``on_end`` is called when it will send nothing more.
    """

    def __init__(self, process: Process, pipes: tuple[int, int, int, int], log: ServerLog) -> None:
        self.process = process
        self._lifeline, self._stdin, self._stdout, self._stderr = pipes
        self._log = log
        self.rubbish = 0
        self.flaw = ""
        self.on_end: Callable[[], object] = str
        self._spread = bytearray()  # A message that is written over several lines, as far as it has come.
        self._sending = anyio.CancelScope()
        self._sent = anyio.Event()

    async def receive(self, into: MemoryObjectSendStream[Inbound]) -> None:
        """Pass on its messages until it closes its output. Keep reading after the receiver is closed."""
        pending = bytearray()
        async with into:
            await anyio.to_thread.run_sync(load_library)
            while chunk := await read_ready(self._stdout):
                # Some end their lines with CR alone, and some write UTF-16.
                *lines, rest = chunk.replace(b"\r", b"\n").replace(b"\0", b"").split(b"\n")
                for line in lines:
                    pending += line
                    await self._deliver(bytes(pending), into)
                    pending.clear()
                pending += rest
                if len(pending) > LONGEST_MESSAGE:
                    self.flaw = f"it sent a message of more than {LONGEST_MESSAGE} bytes"
                    break
            else:
                # A process that ends closes its output first, and has an exit code a moment later.
                with anyio.move_on_after(EXIT_CODE_SECONDS):
                    await self.process.wait()
                if self.process.returncode is None and not self._sent.is_set():
                    self.flaw = "it closed its output, and went on running"
        self.on_end()
        while await read_ready(self._stdout):
            pass

    async def _deliver(self, line: bytes, into: MemoryObjectSendStream[Inbound]) -> None:
        from mcp.shared.message import SessionMessage

        if not line.strip():
            return
        messages = _messages(line)
        if not messages and (self._spread or line.strip() == b"{"):
            self._spread += line + b"\n"
            if not line.startswith(b"}") and len(self._spread) < LONGEST_MESSAGE:
                return
            messages = _messages(self._spread)
        self._spread.clear()
        if not messages:
            self.rubbish += 1
            await self._log.write(b"[stdout, no MCP message] " + line[:RUBBISH_SHOWN] + b"\n")
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            for message in messages:
                await into.send(SessionMessage(message))

    async def send(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the session's messages until it closes. Then close the server's input, too."""
        try:
            with self._sending, messages:
                async for item in messages:
                    await write_whole(self._stdin, encoded(item.message).encode() + b"\n")
        except OSError:
            return  # The server has ended, which `receive` notices, too.
        finally:
            os.close(self._stdin)
            self._sent.set()

    async def log_stderr(self) -> None:
        """Log the server's standard error."""
        while chunk := await read_ready(self._stderr):
            await self._log.write(chunk)

    async def say_goodbye(self) -> None:
        """Close its input, which asks it to end, and kill it if it does not. ``receive`` must still be reading."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._sent.wait()
            self._sending.cancel()
            with anyio.move_on_after(GOODBYE_SECONDS):
                await self.process.wait()
            await end_session(self.process.pid)
            with anyio.move_on_after(LAST_EXIT_SECONDS):
                await self.process.wait()

    async def release(self) -> None:
        """Close the remaining pipes."""
        for descriptor in (self._lifeline, self._stdout, self._stderr):
            os.close(descriptor)
        if self.process.returncode is not None:
            with anyio.CancelScope(shield=True):
                await self.process.aclose()


def _messages(data: bytes | bytearray) -> list[JSONRPCMessage]:
    from mcp.types import jsonrpc_message_adapter

    text = data.decode("utf-8", "replace")  # An invalid byte costs a letter, not the whole message.
    with suppress(ValueError):
        return [jsonrpc_message_adapter.validate_json(text, by_name=False)]
    return list(messages_in(text))


@asynccontextmanager
async def server_process(launch: Launch, log: ServerLog) -> AsyncGenerator[tuple[ServerProcess, Any]]:
    """Start a server, and yield it with the transport that its session uses. It is gone when the block ends.

    Raises:
        OSError: the system can't start the process.
    """
    process = await _start(launch, log)
    to_session, inbox = anyio.create_memory_object_stream["Inbound"](0)
    outbox, from_session = anyio.create_memory_object_stream["SessionMessage"](MESSAGES_WAITING)
    try:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(process.receive, to_session)
            pumps.start_soon(process.log_stderr)
            pumps.start_soon(process.send, from_session)
            try:
                yield process, nullcontext((inbox, outbox))
            finally:
                inbox.close()
                outbox.close()
                await process.say_goodbye()
                pumps.cancel_scope.cancel()
    finally:
        await process.release()


async def _start(launch: Launch, log: ServerLog) -> ServerProcess:
    log.last_line = ""  # what an earlier process said explains nothing about this one
    alive, lifeline = os.pipe()
    child_in, stdin = os.pipe()
    stdout, child_out = os.pipe()
    stderr, child_err = os.pipe()
    ours, theirs = (lifeline, stdin, stdout, stderr), (alive, child_in, child_out, child_err)
    for descriptor in (stdin, stdout, stderr):
        os.set_blocking(descriptor, False)
    try:
        process = await anyio.open_process(
            ["/bin/sh", "-c", _GUARDED, "sh", str(alive), *launch.argv],
            stdin=child_in, stdout=child_out, stderr=child_err, cwd=launch.cwd, env=launch.environ,
            start_new_session=True, pass_fds=(alive,),
        )  # fmt: skip
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return ServerProcess(process, ours, log)
