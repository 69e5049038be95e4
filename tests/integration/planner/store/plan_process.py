"""A process that runs or resumes a plan of short steps, until it is done or killed.

Arguments: home, plan id, name of this process, file for the marks, and the moment at which the process is killed: after
a number of marks (-1: never) and a number of seconds. Each step writes a mark to that file when it begins, ``<process>
<step> begin``, and another a few milliseconds later, ``<process> <step> end``.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import anyio
from anyio import to_thread

from ipc.sink import MemorySink
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher
from planner.state.outcome import RunResult
from planner.store.store import PlanStore
from subagents.executor import StepResult, StepTask, StopSignal
from vibe.core.messages import Outcome


class EffectExecutor:
    """Writes a mark at the beginning and the end of each step, and has the process killed at its moment."""

    def __init__(self, process: str, path: Path, marks: int, seconds: float) -> None:
        self._process = process
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._marks_left = marks
        self._seconds = seconds

    def doom(self) -> None:
        """Have the process killed after the seconds, once it has written its marks."""
        if self._marks_left == 0:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)  # nobody handles SIGALRM, so it kills
        self._marks_left -= 1

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Sleep for a few milliseconds, between the two marks."""
        self._mark(task.step_id, "begin")
        await anyio.sleep(random.uniform(0.002, 0.012))
        self._mark(task.step_id, "end")
        seen = ",".join(f"{given.step_id}={given.summary}" for given in task.inputs)
        return StepResult(outcome=Outcome.COMPLETED, summary=f"{task.step_id}({seen})", turns=int(stop.requested))

    def _mark(self, step_id: str, what: str) -> None:
        os.write(self._fd, f"{self._process} {step_id} {what}\n".encode())
        self.doom()


async def go_on(store: PlanStore, executor: EffectExecutor) -> RunResult:
    """Run the plan of the store to its end."""
    loaded = await to_thread.run_sync(store.effective)
    dispatcher = Dispatcher(loaded=loaded, width=3, executor=executor, store=store, sink=MemorySink())
    executor.doom()
    return await dispatcher.run(PlanControl())


def main(arguments: list[str]) -> int:
    """Run the plan, and return exit code 0 if it completed."""
    home, plan_id, process, effects, marks, seconds = arguments
    with PlanStore.open(Path(home), plan_id) as store:
        outcome = anyio.run(go_on, store, EffectExecutor(process, Path(effects), int(marks), float(seconds)))
    return 0 if outcome.outcome is Outcome.COMPLETED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
