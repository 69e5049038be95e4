"""Options of a plan's run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from planner.plan.step_limits import USUAL, StepLimits
from planner.run.replanner import ReplanPolicy
from planner.run.timers import Clock, Sleep, steady_time
from planner.run.watchdog import ActivitySink
from vibe.core.messages import Usage
from vibe.core.modes import ExecutionMode


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """Options of a run. Times in seconds.

    ``attended``: somebody is there to take decisions; if not, the plan pauses as soon as only decisions without a
    timeout are left to wait for. ``write_results``: put
    ``result.json`` beside each step's conversation (the journal holds the result in any case). ``activity``: the sink
    that the executor's events pass through; None: no step is ended for being idle. ``clock`` and ``sleep`` belong
    together, ``now`` tells unix seconds. ``replanning``: who is asked when a step with ``on_failure: replan`` failed.
    ``spent_by`` tells, from files, what an attempt by step and number used and cost (None: unknown) that was cancelled.
    ``step_limits`` are for steps that name none.
    """

    attended: bool = False
    step_limits: Mapping[ExecutionMode, StepLimits] = field(default_factory=lambda: USUAL)
    write_results: bool = True
    activity: ActivitySink | None = None
    version: str = ""
    replanning: ReplanPolicy = field(default_factory=ReplanPolicy)
    spent_by: Callable[[str, int], tuple[Usage, float | None]] | None = None
    clock: Clock = time.monotonic
    sleep: Sleep = anyio.sleep
    now: Callable[[], float] = field(default_factory=steady_time)
