"""A plan's events contain all that a screen shows of steps: their tasks, what they wait for, and their results."""

from __future__ import annotations

from pathlib import Path

import anyio
from anyio import to_thread

from ipc.commands import Revise
from ipc.events import (
    PlanRevisedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    PlanWaitingEvent,
    UsageSum,
    WorkDone,
    WorkOrder,
)
from planner.run.control import PlanControl
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.clock import SleepyClock
from tests.fakes.executor import ScriptedExecutor, completed, failed
from tests.unit.planner.plan_bench import CHOICE, Bench, plan_of
from vibe.core.messages import Outcome, Usage


def waits(bench: Bench) -> list[tuple[str, str, tuple[str, ...]]]:
    events = (event for event in bench.memory.events if isinstance(event, PlanWaitingEvent))
    return [(event.step_id, event.waits_for, event.step_ids) for event in events]


async def test_the_start_outlines_every_step_whole(tmp_path: Path) -> None:
    full = {
        "depends_on": [{"step": "a", "on": "finished"}],
        "prompt": "Do it well. " * 1000,
        "verify": ["make check"],
        "model": "big",
        "max_turns": 9,
        "retries": 2,
        "when": {"choice": ["left"]},
        "tags": ["slow"],
        "writes": ["src/**"],
    }
    bench = Bench(tmp_path, plan_of({"a": {"command": "make", "mode": "run"}, "b": full}, decisions=[CHOICE]))
    bench.flags = {"choice": ("left",)}

    await bench.run(ScriptedExecutor())

    started = bench.memory.events[0]
    assert isinstance(started, PlanStartedEvent)
    first, second = (step.order for step in started.steps)
    assert first == WorkOrder(command="make", writes=("a.txt",))
    assert second is not None
    assert len(second.prompt) == 4000
    assert second.prompt.startswith("Do it well. Do it")
    assert second.on == {"a": "finished"}
    assert (second.verify, second.model, second.max_turns, second.retries) == (("make check",), "big", 9, 2)
    assert (second.when, second.tags, second.writes) == ({"choice": ["left"]}, ("slow",), ("src/**",))


async def test_the_end_of_a_step_tells_what_it_came_to_and_the_journal_has_it_once(tmp_path: Path) -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=2, calls=3)
    result = StepResult(
        outcome=Outcome.COMPLETED,
        summary="It works now. " + "x" * 5000,
        files_changed=("a.txt",),
        usage=usage,
        cost_usd=0.5,
        turns=3,
        folder="/trees/a",
        branch="vibe/a",
        pid=17,
    )
    bench = Bench(tmp_path, plan_of({"a": []}))

    await bench.run(ScriptedExecutor({"a": result}))

    began, ended = (event for event in bench.memory.events if isinstance(event, PlanStepUpdateEvent))
    assert began.work is None
    assert ended.work is not None
    assert ended.work == WorkDone(
        summary=ended.work.summary,
        files_changed=("a.txt",),
        usage=UsageSum(prompt_tokens=10, completion_tokens=5, cached_tokens=2, calls=3),
        cost_usd=0.5,
        turns=3,
        folder="/trees/a",
        branch="vibe/a",
        pid=17,
    )
    assert len(ended.work.summary) == 4000
    journal = await to_thread.run_sync((tmp_path / "plans" / bench.plan_id / "journal.jsonl").read_text)
    assert journal.count("It works now.") == 1


async def test_what_a_step_waits_for_is_said_where_it_could_start(tmp_path: Path) -> None:
    steps = {
        "a": {"writes": ["src/**"]},
        "b": {"writes": ["src/one.py"]},
        "c": {"writes": ["docs/**"]},
    }
    bench = Bench(tmp_path, plan_of(steps))

    await bench.run(ScriptedExecutor())

    assert waits(bench) == [("b", "files", ("a",))]


async def test_each_of_several_steps_that_want_the_same_files_says_for_whom_it_waits(tmp_path: Path) -> None:
    anything = {"writes": ["**"]}
    steps = {"a": anything, "b": anything, "c": anything, "late": {**anything, "depends_on": ["a"]}}
    bench = Bench(tmp_path, plan_of(steps))

    await bench.run(ScriptedExecutor())

    assert waits(bench) == [
        ("b", "files", ("a",)),
        ("c", "files", ("a",)),
        ("c", "files", ("b",)),
        ("late", "files", ("b",)),
        ("late", "files", ("c",)),
    ]


async def test_what_a_retry_waits_for_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"retries": 1}}))
    executor = ScriptedExecutor({"a": [failed(), completed()]})

    await bench.run(executor, clock=SleepyClock())

    assert waits(bench) == [("a", "retry", ())]
    said = next(event for event in bench.memory.events if isinstance(event, PlanWaitingEvent))
    assert said.seconds is not None
    assert said.seconds > 0


async def test_revisions_are_numbered_and_outline_what_they_bring(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"busy": [], "a": ["busy"]}))
    new = {"id": "b", "title": "More", "mode": "code", "prompt": "Do more", "max_turns": 3}
    change = {"op": "update_step", "id": "a", "changes": {"prompt": "Do less", "tags": ["small"]}}
    revised_twice = anyio.Event()
    verdicts: list[str | None] = []

    def heard(verdict: str | None) -> None:
        verdicts.append(verdict)
        if len(verdicts) == 2:
            revised_twice.set()

    async def until_revised(_task: StepTask, _stop: StopSignal) -> StepResult:
        await revised_twice.wait()
        return completed()

    async def meanwhile(control: PlanControl) -> None:
        control.submit(Revise(operations=({"op": "add_step", "step": new},), by="me"), heard)
        control.submit(Revise(operations=(change,), by="planner"), heard)

    await bench.run(ScriptedExecutor({"busy": until_revised}), meanwhile)

    assert verdicts == [None, None]
    revised = [event for event in bench.memory.events if isinstance(event, PlanRevisedEvent)]
    assert [(event.number, event.by) for event in revised] == [(1, "me"), (2, "planner")]
    assert [event.operations for event in revised] == [({"op": "add_step", "step": new},), (change,)]
    with await to_thread.run_sync(bench.open) as store:
        outlines = {step_id: step.outline for step_id, step in store.state().steps.items()}
    assert (outlines["b"].title, outlines["b"].mode) == ("More", "code")
