"""Starting commands by a small process of our own, which forks faster and sees that nothing outlives a command."""

from __future__ import annotations

import atexit
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from anyio import to_thread, wait_readable

from vibe.shell.process.port import CommandOrder
from vibe.shell.process.watch import AT_ONCE, WITH_DAEMONS
from vibe.shell.sandbox.landlock import LAUNCHER
from vibe.system.process import end_session

PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from vibe.shell.process.starter_program import main; "
    "sys.exit(main(int(sys.argv[2]), sys.argv[3:]))"
)
HERE = str(Path(__file__).parents[3])
LENGTH = struct.Struct("!I")
LEAVE_SECONDS = 2.0
AT_ONCE_BYTES = 32 * 1024
"""A socket takes so much without waiting for whoever reads it."""


class Starter:
    """The process that starts commands: made when the first one is to start, and again should it be killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        atexit.register(self._leave)

    def start_at_once(self, wanted: bytes, descriptors: Sequence[int]) -> bool:
        """Have a command started, if that takes no waiting; else False, and nothing has happened."""
        if len(wanted) > AT_ONCE_BYTES or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._link is None:
                return False
            _send(self._link, wanted, descriptors, socket.MSG_DONTWAIT)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return False
        finally:
            self._lock.release()
        return True

    def start(self, wanted: bytes, descriptors: Sequence[int]) -> None:
        """Have a command started. Blocks for a moment.

        Raises:
            OSError: no process can be started.
        """
        with self._lock:
            try:
                _send(self._serving(), wanted, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                self._leave()
                _send(self._serving(), wanted, descriptors)

    def _serving(self) -> socket.socket:
        if self._link is None:
            ours, theirs = socket.socketpair()
            with theirs:
                program = [sys.executable, "-I", "-S", "-c", PROGRAM, HERE, str(theirs.fileno()), *LAUNCHER]
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

    def _leave(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_SECONDS)
            self._process = None


@cache
def starter() -> Starter:
    """The one of this process."""
    return Starter()


class WatchedCommand:
    """A command as its watcher tells of it. ``code`` None: it runs, or nobody knows how it ended.

    ``line`` and ``status`` are our ends of the watcher's line and of the pipe it tells on.
    """

    def __init__(self, line: int, status: int) -> None:
        self.line = line
        self.status = status
        self.pid = 0
        self.code: int | None = None
        self.problem = 0
        self.is_gone = False
        self.left = (0, "")
        """How many processes it left running, which were stopped, and the names of the first."""
        self._said = b""

    async def begun(self) -> None:
        """Wait until it is known whether it could be started: ``pid`` or ``problem`` is set, or its watcher is gone."""
        while not (self.pid or self.problem or self.has_ended):
            await wait_readable(self.status)
            self.hear()

    def check(self) -> None:
        """See that it could be started.

        Raises:
            OSError: it could not.
        """
        if not self.pid and self.code is None:
            number = self.problem or errno.EAGAIN
            raise OSError(number, os.strerror(number))

    @property
    def has_ended(self) -> bool:
        """True once it has ended, though what it started may not have."""
        return self.code is not None or self.is_gone

    def hear(self) -> None:
        """Take in what is told of it, once ``status`` can be read."""
        with suppress(BlockingIOError):
            self._take(os.read(self.status, 256))

    def end(self, *, daemons: bool) -> None:
        """Have all of it ended: TERM, and KILL after 2 s."""
        if not self.is_gone:
            with suppress(BrokenPipeError, BlockingIOError):
                os.write(self.line, WITH_DAEMONS if daemons else b"t")

    def kill(self) -> None:
        """Have all of it killed now."""
        if not self.is_gone:
            with suppress(BrokenPipeError, BlockingIOError):
                os.write(self.line, AT_ONCE)

    async def end_unwatched(self) -> None:
        """The same where whoever watched over it is gone before it; returns when nothing is left."""
        if self.code is None:
            await end_session(self.pid)

    def close(self) -> None:
        """Let go of it; what still runs is killed."""
        os.close(self.line)
        os.close(self.status)

    def _take(self, data: bytes) -> None:
        *lines, self._said = (self._said + data).split(b"\n")
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
    """Start a command with what it prints going to ``output``; whatever happens then, ``close`` what is returned.

    ``report`` is what it gets as its descriptor ``REPORT``.

    Raises:
        OSError: it can't be started.
        ValueError: no command can have such words, variables or folder.
    """
    argv, environ, cwd = [*order.argv], {**order.environ}, str(order.cwd)
    text = "".join((*argv, cwd, *environ, *environ.values()))
    if b"\0" in os.fsencode(text):
        raise ValueError("a null character")
    watched, line = os.pipe()
    status, told = os.pipe()
    os.set_blocking(status, False)
    os.set_blocking(line, False)
    started = WatchedCommand(line, status)
    try:
        try:
            wanted = json.dumps({"argv": argv, "environ": environ, "cwd": cwd}).encode()
            descriptors = (*output, told, watched, *(() if report is None else (report,)))
            if not starter().start_at_once(wanted, descriptors):
                await to_thread.run_sync(starter().start, wanted, descriptors)
        finally:
            os.close(watched)
            os.close(told)
        await started.begun()
        started.check()
    except BaseException:
        started.close()
        raise
    return started


def _send(link: socket.socket, wanted: bytes, descriptors: Sequence[int], flags: int = 0) -> None:
    data = LENGTH.pack(len(wanted)) + wanted
    sent = socket.send_fds(link, [data], descriptors, flags)
    if sent < len(data):
        link.sendall(data[sent:])
