"""A node of a cluster: ``python -P -m subagents.cluster.node KIND ADDRESS SLOTS FOLDER PARENT [CERTIFICATES...]``.

KIND is ``scheduler``, which listens at ADDRESS, or ``worker``, whose scheduler is there; FOLDER is for files of Dask.
It says its own address on standard output once it serves, and dies with the process that started it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import dask
from distributed import Scheduler, Worker
from distributed.security import Security

from vibe.system.process import die_with

LOOPBACK = "127.0.0.1"
SETTINGS: dict[str, Any] = {
    "distributed.comm.timeouts.connect": "12s",
    "distributed.comm.timeouts.tcp": "12s",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.default-task-durations": {"vibe-step": "5m"},
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}
"""Dask's settings for us: an attempt at a step is no small computation, and never made again by Dask."""
FOLDER = "temporary-directory"
NO_PAGE = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
"""Dask has a server for pages even so, which then has none."""
PRELOAD = "subagents.cluster.places"
_DASK: Any = dask
_SCHEDULER: Any = Scheduler
_WORKER: Any = Worker


def security_of(certificates: Sequence[str]) -> Security:
    """Return the security of links by the files of an authority, a certificate and its key; none: those of loopback."""
    if not certificates:
        return Security()
    ca, certificate, key = certificates
    own: dict[str, Any] = {f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")}
    own |= {f"tls_{role}_key": key for role in ("client", "scheduler", "worker")}
    return Security(require_encryption=True, tls_ca_file=ca, **own)


@asynccontextmanager
async def scheduler_at(address: str, folder: str, certificates: Sequence[str]) -> AsyncGenerator[str]:
    """Have a scheduler in this process, and yield its address."""
    protocol, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    security = security_of(certificates)
    with _DASK.config.set({**SETTINGS, FOLDER: folder}):
        options = {"port": int(port), "protocol": f"{protocol}://", "security": security, **NO_PAGE}
        async with _SCHEDULER(host=host.strip("[]"), **options) as scheduler:
            yield scheduler.address


async def serve(kind: str, address: str, slots: int, folder: str, certificates: Sequence[str]) -> None:
    """Serve until the node ends: a worker's scheduler is gone, or it was taken off that one's list."""
    if kind == "scheduler":
        async with scheduler_at(address, folder, certificates) as own:
            _say(own)
            await anyio.sleep_forever()
    # What is on loopback stays there: without an address of its own a worker listens on all.
    host = LOOPBACK if not certificates else None
    with _DASK.config.set({**SETTINGS, FOLDER: folder}):
        node = _WORKER(
            address, nthreads=slots, host=host, memory_limit=0, security=security_of(certificates), preload=[PRELOAD],
            **NO_PAGE,
        )  # fmt: skip
        async with node:
            _say(node.address)
            await node.finished()


def _say(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> None:
    """Be a node."""
    kind, address, slots, folder, parent, *certificates = words
    die_with(int(parent))
    logging.getLogger("distributed").setLevel(logging.WARNING)
    anyio.run(serve, kind, address, int(slots), folder, certificates)


if __name__ == "__main__":
    main(sys.argv[1:])
