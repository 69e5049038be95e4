"""Keeps the nodes of a cluster: a scheduler or a worker, each in a process that is watched and started anew."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from socket import AF_INET, AF_INET6
from uuid import uuid4

import anyio
import msgspec
from anyio import CancelScope, move_on_after
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from subagents.remote.places import SETTINGS_VARIABLE, WorkerSettings, own_labels
from vibe.app.cluster.address import Certificates, ClusterAddress
from vibe.shell.sandbox.choose import BACKENDS, choose_sandbox
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import FileLock
from vibe.system.process import kill_group, kill_marked

PROGRAM = "subagents.cluster.node"
MARK = "_VIBE_NODE"
"""The variable of what a node starts."""
AGAIN_SECONDS = 1.0
MOST_STARTS = 3
"""The most times a node is started that never served."""
SCHEMES = ("tcp://", "tls://")
LONGEST_LINE = 64 * 1024
KILL_SECONDS = 5.0
MOST_ON_A_MACHINE = 256


class Node(Struct, frozen=True, kw_only=True):
    """A scheduler that listens at ``address``, or, with ``slots``, a worker whose scheduler is there."""

    address: str
    certificates: Certificates | None
    environ: Mapping[str, str]
    folder: Path
    """For files of its own."""
    slots: int = 0
    count: int = 0
    """Workers to fork, each with a folder below ``folder``; 0: the process is the worker itself."""
    settings: WorkerSettings | None = None
    is_quiet: bool = False
    """Its complaints go nowhere, but for the last one of a node that never served."""

    @property
    def kind(self) -> str:
        """The word for what it is."""
        return "worker" if self.slots else "scheduler"

    def argv(self) -> list[str]:
        """Return the program that it is."""
        files = self.certificates.files if self.certificates else ()
        program = [sys.executable, "-P", "-m", PROGRAM]  # -P: the folder it starts in may hold modules of any name
        numbers = str(os.getpid()), str(self.count)
        return [*program, self.kind, self.address, str(self.slots), str(self.folder), *numbers, *files]


async def kept(node: Node, told: Callable[[str], object]) -> None:
    """Keep a node until the call is cancelled: whenever it ends, what it left is killed, and it is started anew.

    ``told`` is given its address each time.

    Raises:
        EnvironmentFailure: it can't be started, or ended so often before it ever served.
    """
    has_served, starts, problem = False, 0, ""
    while has_served or starts < MOST_STARTS:
        served, problem = await _run(node, told)
        has_served, starts = has_served or served, starts + 1
        await anyio.sleep(AGAIN_SECONDS)
    raise EnvironmentFailure(
        f"a {node.kind} of the cluster ended {MOST_STARTS} times before it served, {problem}: mend that, or do without "
        "the cluster"
    )


async def _run(node: Node, told: Callable[[str], object]) -> tuple[bool, str]:
    """Run a node to its end; whether it served, and how it ended."""
    said = "" if node.settings is None else msgspec.json.encode(node.settings).decode()
    mark = uuid4().hex
    environ = {**node.environ, MARK: mark, SETTINGS_VARIABLE: said}
    errors = subprocess.STDOUT if node.is_quiet else None
    process = await anyio.open_process(
        node.argv(), stdin=subprocess.DEVNULL, stderr=errors, env=environ, start_new_session=True
    )
    address, line = "", ""
    try:
        assert process.stdout is not None  # noqa: S101  a pipe, by default
        printed = BufferedByteReceiveStream(process.stdout)
        while read := await _line_of(printed):
            line = read.strip() or line
            if read.startswith(SCHEMES):
                address = line
                told(address)
    finally:
        with CancelScope(shield=True), move_on_after(KILL_SECONDS):
            kill_group(process.pid)
            await process.wait()
            await kill_marked(MARK, mark)
            await process.aclose()
    return bool(address), f"with exit code {process.returncode}{f': {line}' if line else ''}"


async def _line_of(printed: BufferedByteReceiveStream) -> str:
    """Return the next line with its end; nothing at the end, or where a line is too long."""
    try:
        return (await printed.receive_until(b"\n", LONGEST_LINE)).decode("utf-8", "replace") + "\n"
    except (anyio.IncompleteRead, anyio.DelimiterNotFound):
        return ""


def check_free(address: ClusterAddress, host: str) -> None:
    """Check that a scheduler could listen at the port of ``address``; ``host`` names a network of this machine.

    Raises:
        EnvironmentFailure: something else does, or that is another machine's.
    """
    try:
        socket.create_server((host, address.port), family=AF_INET6 if ":" in host else AF_INET).close()
    except OSError as error:
        problem = (error.strerror or str(error)).partition(" (while")[0]
        raise EnvironmentFailure(
            f"no scheduler can listen at {host}:{address.port}: {problem}: end what does, or name another ADDRESS"
        ) from error


def worker_settings(
    folder: Path, labels: Mapping[str, str], resources: Mapping[str, float], environ: Mapping[str, str], lost: float
) -> WorkerSettings:
    """Return the settings of a worker of this machine, with the labels that are there by themselves; blocks."""
    return WorkerSettings(
        folder=str(folder),
        labels={**own_labels(), **labels},
        resources=resources,
        capabilities=tuple(one for one in BACKENDS if choose_sandbox(SandboxMode.AUTO, environ, [one]).sandbox),
        lost_seconds=lost,
    )


def worker_folder(cache: Path) -> tuple[Path, FileLock]:
    """Return the first folder below ``cache`` that no other worker of this machine has, and the hold on it; blocks.

    Raises:
        EnvironmentFailure: the disk refuses.
    """
    try:
        for number in range(MOST_ON_A_MACHINE):
            folder = cache / f"{socket.gethostname()}-{number}"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (lock := FileLock.acquire(folder / "lock")) is not None:
                return folder, lock
    except OSError as error:
        raise EnvironmentFailure(f"{cache} can't be written: {error.strerror}: name another with --folder") from error
    raise AssertionError(f"{MOST_ON_A_MACHINE} workers on a machine")
