"""The port through which attempts get places on workers, independent of the kind of cluster.

PlaceError
├── PlaceLostError      the worker with the attempt's place is lost
├── NoMorePlaceError    the run is to stop, and no place is wanted any more
├── PlaceFullError      another run's attempt got the place first
├── WorkerRefusedError  a worker can't do the step, but another may
└── ClusterGoneError    the scheduler, which gives the places, is gone
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from subagents.remote.frames import FrameLink
from subagents.step_result import ENVIRONMENT_REASON
from vibe.core.messages import NeverStop, StopSignal
from vibe.shell.sandbox.choose import BACKENDS, choose_sandbox
from vibe.shell.sandbox.settings import SandboxMode

LOST_SECONDS = 20.0
"""Seconds of silence after which the other end of a link counts as lost, unless the settings say otherwise."""
SETTINGS_VARIABLE = "VIBE_WORKER"
"""The environment variable that gives a worker its ``WorkerSettings`` as JSON."""


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a worker, chosen by whoever starts it.

    ``folder`` is where it keeps projects and works (a temporary one if blank). ``capabilities`` are its sandboxes. If
    none is named, it looks for them itself.
    """

    folder: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    capabilities: tuple[str, ...] = ()
    lost_seconds: float = LOST_SECONDS

    def complete(self, environ: Mapping[str, str]) -> WorkerSettings:
        """Return them with the labels that every machine has, and with the sandboxes of this one. Blocks."""
        found = (one for one in BACKENDS if choose_sandbox(SandboxMode.AUTO, environ, [one]).sandbox)
        return replace(self, labels={**own_labels(), **self.labels}, capabilities=self.capabilities or tuple(found))


def own_labels() -> dict[str, str]:
    """Return the labels that every machine has: ``os``, ``arch`` and ``host``."""
    return {"os": platform.system().lower(), "arch": platform.machine(), "host": socket.gethostname()}


def unmet(needs: Mapping[str, float | str], labels: Mapping[str, str], resources: Mapping[str, float]) -> str:
    """Return those of a step's needs that a machine does not meet, in words, or an empty string."""
    texts = (f"{name}={need}" for name, need in needs.items() if isinstance(need, str) and labels.get(name) != need)
    numbers = ((name, need) for name, need in needs.items() if not isinstance(need, str))
    return ", ".join([*(f"{name}={need:g}" for name, need in numbers if resources.get(name, 0) < need), *texts])


class PlaceError(Exception):
    """An attempt has no place, or has lost it."""


class PlaceLostError(PlaceError):
    """The worker at ``address`` (blank if unknown), or the connection to it, is lost."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"worker {address} was lost: {problem}" if address else problem)
        self.address = address


class NoMorePlaceError(PlaceError):
    """The run was told to stop before a place was given."""


class PlaceFullError(PlaceError):
    """The worker named for the place has no room any more for what the attempt needs, or is gone."""


class WorkerRefusedError(PlaceError):
    """The worker at ``address`` can't do a step.

    If ``reason`` is other than ENVIRONMENT_REASON, no other worker can do it either.
    """

    def __init__(self, address: str, problem: str, reason: str = ENVIRONMENT_REASON) -> None:
        super().__init__(f"worker {address}: {problem}")
        self.reason = reason
        self.address = address


class ClusterGoneError(PlaceError):
    """The scheduler is gone and did not come back in time."""


class PlaceRequest(Struct, frozen=True, kw_only=True):
    """The place that an attempt wants: on one of ``workers`` (any if empty), with the resources in ``needs``.

    ``late`` is called while no place is given, after the first second. Once ``stop`` is requested, none is wanted.
    """

    priority: int = 0
    workers: tuple[str, ...] = ()
    needs: Mapping[str, float] = field(default_factory=dict[str, float])
    late: Callable[[], object] | None = None
    stop: StopSignal = NeverStop()


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker of the cluster; ``report`` is its ``VibeWorkerPlugin.info``, empty if it does not answer."""

    address: str
    slots: int
    host: str
    report: Mapping[str, Any]

    @property
    def room(self) -> int:
        """The number of its free slots."""
        return self.slots - self.report.get("held", 0)

    def has_room(self, needs: Mapping[str, float | str]) -> bool:
        """Return whether the worker could do a step with these needs now."""
        used = self.report.get("used", {})
        free = {name: amount - used.get(name, 0) for name, amount in self.report.get("resources", {}).items()}
        return self.room > 0 and not unmet(needs, self.report.get("labels", {}), free)


class Places(Protocol):
    """The places of a cluster, for one run."""

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers that are there now.

        Raises:
            ClusterGoneError: the scheduler is gone.
        """
        ...

    def place(self, wanted: PlaceRequest) -> AbstractAsyncContextManager[tuple[str, FrameLink]]:
        """Wait for a place, and hold it while the block runs, which gets the worker's address and a link to it.

        Raises:
            PlaceLostError: the place was given and then lost.
            NoMorePlaceError: ``stop`` was requested before.
            PlaceFullError: there is no place after all, for example because the workers named have no room; ask again.
            ClusterGoneError: no place will be given.
        """
        ...

    async def forget(self, address: str) -> None:
        """Stop giving places on a worker that is lost. It may come back as a new worker."""
