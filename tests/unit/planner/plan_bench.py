"""Runs plans in a home of their own with a scripted executor, one run after the other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ipc.events import PlanDecisionEvent, PlanStepUpdateEvent, WarningEvent
from ipc.sink import MemorySink
from planner.plan.model import Plan
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher
from planner.run.step_runner import DispatchOptions
from planner.state.outcome import RunResult
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from subagents.executor import StepExecutor
from tests.fakes.clock import ManualClock, SleepyClock

CHOICE = {
    "id": "choice",
    "question": "Which?",
    "options": [{"id": "left", "label": "Left"}, {"id": "right", "label": "Right"}],
}


def plan_of(steps: Mapping[str, Sequence[str] | Mapping[str, Any]], **fields: Any) -> Plan:
    """Return a plan, with each step given by its dependencies or its fields."""
    documents = [
        {"id": step_id, "title": f"Step {step_id}", "mode": "code", "writes": [f"{step_id}.txt"]}
        | (dict(given) if isinstance(given, Mapping) else {"depends_on": list(given)})
        for step_id, given in steps.items()
    ]
    return Plan.model_validate({"version": 1, "goal": "a goal", "context": "some context", "steps": documents} | fields)


@dataclass
class Bench:
    """Runs plans in one home, and gives access to what the runs left behind."""

    home: Path
    plan: Plan
    options: DispatchOptions = field(default_factory=DispatchOptions)
    max_parallel: int = 4
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    plan_id: str = ""
    memory: MemorySink = field(default_factory=MemorySink)

    def open(self) -> PlanStore:
        if self.plan_id:
            return PlanStore.open(self.home, self.plan_id)
        settings = RunSettings(workspace="/w", max_parallel=self.max_parallel, decisions=self.flags)
        source = self.plan.model_dump_json(exclude_unset=True).encode()
        store = PlanStore.create(self.home, settings, source)
        self.plan_id = store.plan_id
        return store

    async def run(
        self,
        executor: StepExecutor,
        meanwhile: Callable[[PlanControl], Coroutine[Any, Any, None]] | None = None,
        *,
        clock: SleepyClock | ManualClock | None = None,
    ) -> RunResult:
        self.memory.events.clear()
        store = await to_thread.run_sync(self.open)
        options = self.options
        if clock is not None:
            options = replace(options, clock=clock, sleep=clock.sleep)
        with store:
            loaded = await to_thread.run_sync(store.effective)
            dispatcher = Dispatcher(
                loaded=loaded,
                width=self.max_parallel,
                executor=executor,
                store=store,
                sink=self.memory,
                options=options,
            )
            control = PlanControl()
            outcomes: list[RunResult] = []
            with anyio.fail_after(120):
                async with anyio.create_task_group() as tasks:
                    if meanwhile is not None:
                        tasks.start_soon(meanwhile, control)
                    outcomes.append(await dispatcher.run(control))
            return outcomes[0]

    async def edit(self, change: Callable[[PlanStore], object]) -> None:
        """Change the plan while nobody runs it."""

        def carry_out() -> None:
            with self.open() as store:
                change(store)

        await to_thread.run_sync(carry_out)

    async def forget(self, first: bytes, *, keep: int = 0) -> int:
        """Cut the journal ``keep`` lines after the start of the first line that contains ``first``.

        Returns the number of lines it had.
        """
        journal = anyio.Path(self.home / "plans" / self.plan_id / "journal.jsonl")
        lines = (await journal.read_bytes()).splitlines(keepends=True)
        cut = next(number for number, line in enumerate(lines) if first in line) + keep
        await journal.write_bytes(b"".join(lines[:cut]))
        return len(lines)

    def moves(self, step_id: str) -> list[str]:
        return [e.status for e in self.memory.events if isinstance(e, PlanStepUpdateEvent) and e.step_id == step_id]

    def decisions(self) -> list[PlanDecisionEvent]:
        return [event for event in self.memory.events if isinstance(event, PlanDecisionEvent)]

    def warnings(self) -> list[str]:
        return [event.message for event in self.memory.events if isinstance(event, WarningEvent)]


def statuses(outcome: RunResult) -> dict[str, str]:
    return {step.id: step.status.value for step in outcome.steps}
