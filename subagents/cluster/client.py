"""A run's connection to a Dask cluster: gets places for attempts on its workers, and links to them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from time import time
from typing import Any, Self
from uuid import uuid4

import anyio
from dask._task_spec import Task
from distributed import Client
from distributed.security import Security
from msgspec import Struct, field

from subagents.cluster.comm_link import RELAY, RelayPlugin, call_handler, comm_link
from subagents.cluster.places import hold
from subagents.remote import places
from subagents.remote.frames import FrameLink

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 8.0
"""Seconds that connecting to the scheduler may take."""
LATE_SECONDS = 1.0
"""Seconds without a place after which ``PlaceRequest.late`` is called."""
INFO_SECONDS = 2.0
"""Seconds that all workers have to answer; a frozen one never does."""
ANNOUNCE_SECONDS = 12.0
"""Seconds that a worker has to announce a place the scheduler gave it, before the worker itself is asked."""
ASK_SECONDS = 5.0
"""Seconds that such a question to one worker may take, and also closing the connection."""
BACK_SECONDS = 30.0
"""Seconds that a scheduler which is gone has to come back."""
POLL_SECONDS = 0.25
"""Seconds between two looks at the state of the connection while waiting."""
_CLIENT: Any = Client
BROKEN = (OSError, TimeoutError, ValueError, TypeError, RuntimeError)
"""Errors of Dask when the scheduler or a worker is gone."""


class _Waiter(Struct, eq=False):
    """An attempt that waits for a place."""

    announced: anyio.Event = field(default_factory=anyio.Event)
    at: str = ""
    full: bool = False


class ClusterClient:
    """A run's connection to a cluster, as a context manager; see ``subagents.remote.places.Places``."""

    def __init__(
        self, address: str, security: Security | None = None, *, run: str, lost_seconds: float = places.LOST_SECONDS
    ) -> None:
        self._address = address
        self._security: Any = security or Security()
        self._topic = f"vibe-{run}"
        self._run = run
        self._lost_seconds = lost_seconds
        self._waiting: dict[str, _Waiter] = {}
        self._client: Any = None
        self._comm: object = None
        self._relayed: set[str] = set()
        self._given_up = ""

    async def __aenter__(self) -> Self:
        """Connect to the scheduler.

        Raises:
            OSError, TimeoutError: there is no scheduler, or it can't be talked to.
        """
        with anyio.fail_after(CONNECT_SECONDS):
            self._client = await _CLIENT(
                self._address, asynchronous=True, security=self._security, timeout=BACK_SECONDS, set_as_default=False
            )
        self._subscribe()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tell the workers that the run is over, and disconnect."""
        if self._client.status == "running":
            with suppress(*BROKEN), anyio.move_on_after(INFO_SECONDS, shield=True):
                await self._scheduler.broadcast(msg={"op": "vibe_over", "run": self._run}, on_error="return")
        with anyio.move_on_after(ASK_SECONDS, shield=True):
            await self._client.close()

    @property
    def _scheduler(self) -> Any:
        return self._client.scheduler

    async def workers(self) -> Sequence[places.WorkerInfo]:
        """See ``Places``."""
        while True:
            self._check_scheduler()
            with suppress(*BROKEN):
                known = (await self._scheduler.identity(n_workers=-1))["workers"]
                reports = await self._info_of([*known])
                return [
                    places.WorkerInfo(address=address, slots=one["nthreads"], host=one["host"], report=reports[address])
                    for address, one in known.items()
                    if isinstance(reports[address], Mapping)
                ]
            await anyio.sleep(POLL_SECONDS)

    async def _info_of(self, workers: Sequence[str]) -> Mapping[str, Any]:
        """Return the ``info`` of each worker, empty for one that does not answer."""
        found: dict[str, Any] = {worker: {} for worker in workers}

        async def ask(worker: str) -> None:  # each by itself, because a frozen worker would hold up all answers
            with suppress(*BROKEN), anyio.move_on_after(INFO_SECONDS):
                call = {"msg": {"op": "vibe_info"}, "workers": [worker], "on_error": "return"}
                found.update(await self._scheduler.broadcast(**call))

        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(ask, worker)
        return found

    def give_up(self, why: str) -> None:
        """Accept no more places for this run; ``why`` is the reason that callers get."""
        self._given_up = why

    async def forget(self, address: str) -> None:
        """See ``Places``. A worker that answers the scheduler is kept; any other ends once its attempts have ended."""
        with suppress(*BROKEN), anyio.move_on_after(INFO_SECONDS + ASK_SECONDS):
            report = (await self._info_of([address]))[address]
            if isinstance(report, Mapping) and report:
                return
            await self._scheduler.unregister(address=address, stimulus_id=f"vibe-lost-{time()}")

    @asynccontextmanager
    async def place(self, wanted: places.PlaceRequest) -> AsyncGenerator[tuple[str, FrameLink]]:
        """See ``Places``."""
        self._check_scheduler()
        self._subscribe()
        attempt = uuid4().hex
        waiter = self._waiting[attempt] = _Waiter()
        key = f"vibe-step-{attempt}"
        # A task that produces data waits in the scheduler until a slot is free anywhere, not at one busy worker.
        task = Task(key, hold, self._topic, attempt, dict(wanted.needs), _data_producer=True)
        kept = {"sync": False, "retries": 0, "priority": wanted.priority, "workers": list(wanted.workers) or None}
        future = self._client.get({key: task}, [key], **kept)[0]
        try:
            address = await self._announced(waiter, wanted, key, future)
            async with comm_link(await self._connect(address, attempt), self._lost_seconds) as link:
                yield address, link
        finally:
            self._waiting.pop(attempt, None)
            with suppress(*BROKEN):
                future.release()

    def _check_scheduler(self) -> None:
        """Check that the scheduler is there, or may still come back.

        Raises:
            ClusterGoneError: it did not come back in time, or ``give_up`` was called.
        """
        if self._given_up:
            raise places.ClusterGoneError(self._given_up)
        if self._client.status in {"closing", "closed"}:
            raise places.ClusterGoneError(
                f"the scheduler at {self._address} is gone, and was not back within {BACK_SECONDS:g} s"
            )

    def _subscribe(self) -> None:
        """Subscribe to announcements of places, and again if the scheduler was gone meanwhile."""
        if self._comm is not self._client.scheduler_comm:
            self._comm = self._client.scheduler_comm
            self._client.subscribe_topic(self._topic, self._take_announcement)

    async def _announced(self, waiter: _Waiter, wanted: places.PlaceRequest, key: str, future: Any) -> str:
        began = anyio.current_time()
        asks = began + ANNOUNCE_SECONDS
        while not waiter.announced.is_set():
            self._check_scheduler()
            if future.cancelled():  # the connection ended
                raise places.PlaceFullError
            if future.done():
                raise places.PlaceLostError("", f"a worker that was to take it was lost ({await _problem(future)})")
            if wanted.stop.requested:
                raise places.NoMorePlaceError
            if wanted.late is not None and anyio.current_time() - began >= LATE_SECONDS:
                wanted.late()
            if anyio.current_time() >= asks:
                await self._check_assigned_worker(key)
                asks = anyio.current_time() + ANNOUNCE_SECONDS / 4
            with anyio.move_on_after(POLL_SECONDS):
                await waiter.announced.wait()
        if waiter.full:
            raise places.PlaceFullError
        return waiter.at

    async def _check_assigned_worker(self, key: str) -> None:
        """Ask the worker to which the scheduler gave an attempt, if any, whether it is alive.

        Raises:
            PlaceLostError: it does not answer.
        """
        with suppress(*BROKEN), anyio.move_on_after(ASK_SECONDS):
            held: Mapping[str, Sequence[str]] = await self._scheduler.processing(workers=None)
            address = next((worker for worker, keys in held.items() if key in keys), "")
            if not address:
                return
            with anyio.move_on_after(ASK_SECONDS - 0.5) as silent:  # through the scheduler, which can surely reach it
                await self._scheduler.broadcast(msg={"op": "vibe_info"}, workers=[address])
            if silent.cancelled_caught:
                raise places.PlaceLostError(address, "it took the step and did not answer")

    async def _connect(self, address: str, attempt: str) -> Any:
        """Return a comm to a worker's handler: a direct one, or one through the scheduler if that has failed once.

        Raises:
            PlaceLostError: the worker can be reached neither way.
        """
        security = self._client.connection_args
        call = {"op": "vibe_link", "attempt": attempt, "reply": False}
        if address not in self._relayed:
            try:
                return await call_handler(address, security, call)
            except BROKEN:
                self._relayed.add(address)
        try:
            await self._client.register_plugin(RelayPlugin())
            return await call_handler(self._scheduler.address, security, {**call, "op": RELAY, "to": address})
        except BROKEN as error:
            raise places.PlaceLostError(address, f"it can't be reached: {error or type(error).__name__}") from error

    def _take_announcement(self, event: tuple[float, Any]) -> None:
        """Take the announcement of a place. Only the first for an attempt counts."""
        place = event[1]
        waiter = self._waiting.get(place["attempt"])
        if waiter is None or waiter.announced.is_set():
            logger.warning("a second place for an attempt, at %s, is left alone", place["at"])
            return
        waiter.at, waiter.full = place["at"], place["full"]
        waiter.announced.set()


async def _problem(future: Any) -> str:
    """Return a description of why a task is over."""
    try:
        return str(await future.result())
    except Exception as error:  # noqa: BLE001  whatever the task raised, or the scheduler reported about it
        return f"{type(error).__name__}: {error}"
