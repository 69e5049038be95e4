"""How a run of a plan goes, and what it needs of a scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from planner.idle import ActivitySink
from planner.instructions import Instruction, SchedulerEvent
from planner.model import StepStatus
from planner.revising import ReplanPolicy
from planner.step_limits import USUAL, StepLimits
from planner.timers import Clock, Sleep, steady_time
from vibe.core.messages import Usage
from vibe.core.modes import ExecutionMode


class StepScheduler(Protocol):
    """Decides what runs when; ``planner.scheduler.Scheduler`` does."""

    def start(self) -> list[Instruction]:
        """The first instructions."""
        ...

    def handle(self, event: SchedulerEvent) -> list[Instruction]:
        """The instructions that follow from an event; none after EndPlan."""
        ...

    def rank(self, step_id: str) -> int:
        """A step's place in the order in which steps that can run are started, 0 first."""
        ...

    def step_status(self, step_id: str) -> StepStatus:
        """Where a step stands."""
        ...

    def statuses(self) -> Mapping[str, StepStatus]:
        """Where every step stands."""
        ...

    def counts(self) -> dict[str, int]:
        """Steps per status."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """How a run goes. Times in seconds.

    ``attended``: somebody is there to take decisions; if not, the plan pauses as soon as only decisions without a
    timeout are left to wait for. ``write_results``: put
    ``result.json`` beside each step's conversation (the journal holds the result in any case). ``activity``: the sink
    that the executor's events pass through; None: no step is ended for being idle. ``clock`` and ``sleep`` belong
    together, ``now`` tells unix seconds. ``replanning``: who is asked when a step with ``on_failure: replan`` failed.
    ``sync_events`` puts all that was announced so far on disk, in a worker thread; no step counts as done before. ``spent_by``
    tells, from files, what an attempt by step and number used and cost (None: unknown) that was cancelled. ``step_limits`` are
    for steps that name none.
    """

    attended: bool = False
    step_limits: Mapping[ExecutionMode, StepLimits] = field(default_factory=lambda: USUAL)
    write_results: bool = True
    activity: ActivitySink | None = None
    version: str = ""
    replanning: ReplanPolicy = field(default_factory=ReplanPolicy)
    sync_events: Callable[[], None] | None = None
    spent_by: Callable[[str, int], tuple[Usage, float | None]] | None = None
    clock: Clock = time.monotonic
    sleep: Sleep = anyio.sleep
    now: Callable[[], float] = field(default_factory=steady_time)
