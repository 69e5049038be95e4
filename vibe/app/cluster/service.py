"""Keeps the nodes of a cluster, a scheduler or a worker, each in a process that is watched and restarted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from uuid import uuid4

from anyio import CancelScope, DelimiterNotFound, IncompleteRead, move_on_after, open_process, sleep, to_thread
from anyio.lowlevel import checkpoint
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct, json

from subagents.remote.places import SETTINGS_VARIABLE, WorkerSettings
from vibe.app.cluster.address import Certificates, ClusterAddress, ClusterError, reach
from vibe.system.errors import EnvironmentFailure, os_error_as
from vibe.system.files import FileLock
from vibe.system.process import kill_group, kill_marked

PROGRAM = "subagents.cluster.node"
MARK = "_VIBE_NODE"
"""The variable that marks everything a node starts."""
AGAIN_SECONDS = 1.0
MOST_STARTS = 3
"""The most times that a node is started without ever serving."""
SCHEMES = ("tcp://", "tls://")
LONGEST_LINE = 64 * 1024
KILL_SECONDS = 5.0
MOST_ON_A_MACHINE = 256


class Node(Struct, frozen=True, kw_only=True):
    """A scheduler that listens at ``address``, or, with ``slots``, a worker of the scheduler there."""

    address: str
    certificates: Certificates | None
    environ: Mapping[str, str]
    folder: Path
    """The folder for its own files."""
    slots: int = 0
    count: int = 0
    """The number of workers to fork, each with a folder below ``folder``. 0 means that the process is the worker
    itself."""
    settings: WorkerSettings | None = None
    is_quiet: bool = False
    """True if its messages are discarded, except the last one of a node that never served."""

    @property
    def kind(self) -> str:
        """The word for what it is."""
        return "worker" if self.slots else "scheduler"

    def argv(self) -> list[str]:
        """Return the command line that starts it."""
        files = self.certificates.files if self.certificates else ()
        program = [sys.executable, "-P", "-m", PROGRAM]  # -P: modules in the current folder must not be imported
        numbers = str(os.getpid()), str(self.count)
        return [*program, self.kind, self.address, str(self.slots), str(self.folder), *numbers, *files]


async def wait_for_scheduler(
    address: ClusterAddress, certificates: Certificates | None, tell: Callable[[str], object]
) -> None:
    """Wait until a scheduler answers. ``tell`` is called with what is wrong until then, once if that stays the same.

    Raises:
        ClusterError: it does not accept us, or we don't accept it.
    """
    told = ""
    while True:
        try:
            return await to_thread.run_sync(reach, address, certificates, abandon_on_cancel=True)
        except ClusterError as error:
            if error.is_there:
                raise
            told, before = str(error), told
        if told != before:
            tell(f"{told}; waiting for it")
        await sleep(AGAIN_SECONDS)


async def keep_running(
    node: Node, announce: Callable[[str], object], ready: Callable[[], Awaitable[object]] = checkpoint
) -> None:
    """Keep a node running until cancelled. Whenever it ends, what it left is killed, and it is restarted.

    Each time, ``ready`` is awaited before, and ``announce`` is called with its address.

    Raises:
        EnvironmentFailure: it can't be started, or has ended too often without ever serving.
    """
    has_served, starts, problem = False, 0, ""
    while has_served or starts < MOST_STARTS:
        await ready()
        served, problem = await _run(node, announce)
        has_served, starts = has_served or served, starts + 1
        await sleep(AGAIN_SECONDS)
    raise EnvironmentFailure(
        f"a {node.kind} of the cluster ended {MOST_STARTS} times before it served, {problem}: mend that, or do without "
        "the cluster"
    )


async def _run(node: Node, announce: Callable[[str], object]) -> tuple[bool, str]:
    """Run a node to its end. Return whether it served, and how it ended."""
    settings = "" if node.settings is None else json.encode(node.settings).decode()
    mark = uuid4().hex
    environ = {**node.environ, MARK: mark, SETTINGS_VARIABLE: settings}
    errors = subprocess.STDOUT if node.is_quiet else None
    process = await open_process(
        node.argv(), stdin=subprocess.DEVNULL, stderr=errors, env=environ, start_new_session=True
    )
    address, line = "", ""
    try:
        assert process.stdout is not None  # noqa: S101  a pipe, by default
        printed = BufferedByteReceiveStream(process.stdout)
        while read := await _read_line(printed):
            line = read.strip() or line
            if read.startswith(SCHEMES):
                address = line
                announce(address)
    finally:
        with CancelScope(shield=True), move_on_after(KILL_SECONDS):
            kill_group(process.pid)
            await process.wait()
            await kill_marked(MARK, mark)
            await process.aclose()
    return bool(address), f"with exit code {process.returncode}{f': {line}' if line else ''}"


async def _read_line(printed: BufferedByteReceiveStream) -> str:
    """Return the next line with its line break; an empty text at the end, or if a line is too long."""
    try:
        return (await printed.receive_until(b"\n", LONGEST_LINE)).decode("utf-8", "replace") + "\n"
    except (IncompleteRead, DelimiterNotFound):
        return ""


def check_free(address: ClusterAddress, host: str) -> None:
    """Check that a scheduler could listen at the port of ``address``.

    ``host`` names a network interface of this machine.

    Raises:
        EnvironmentFailure: something else listens there, or the host is another machine's.
    """
    try:
        socket.create_server((host, address.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        problem = (error.strerror or str(error)).partition(" (while")[0]
        raise EnvironmentFailure(
            f"no scheduler can listen at {host}:{address.port}: {problem}: end what does, or name another ADDRESS"
        ) from error


def worker_folder(cache: Path) -> tuple[Path, FileLock]:
    """Return the first folder below ``cache`` that no other worker of this machine uses, and the lock on it. Blocks.

    Raises:
        EnvironmentFailure: the disk refuses.
    """
    advice = "name another with --folder"
    with os_error_as(lambda error: EnvironmentFailure(f"{cache} can't be written: {error.strerror}: {advice}")):
        for number in range(MOST_ON_A_MACHINE):
            folder = cache / f"{socket.gethostname()}-{number}"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (lock := FileLock.acquire(folder / "lock")) is not None:
                return folder, lock
    raise AssertionError(f"{MOST_ON_A_MACHINE} workers on a machine")
