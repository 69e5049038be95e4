"""The plugin that makes a Dask worker a worker of vibe; ``--preload subagents.cluster.places`` loads it.

A worker's slots are its ``nthreads``. A place is a task, ``hold``, which takes a slot until the run has come and gone.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from distributed import Worker, get_worker
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin
from msgspec import Struct, field, json, to_builtins
from tornado.ioloop import PeriodicCallback

from subagents.cluster.comm_link import comm_link
from subagents.process.protocol import Hello, LinkError
from subagents.remote.place import WorkerPlace
from subagents.remote.places import SETTINGS_VARIABLE, WorkerSettings
from vibe.system.programs import find_program

PLUGIN = "vibe"
FORK_SERVER = "_VIBE_FORK_SERVER"
"""The variable with the descriptor of a worker's socket to its node's fork server, which has loaded STEP_MODULE."""
TAKE_SECONDS = 20.0
"""Seconds after which a place ends if no run has come for it."""
SWEEP_MS = 5_000
"""Milliseconds between two sweeps of runs that have ended."""
POLL_SECONDS = 0.1
"""Seconds between two looks, while closing, whether attempts are at work."""


class _Held(Struct, eq=False):
    """A place that waits for its run, or is in use by it."""

    needs: Mapping[str, float]
    taken: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


class VibeWorkerPlugin(WorkerPlugin):
    """Lets runs use their places on this worker, over links of their own (``vibe_link``)."""

    name = PLUGIN
    idempotent = True

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._held: dict[str, _Held] = {}

    async def setup(self, worker: Any) -> None:
        """Make the folders, and register the handlers for runs' calls. Dask calls this."""
        self.folder = Path(self.settings.folder or tempfile.mkdtemp(prefix="vibe-worker-"))
        settings = ("DASK_", SETTINGS_VARIABLE, FORK_SERVER)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
        fork_server = socket.socket(fileno=int(os.environ[FORK_SERVER])) if FORK_SERVER in os.environ else None
        self.place = WorkerPlace(self.folder, environ, self.settings.capabilities, fork_server)
        await anyio.to_thread.run_sync(self.place.prepare)
        handlers: dict[str, Any] = {"vibe_link": self.link, "vibe_over": self.place.end_run, "vibe_info": self.info}
        worker.handlers.update(handlers)
        worker.periodic_callbacks[PLUGIN] = PeriodicCallback(self.place.sweep, SWEEP_MS)

    async def teardown(self, worker: Worker) -> None:
        """Wait for attempts at work to end, as when the scheduler is gone, then forget all runs. Dask calls this."""
        del worker
        while self.place.at_work:  # each ends with its link at the latest  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)
        await self.place.close()

    async def link(self, comm: Any, attempt: str) -> Status:
        """Serve the run that comes for an attempt, over a link that takes the comm over."""
        async with comm_link(comm, self.settings.lost_seconds) as link:
            held = self._held.get(attempt)
            if held is not None and not held.taken.is_set():
                held.taken.set()
                try:
                    await self.place.serve(link, attempt)
                except LinkError:
                    pass  # the run notices, too, that the link has ended
                finally:
                    held.over.set()
        return Status.dont_reply

    async def info(self) -> Mapping[str, Any]:
        """Return what this worker has and is doing, as plain values."""
        info = {**to_builtins(self.settings), "pid": os.getpid(), "steps": dict(self.place.at_work)}
        info |= {"used": self.used(), "held": len(self._held)}
        return {**info, **await anyio.to_thread.run_sync(self._system)}

    def _system(self) -> Mapping[str, Any]:
        """Return the versions, git and free disk space of this machine. Blocks."""
        own = Hello.own(())
        free = shutil.disk_usage(self.folder).free
        return {"vibe": own.vibe, "python": own.python, "git": str(find_program("git", os.environ) or ""), "free": free}

    def used(self) -> dict[str, float]:
        """Return how much of each resource is in use."""
        used: dict[str, float] = {}
        for held in self._held.values():
            for name, amount in held.needs.items():
                used[name] = used.get(name, 0) + amount
        return used

    async def hold(self, worker: Worker, topic: str, attempt: str, needs: Mapping[str, float]) -> str:
        """Announce that an attempt has a place here, and keep the place until the run has come and gone."""
        used = self.used()
        full = any(used.get(name, 0) + amount > self.settings.resources.get(name, 0) for name, amount in needs.items())
        worker.log_event(topic, {"attempt": attempt, "at": worker.address, "full": full})
        if full:
            return "full"
        held = self._held[attempt] = _Held(needs)
        try:
            with anyio.move_on_after(TAKE_SECONDS):
                await held.taken.wait()
            if not held.taken.is_set():
                return "nobody came"
            await held.over.wait()
        finally:
            del self._held[attempt]
        return "over"


async def hold(topic: str, attempt: str, needs: Mapping[str, float]) -> str:
    """Hold a place on the worker that runs this task."""
    worker = get_worker()
    plugin = worker.plugins.get(PLUGIN)
    if not isinstance(plugin, VibeWorkerPlugin):
        raise TypeError(f"worker {worker.address} was not started by `vibe cluster worker`")
    return await plugin.hold(worker, topic, attempt, needs)


async def dask_setup(worker: Worker) -> None:
    """Make a Dask worker a worker of vibe. Dask's preload calls this."""
    given = json.decode(os.environ.get(SETTINGS_VARIABLE) or "{}", type=WorkerSettings)
    settings = await anyio.to_thread.run_sync(given.complete, dict(os.environ))
    await worker.plugin_add(VibeWorkerPlugin(settings), name=PLUGIN)
