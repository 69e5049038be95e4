"""A StepExecutor that follows a script and records what it was asked to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import anyio
import anyio.lowlevel

from subagents.executor import StepResult, StepTask, StopSignal
from vibe.core.messages import Outcome

Act: TypeAlias = StepResult | Exception | Callable[[StepTask, StopSignal], Awaitable[StepResult]]


def completed(summary: str = "done") -> StepResult:
    """Return the result of a step that succeeded."""
    return StepResult(outcome=Outcome.COMPLETED, summary=summary)


def failed(reason: str = "verify", detail: str = "it does not work") -> StepResult:
    """Return the result of an attempt that failed."""
    return StepResult(outcome=Outcome.FAILED, reason=reason, detail=detail)


async def until_stopped(task: StepTask, stop: StopSignal) -> StepResult:
    """Run until a stop is requested, as a subagent does between turns."""
    while not stop.requested:  # noqa: ASYNC110  a stop signal can only be polled
        await anyio.sleep(0.001)
    return StepResult(outcome=Outcome.INTERRUPTED, summary=f"{task.step_id} stopped")


async def forever(task: StepTask, stop: StopSignal) -> StepResult:
    """Run forever, ignoring the stop signal."""
    await anyio.sleep_forever()
    raise AssertionError(f"{task.step_id} woke up, stop {stop.requested}")


class ScriptedExecutor:
    """Plays the next act of a step's script in each attempt. The last act is repeated; without a script, steps
    complete.

    ``tasks`` holds every task in the order of starts, ``ended`` the ids in the order of ends, and ``cancelled`` the ids
    of those that were cancelled. ``most`` is the largest number that ran side by side.
    """

    def __init__(self, script: Mapping[str, Act | list[Act]] | None = None) -> None:
        self._script: dict[str, list[Act]] = {}
        for step_id, acts in (script or {}).items():
            self._script[step_id] = [*acts] if isinstance(acts, list) else [acts]
        self._changed = anyio.Event()
        self.tasks: list[StepTask] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.running: set[str] = set()
        self.most = 0

    @property
    def started(self) -> list[str]:
        """The ids of the steps in the order of their starts."""
        return [task.step_id for task in self.tasks]

    @property
    def starts(self) -> Mapping[str, int]:
        """The number of starts of each step."""
        counts: defaultdict[str, int] = defaultdict(int)
        for step_id in self.started:
            counts[step_id] += 1
        return counts

    def task(self, step_id: str) -> StepTask:
        """Return the latest task of a step."""
        return next(task for task in reversed(self.tasks) if task.step_id == step_id)

    async def until_running(self, *step_ids: str) -> None:
        """Wait until all of these steps are running."""
        while not self.running.issuperset(step_ids):
            await self._changed.wait()

    async def until_ended(self, *step_ids: str) -> None:
        """Wait until all of these steps have ended."""
        while not set(self.ended).issuperset(step_ids):
            await self._changed.wait()

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Play the next act of the step's script."""
        self.tasks.append(task)
        self.running.add(task.step_id)
        self.most = max(self.most, len(self.running))
        self._announce()
        try:
            await anyio.lowlevel.checkpoint()
            return await self._act(task, stop)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(task.step_id)
            raise
        finally:
            self.running.discard(task.step_id)
            self.ended.append(task.step_id)
            self._announce()

    async def _act(self, task: StepTask, stop: StopSignal) -> StepResult:
        acts = self._script.get(task.step_id, [])
        if not acts:
            return completed(f"{task.step_id} done")
        act = acts.pop(0) if len(acts) > 1 else acts[0]
        if isinstance(act, Exception):
            raise act
        return act if isinstance(act, StepResult) else await act(task, stop)

    def _announce(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
