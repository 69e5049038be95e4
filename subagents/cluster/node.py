"""A node of a cluster: ``python -m subagents.cluster.node KIND ADDRESS SLOTS FOLDER PARENT COUNT [CERTIFICATES...]``.

KIND is ``scheduler``, which listens at ADDRESS, or ``worker``, whose scheduler is at ADDRESS. FOLDER is for Dask's
files. A node prints its own address on standard output once it serves, and dies with the process that started it.
With a COUNT it is that many workers, each forked from this process and with its own folder in FOLDER.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import dask
from distributed import Scheduler, Worker
from distributed.security import Security
from msgspec import json, structs

from subagents.cluster.places import FORK_SERVER, SETTINGS_VARIABLE, WorkerSettings
from subagents.process.child_process import STEP_MODULE
from subagents.process.fork_server import start_fork_server
from vibe.system.process import die_with, kill_marked

LOOPBACK = "127.0.0.1"
SETTINGS: dict[str, Any] = {
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "1s",
    "distributed.comm.timeouts.connect": "12s",
    "distributed.comm.timeouts.tcp": "12s",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.default-task-durations": {"vibe-step": "5m"},
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}
"""Dask's settings for vibe: an attempt at a step is long, unlike most tasks of Dask, and Dask must never repeat it.

Dask measures its own loop and the machine; nobody reads that here, so it does it rarely.
"""
FOLDER = "temporary-directory"
"""Dask's setting of the folder for its files."""
NO_PAGE = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
"""Options that turn off Dask's web pages. Dask starts a server for them all the same, but it serves none."""
PRELOAD = "subagents.cluster.places"
FORK_MARK = "_VIBE_WORKER"
"""The variable that every process started by a forked worker inherits."""
AGAIN_SECONDS = 1.0
"""Seconds between the end of a worker and the fork of its successor."""
_DASK: Any = dask
_SCHEDULER: Any = Scheduler
_WORKER: Any = Worker


class NodeFormatter(logging.Formatter):
    """Describes the error of a lost link, which is no fault of a node, in a line; any other with its traceback."""

    def formatException(self, ei: Any) -> str:  # noqa: N802  as the base class says it
        """Describe an error."""
        return f"{ei[0].__name__}: {ei[1]}" if isinstance(ei[1], OSError) else super().formatException(ei)


def security_of(certificates: Sequence[str]) -> Security:
    """Return the security settings of links: by the files of an authority, a certificate and its key, or none.

    Without certificates nodes talk only over loopback.
    """
    if not certificates:
        return Security()
    ca, certificate, key = certificates
    own: dict[str, Any] = {f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")}
    own |= {f"tls_{role}_key": key for role in ("client", "scheduler", "worker")}
    return Security(require_encryption=True, tls_ca_file=ca, **own)


@asynccontextmanager
async def scheduler_at(address: str, folder: str, certificates: Sequence[str]) -> AsyncGenerator[str]:
    """Run a scheduler in this process while the block runs, and yield its address."""
    protocol, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    security = security_of(certificates)
    with _DASK.config.set({**SETTINGS, FOLDER: folder}):
        options = {"port": int(port), "protocol": f"{protocol}://", "security": security, **NO_PAGE}
        async with _SCHEDULER(host=host.strip("[]"), **options) as scheduler:
            yield scheduler.address


async def serve(kind: str, address: str, slots: int, folder: str, certificates: Sequence[str]) -> None:
    """Serve until the node ends: a worker ends when its scheduler is gone or has removed it."""
    if kind == "scheduler":
        async with scheduler_at(address, folder, certificates) as own:
            _print_address(own)
            await anyio.sleep_forever()
    # Without certificates a worker must stay on loopback; without an address of its own it would listen on all.
    host = LOOPBACK if not certificates else None
    with _DASK.config.set({**SETTINGS, FOLDER: folder}):
        node = _WORKER(
            address, nthreads=slots, host=host, memory_limit=0, security=security_of(certificates), preload=[PRELOAD],
            **NO_PAGE,
        )  # fmt: skip
        async with node:
            _print_address(node.address)
            await node.finished()


def _print_address(address: str) -> None:
    os.write(sys.stdout.fileno(), f"{address}\n".encode())  # at once: workers share the pipe


def fork_workers(folder: Path, count: int) -> Path:
    """Fork ``count`` workers, and another one whenever one ends. Returns in each worker, with the worker's folder.

    They share the modules that this process has loaded: importing Dask takes longer than all else a worker does before
    it serves. What a worker leaves running is killed. If a worker exits with an error, this process exits with its code
    and takes the other workers with it; the run starts the node again, or gives it up.
    """
    settings = json.decode(os.environ[SETTINGS_VARIABLE], type=WorkerSettings).complete(os.environ)
    parent, mark = os.getpid(), os.urandom(16).hex()
    numbers: dict[int, int] = {}
    if sys.platform.startswith("linux"):
        os.environ[FORK_SERVER] = str(start_fork_server(STEP_MODULE).detach())
    while True:
        for number in {*range(count)}.difference(numbers.values()):
            pid, own = os.fork(), folder / f"worker-{number}"
            if not pid:
                die_with(parent)
                own_settings = json.encode(structs.replace(settings, folder=str(own)))
                os.environ.update({FORK_MARK: f"{mark}-{number}", SETTINGS_VARIABLE: own_settings.decode()})
                return own
            numbers[pid] = number
        pid, status = os.wait()
        if pid not in numbers:
            continue  # the fork server: workers do without it
        anyio.run(kill_marked, FORK_MARK, f"{mark}-{numbers.pop(pid)}")
        if (code := os.waitstatus_to_exitcode(status)) > 0:
            sys.exit(code)
        time.sleep(AGAIN_SECONDS)


def main(words: Sequence[str]) -> None:
    """Run a node until it ends."""
    kind, address, slots, folder, parent, count, *certificates = words
    die_with(int(parent))
    handler = logging.StreamHandler()
    handler.setFormatter(NodeFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    own = fork_workers(Path(folder), int(count)) / "dask" if int(count) else folder
    try:
        anyio.run(serve, kind, address, int(slots), str(own), certificates)
    except RuntimeError as error:  # what Dask makes of any error at the start
        if not isinstance(error.__cause__, OSError):
            raise
        sys.exit(f"{error} {error.__cause__}")


if __name__ == "__main__":
    main(sys.argv[1:])
