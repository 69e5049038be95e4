"""A process that runs, or goes on with, a plan of short steps, until it is done or killed.

Arguments: home, plan id, name of this process, file for the effects. Each step appends ``<process> <step> begin`` and,
after a few milliseconds, ``<process> <step> end`` to that file.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import anyio
import msgspec

from ipc.sink import MemorySink
from planner.control import PlanControl
from planner.dag import Dag
from planner.dispatcher import Dispatcher
from planner.model import Plan
from planner.plan_outcome import PlanOutcome
from planner.scheduler import Scheduler
from planner.store import PlanStore
from subagents.executor import StepResult, StepTask, StopSignal
from vibe.core.outcome import Outcome


class EffectExecutor:
    """Leaves a mark in a file at the beginning and at the end of each step."""

    def __init__(self, process: str, path: Path) -> None:
        self._process = process
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do nothing much for a moment."""
        self._mark(task.step_id, "begin")
        await anyio.sleep(random.uniform(0.002, 0.012))
        self._mark(task.step_id, "end")
        seen = ",".join(f"{given.step_id}={given.summary}" for given in task.inputs)
        return StepResult(outcome=Outcome.COMPLETED, summary=f"{task.step_id}({seen})", turns=int(stop.requested))

    def _mark(self, step_id: str, what: str) -> None:
        os.write(self._fd, f"{self._process} {step_id} {what}\n".encode())


async def go_on(store: PlanStore, executor: EffectExecutor) -> PlanOutcome:
    """Run the plan of the store to its end."""
    plan = Plan.model_validate(msgspec.json.decode(store.folder.source())).resolved()
    restored = store.replay()
    dag = Dag.build(plan.steps)
    scheduler = Scheduler(plan, dag, max_parallel=3, restored=restored.steps, decisions=restored.decisions)
    dispatcher = Dispatcher(plan=plan, scheduler=scheduler, executor=executor, store=store, sink=MemorySink())
    sys.stdout.write("running\n")
    sys.stdout.flush()
    return await dispatcher.run(PlanControl())


def main(home: str, plan_id: str, process: str, effects: str) -> int:
    """Exit code 0 if the plan completed."""
    with PlanStore.open(Path(home), plan_id) as store:
        outcome = anyio.run(go_on, store, EffectExecutor(process, Path(effects)))
    return 0 if outcome.outcome is Outcome.COMPLETED else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
