"""Decisions with a time limit among others: which of them hold up a run, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from ipc.commands import Decide
from planner.plan.status import PlanStatus
from planner.run.control import PlanControl
from planner.run.step_runner import DispatchOptions
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.clock import ManualClock
from tests.fakes.executor import ScriptedExecutor, completed
from tests.unit.planner.plan_bench import CHOICE, Bench, plan_of, statuses
from tests.unit.planner.scripted_run import choice
from vibe.core.messages import Outcome


async def until_asked(bench: Bench, *decision_ids: str) -> None:
    while not set(decision_ids) <= {d.decision_id for d in bench.decisions()}:  # noqa: ASYNC110  sinks announce nothing
        await anyio.sleep(0.001)


async def test_a_decision_taken_before_its_time_holds_up_no_other(tmp_path: Path) -> None:
    timed = choice("timed", "x", "y", timeout_seconds=3600, default="x")
    plan = plan_of(
        {"a": {"decision": "timed"}, "b": {"depends_on": ["a"], "decision": "choice"}}, decisions=[timed, CHOICE]
    )
    bench = Bench(tmp_path, plan)

    async def decide(control: PlanControl) -> None:
        await until_asked(bench, "timed")
        control.submit(Decide(decision_id="timed", selections=("x",)))

    outcome = await bench.run(ScriptedExecutor(), decide, clock=ManualClock())
    assert (outcome.status, outcome.reason) == (PlanStatus.PAUSED, "decision")
    assert statuses(outcome) == {"a": "completed", "b": "needs_decision"}


async def time_runs_out_unneeded(bench: Bench, control: PlanControl, clock: ManualClock) -> None:
    """Skip the step that needs ``timed`` by another choice, then let its time pass."""
    await until_asked(bench, "timed", "choice")
    control.submit(Decide(decision_id="choice", selections=("right",)))
    while bench.moves("a")[-1:] != ["skipped"]:  # noqa: ASYNC110  sinks announce nothing
        await anyio.sleep(0.001)
    clock.advance(31)
    await anyio.wait_all_tasks_blocked()


async def test_time_running_out_for_a_decision_that_no_step_needs_any_more_changes_nothing(tmp_path: Path) -> None:
    timed = choice("timed", "x", "y", timeout_seconds=30)
    steps: dict[str, Any] = {"a": {"decision": "timed", "when": {"choice": ["left"]}}, "b": [], "c": ["b"]}
    bench = Bench(tmp_path, plan_of(steps, decisions=[timed, CHOICE]))
    clock = ManualClock()
    may_go_on = anyio.Event()

    async def wait(_task: StepTask, _stop: StopSignal) -> StepResult:
        await may_go_on.wait()
        return completed()

    executor = ScriptedExecutor({"b": wait})

    async def decide(control: PlanControl) -> None:
        await time_runs_out_unneeded(bench, control, clock)
        may_go_on.set()

    outcome = await bench.run(executor, decide, clock=clock)
    assert (outcome.status, outcome.outcome) == (PlanStatus.COMPLETED, Outcome.COMPLETED)
    assert statuses(outcome) == {"a": "skipped", "b": "completed", "c": "completed"}


async def test_a_plan_that_waits_for_a_person_does_not_wait_for_the_time_of_what_no_step_needs(tmp_path: Path) -> None:
    timed = choice("timed", "x", "y", timeout_seconds=30)
    steps: dict[str, Any] = {
        "a": {"decision": "timed", "when": {"choice": ["left"]}},
        "b": {"decision": "other"},
    }
    bench = Bench(tmp_path, plan_of(steps, decisions=[timed, CHOICE, choice("other", "x", "y")]))

    async def decide(control: PlanControl) -> None:
        await until_asked(bench, "timed", "choice", "other")
        control.submit(Decide(decision_id="choice", selections=("right",)))

    outcome = await bench.run(ScriptedExecutor(), decide, clock=ManualClock())
    assert (outcome.status, outcome.reason) == (PlanStatus.PAUSED, "decision")
    assert statuses(outcome) == {"a": "skipped", "b": "needs_decision"}


async def test_a_decision_whose_time_ran_out_unneeded_is_put_again_to_the_step_that_needs_it_later(
    tmp_path: Path,
) -> None:
    timed = choice("timed", "x", "y", timeout_seconds=30)
    steps: dict[str, Any] = {
        "a": {"decision": "timed", "when": {"choice": ["left"]}},
        "b": [],
        "c": {"depends_on": ["b"], "decision": "timed"},
    }
    bench = Bench(tmp_path, plan_of(steps, decisions=[timed, CHOICE]), options=DispatchOptions(attended=True))
    clock = ManualClock()
    may_go_on = anyio.Event()

    async def wait(_task: StepTask, _stop: StopSignal) -> StepResult:
        await may_go_on.wait()
        return completed()

    async def decide(control: PlanControl) -> None:
        await time_runs_out_unneeded(bench, control, clock)
        may_go_on.set()
        while [d.by for d in bench.decisions() if d.decision_id == "timed"] != ["", "timeout", ""]:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        clock.advance(31)

    outcome = await bench.run(ScriptedExecutor({"b": wait}), decide, clock=clock)
    assert (outcome.status, outcome.reason) == (PlanStatus.PAUSED, "decision")
    assert statuses(outcome) == {"a": "skipped", "b": "completed", "c": "needs_decision"}
