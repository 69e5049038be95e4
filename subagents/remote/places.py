"""Places: the port through which attempts get places on workers, whatever cluster has those.

PlaceError
├── PlaceLostError      a worker that had a place, or was to have it, is lost
├── NoMorePlaceError    the run is to stop, and no place is wanted any more
├── PlaceFullError      another run's attempt has it meanwhile
├── WorkerRefusedError  a worker can't do it, and another may
└── ClusterGoneError    whoever gives places is not there any more
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct, field

from subagents.remote.frames import FrameLink
from subagents.step_result import ENVIRONMENT_REASON
from vibe.core.messages import NeverStop, StopSignal

LOST_SECONDS = 20.0
"""The other end of a link from which no word comes for so long is lost, unless settings say another time."""
SETTINGS_VARIABLE = "VIBE_WORKER"
"""Holds a ``WorkerSettings`` as JSON, for the worker that is started with it."""


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a worker, which whoever starts it chooses.

    ``folder`` is where it keeps projects and works (blank: a temporary one). ``capabilities`` are the sandboxes it has.
    """

    folder: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    capabilities: tuple[str, ...] = ()
    lost_seconds: float = LOST_SECONDS


def own_labels() -> dict[str, str]:
    """Return the labels that this machine has by itself."""
    return {"os": platform.system().lower(), "arch": platform.machine(), "host": socket.gethostname()}


def unmet(needs: Mapping[str, float | str], labels: Mapping[str, str], resources: Mapping[str, float]) -> str:
    """Return the first of a step's needs that a machine does not meet, in words; blank: it meets all."""
    for name, need in needs.items():
        if isinstance(need, str) and labels.get(name) != need:
            return f"{name}={need}"
        if not isinstance(need, str) and resources.get(name, 0) < need:
            return f"{name}={need:g}"
    return ""


class PlaceError(Exception):
    """An attempt has no place, or no more."""


class PlaceLostError(PlaceError):
    """The worker at ``address`` (blank: not known which) is lost, or the way there."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"worker {address} was lost: {problem}" if address else problem)
        self.address = address


class NoMorePlaceError(PlaceError):
    """The run is to stop before a place was given."""


class PlaceFullError(PlaceError):
    """The worker that was named has no room any more for what the attempt needs, or none is there after all."""


class WorkerRefusedError(PlaceError):
    """The worker at ``address`` can't do a step; with a ``reason`` that is not its surroundings, no other can."""

    def __init__(self, address: str, problem: str, reason: str = ENVIRONMENT_REASON) -> None:
        super().__init__(f"worker {address}: {problem}")
        self.reason = reason
        self.address = address


class ClusterGoneError(PlaceError):
    """The scheduler is gone, and was not back in time."""


class Wanted(Struct, frozen=True, kw_only=True):
    """The wishes of an attempt for a place: of the ``workers`` alone (none: of any), and so much of their resources.

    ``late`` is called while none is given, from a second on. ``stop``: none is wanted any more once that is requested.
    """

    priority: int = 0
    workers: tuple[str, ...] = ()
    needs: Mapping[str, float] = field(default_factory=dict[str, float])
    late: Callable[[], object] | None = None
    stop: StopSignal = NeverStop()


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker of the cluster, and what it said of itself: see ``VibeWorkerPlugin.info``; empty: it does not answer."""

    address: str
    slots: int
    host: str
    said: Mapping[str, Any]

    @property
    def room(self) -> int:
        """The number of its free slots."""
        return self.slots - self.said.get("held", 0)

    def has_room(self, needs: Mapping[str, float | str]) -> bool:
        """Return whether it could do a step with these needs now."""
        used = self.said.get("used", {})
        free = {name: amount - used.get(name, 0) for name, amount in self.said.get("resources", {}).items()}
        return self.room > 0 and not unmet(needs, self.said.get("labels", {}), free)


class Places(Protocol):
    """A cluster's places, for one run."""

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers that are there now.

        Raises:
            ClusterGoneError: nobody knows any more.
        """
        ...

    def place(self, wanted: Wanted) -> AbstractAsyncContextManager[tuple[str, FrameLink]]:
        """Wait for a place; the block has it, with the worker's address and a link to it.

        Raises:
            PlaceLostError: it was given, and is no more.
            NoMorePlaceError: ``stop`` was requested before.
            PlaceFullError: there is none after all, as where the workers that were named have no room; ask again.
            ClusterGoneError: no place will be given.
        """
        ...

    async def forget(self, address: str) -> None:
        """Have no more places given on a worker that is lost; it may come back as a new one."""
        ...
