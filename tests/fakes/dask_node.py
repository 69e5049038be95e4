"""A cluster's scheduler or worker as a process: ``dask_node.py scheduler [PORT]`` or ``... worker ADDRESS SLOTS``."""

from __future__ import annotations

import asyncio  # noqa: TID251  Dask's loop
import os
import sys
from typing import Any

import dask
from distributed import Scheduler, Worker

SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": int(os.environ.get("ALLOWED_FAILURES", "0")),
    "distributed.comm.timeouts.tcp": "12s",
    "distributed.worker.profile.enabled": False,
}


async def main(kind: str, *words: str) -> None:
    """Start the node, print its address, and serve until the process is killed."""
    make: Any = Scheduler if kind == "scheduler" else Worker
    settings: Any = dask
    settings.config.set(SETTINGS)
    if kind == "scheduler":
        node = make(host="127.0.0.1", port=int(words[0]) if words else 0, dashboard=False)
    else:
        node = make(
            words[0], nthreads=int(words[1]), host="127.0.0.1", dashboard=False, preload=["subagents.cluster.places"]
        )
    async with node:
        print(node.address, flush=True)  # noqa: T201  whoever started it reads it
        await node.finished()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
