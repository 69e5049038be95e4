"""The process in which one attempt at a step runs, from its start until nothing of it is left, and a pool of those."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4

from anyio import CancelScope, move_on_after, open_process, wait_readable
from anyio.abc import Process
from msgspec import Raw, Struct

from subagents.process.fork_server import ForkedProcess, ask_for_fork
from subagents.process.protocol import Hello, Prepare, encode
from subagents.process.transport import SocketTransport
from vibe.system.errors import EnvironmentFailure, os_error_as
from vibe.system.process import kill_group, kill_marked

STEP_MODULE = "vibe.app.plan.child_main"
"""The module that a step's process runs."""
MARK = "_VIBE_STEP"
"""The environment variable that marks everything a step's process starts."""
MOST_SPARES = 2
"""Processes that a pool keeps ready, unless it is told otherwise."""
CHUNK_BYTES = 64 * 1024
"""Bytes of output that are read at once."""
PRINTED_BYTES = 4 * 1024
"""Bytes of output that are kept, from its end."""
LAST_OUTPUT_SECONDS = 0.1
"""Seconds to read the last output of a process that has ended."""
KILL_SECONDS = 5.0
"""Seconds that killing the process, and then what it started, may take each."""


class ProcessStartError(EnvironmentFailure):
    """The system refuses to start a process for a step."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"can't start a process for a step ({error.strerror}): free memory or processes, "
            "or run the plan with `--executor local`"
        )


class StepProgram(Struct, frozen=True, kw_only=True):
    """The program that processes of steps run: ``argv``, followed by the link's descriptor and our process id.

    -P keeps the folder it starts in off the module path, since that may hold modules of any name.

    ``environ`` is their whole environment. They are sent first a hello with the run's ``capabilities``, then
    ``document``, JSON about the run.
    """

    environ: Mapping[str, str]
    document: bytes
    capabilities: tuple[str, ...] = ()
    argv: tuple[str, ...] = (sys.executable, "-P", "-m", STEP_MODULE)


class StepProcess:
    """A running process. Whoever starts it must call ``end`` in every case.

    It has a session of its own, and in its environment a mark that everything it starts inherits, in any session. Its
    output is shown nowhere; only the end is kept. ``link`` is the run's end of the link to it.
    """

    def __init__(self, process: Process | ForkedProcess, link: SocketTransport, output: int, mark: str) -> None:
        self.link = link
        self._process = process
        self._output = output
        self._mark = mark
        self._tail = b""

    @classmethod
    async def start(
        cls, program: StepProgram, *descriptors: int, fork_server: socket.socket | None = None
    ) -> StepProcess:
        """Start a process, which inherits ``descriptors``, and let it prepare for the run.

        With a ``fork_server`` that has loaded the program it is forked there, which takes a twentieth of the time.

        Raises:
            ProcessStartError: the system refuses.
        """
        mark = uuid4().hex
        environ = {**program.environ, MARK: mark}
        with os_error_as(ProcessStartError):
            ours, theirs = socket.socketpair()
            printed, output = os.pipe()
        os.set_blocking(printed, False)
        try:
            with theirs, os_error_as(ProcessStartError):
                passed = (*descriptors, theirs.fileno())
                process = fork_server and await ask_for_fork(fork_server, environ, output, passed)
                process = process or await open_process(
                    [*program.argv, *map(str, (*passed, os.getpid()))],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env=environ, start_new_session=True, pass_fds=passed,
                )  # fmt: skip
        except BaseException:
            ours.close()
            os.close(printed)
            raise
        finally:
            os.close(output)
        started = cls(process, SocketTransport(ours), printed, mark)
        try:
            await started.link.send(encode(Hello.own(program.capabilities)))
            await started.link.send(encode(Prepare(Raw(program.document))))
        except BaseException:
            await started.end()
            raise
        return started

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def printed(self) -> str:
        """The end of its output."""
        return self._tail.decode("utf-8", "replace").strip()

    async def listen(self) -> None:
        """Read its output until that ends, so that it never has to wait for a reader."""
        while True:
            await wait_readable(self._output)
            with suppress(BlockingIOError):
                if not (data := os.read(self._output, CHUNK_BYTES)):
                    return
                self._tail = (self._tail + data)[-PRINTED_BYTES:]

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Give it ``grace_seconds`` to exit, then kill it, and in any case all that it started. Shielded."""
        with CancelScope(shield=True):
            with move_on_after(grace_seconds):
                await self._process.wait()
            if self._process.returncode is None or not sys.platform.startswith("linux"):
                kill_group(self._process.pid)
            with move_on_after(KILL_SECONDS):
                await self._process.wait()
            with move_on_after(KILL_SECONDS):
                await kill_marked(MARK, self._mark)
            with move_on_after(LAST_OUTPUT_SECONDS):
                await self.listen()
            self.link.close()
            os.close(self._output)
            if self._process.returncode is not None:
                await self._process.aclose()


class ProcessPool:
    """Starts processes that serve one attempt each.

    It keeps up to ``spares`` of them ready, because a process takes a third of a second to get ready. In all it starts
    at most ``expected`` of them in advance.
    """

    def __init__(self, program: StepProgram, *, spares: int = MOST_SPARES, expected: int = 0) -> None:
        self.program = program
        self._size = spares
        self._expected = expected
        self._starting = 0
        self._spares: deque[StepProcess] = deque()

    async def take(self) -> StepProcess:
        """Return a process for one attempt, which the caller must end.

        Raises:
            ProcessStartError: the system refuses to start one.
        """
        process = await self._ready()
        try:
            await self.fill()
        except BaseException:
            await process.end()
            raise
        return process

    async def fill(self) -> None:
        """Start idle processes until enough are ready. If one can't be started, the next ``take`` reports it."""
        while self._expected > 0 and len(self._spares) + self._starting < self._size:
            self._expected -= 1
            self._starting += 1
            try:
                self._spares.append(await StepProcess.start(self.program))
            except ProcessStartError:
                return
            finally:
                self._starting -= 1

    async def close(self) -> None:
        """End the idle processes."""
        self._expected = 0
        while self._spares:
            await self._spares.popleft().end()

    async def _ready(self) -> StepProcess:
        while self._spares:
            spare = self._spares.popleft()
            if spare.exit_code is None:
                return spare
            await spare.end()  # it failed while starting, or was killed
        self._expected -= 1
        return await StepProcess.start(self.program)
