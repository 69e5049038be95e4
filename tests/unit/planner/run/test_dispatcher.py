from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec import structs

from ipc.commands import Cancel, Decide, Pause
from ipc.events import (
    AssistantDeltaEvent,
    PlanCompletedEvent,
    PlanDecisionEvent,
    PlanPausedEvent,
    PlanResumedEvent,
    PlanStartedEvent,
)
from ipc.sink import MemorySink
from planner.plan.status import PlanStatus, StepStatus
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher, DispatchOptions
from planner.run.watchdog import Watchdog
from planner.state.state import State
from planner.store.errors import StoreWriteError
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from subagents.executor import StepInput, StepResult, StepTask, StopSignal
from tests.fakes.clock import ManualClock, SleepyClock
from tests.fakes.executor import Act, ScriptedExecutor, completed, failed, forever, until_stopped
from tests.unit.planner.plan_bench import CHOICE, Bench, plan_of, statuses
from vibe.core.messages import Outcome, Usage


async def test_steps_run_in_the_order_of_their_dependencies_and_are_announced(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"c": ["b"], "a": [], "b": ["a"]}))
    executor = ScriptedExecutor()
    outcome = await bench.run(executor)
    assert executor.started == ["a", "b", "c"]
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.COMPLETED, Outcome.COMPLETED, None)
    assert [step.status for step in outcome.steps] == [StepStatus.COMPLETED] * 3
    assert bench.moves("c") == ["blocked", "in_progress", "completed"]
    first, last = bench.memory.events[0], bench.memory.events[-1]
    assert isinstance(first, PlanStartedEvent)
    assert [(step.id, step.depends_on) for step in first.steps] == [("c", ("b",)), ("a", ()), ("b", ("a",))]
    assert first.max_parallel_steps == 4
    assert isinstance(last, PlanCompletedEvent)
    assert (last.status, last.counts) == ("completed", {"completed": 3})
    assert {event.plan_id for event in bench.memory.events} == {bench.plan_id}


async def test_no_more_steps_run_side_by_side_than_allowed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({f"s{n}": [] for n in range(20)}), max_parallel=3)
    executor = ScriptedExecutor()
    outcome = await bench.run(executor)
    assert outcome.outcome is Outcome.COMPLETED
    assert executor.most == 3


async def test_a_step_gets_its_definition_and_the_results_of_its_direct_dependencies(tmp_path: Path) -> None:
    steps: dict[str, Any] = {
        "a": [],
        "b": {"depends_on": ["a"], "on_failure": "continue"},
        "c": {"depends_on": ["b", "a"], "prompt": "Do it", "verify": ["make"], "max_turns": 3, "denied_tools": ["x"]},
    }
    result = StepResult(outcome=Outcome.COMPLETED, summary="made", output={"n": 1}, files_changed=("f",))
    executor = ScriptedExecutor({"a": result, "b": failed(detail="no luck")})
    outcome = await Bench(tmp_path, plan_of(steps)).run(executor)
    task = executor.task("c")
    assert (task.goal, task.context, task.step.instructions, task.max_turns) == ("a goal", "some context", "Do it", 3)
    assert (task.step.verify, task.step.denied_tools, task.step.writes, task.attempt) == (["make"], ["x"], ["c.txt"], 1)
    assert tuple(structs.replace(given, result_file=None) for given in task.inputs) == (
        StepInput(step_id="b", title="Step b", status="failed", summary="no luck"),
        StepInput(
            step_id="a", title="Step a", status="completed", summary="made", output={"n": 1}, files_changed=("f",)
        ),
    )
    assert executor.task("b").step.instructions == "Step b"
    assert outcome.outcome is Outcome.COMPLETED
    assert outcome.warnings == ("step 'b' failed (no luck); continued because on_failure is \"continue\"",)


async def test_a_result_is_recorded_before_anything_that_depends_on_it_starts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))

    async def look(task: StepTask, stop: StopSignal) -> StepResult:
        folder = tmp_path / "plans" / bench.plan_id
        journal = await anyio.Path(folder / "journal.jsonl").read_text()
        result = await anyio.Path(folder / "steps" / "a" / "result.json").read_text()
        assert '"type":"plan.attempt"' in journal
        assert "the result of a" in result
        return completed(f"{task.step_id} {stop.requested}")

    outcome = await bench.run(ScriptedExecutor({"a": completed("the result of a"), "b": look}))
    assert outcome.outcome is Outcome.COMPLETED, outcome.steps


async def test_usage_and_cost_are_summed_over_attempts(tmp_path: Path) -> None:
    spent = StepResult(outcome=Outcome.FAILED, reason="x", usage=Usage(10, 2, 0, 1), cost_usd=0.5)
    made = StepResult(outcome=Outcome.COMPLETED, usage=Usage(1, 1, 0, 1), cost_usd=0.25)
    bench = Bench(tmp_path, plan_of({"a": {"retries": 1}}))
    outcome = await bench.run(ScriptedExecutor({"a": [spent, made]}), clock=SleepyClock())
    assert (outcome.usage, outcome.cost_usd) == (Usage(11, 3, 0, 2), 0.75)
    assert outcome.steps[0].begun == 2


async def test_a_failed_step_waits_longer_before_each_attempt(tmp_path: Path) -> None:
    clock = SleepyClock()
    executor = ScriptedExecutor({"a": [failed(), failed(), failed(), completed()]})
    outcome = await Bench(tmp_path, plan_of({"a": {"retries": 3}})).run(executor, clock=clock)
    assert outcome.outcome is Outcome.COMPLETED
    assert [task.attempt for task in executor.tasks] == [1, 2, 3, 4]
    assert clock.slept == [1.0, 2.0, 4.0]


async def test_a_failure_ends_the_plan_after_the_other_branches_and_exits_failed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"], "c": [], "d": ["c"]}))
    outcome = await bench.run(ScriptedExecutor({"a": failed()}))
    assert statuses(outcome) == {"a": "failed", "b": "blocked", "c": "completed", "d": "completed"}
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.FAILED, Outcome.FAILED, "verify")


@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        ({"a": StepResult(outcome=Outcome.BLOCKED, reason="blocked"), "b": failed()}, Outcome.BLOCKED),
        ({"a": StepResult(outcome=Outcome.LIMIT, reason="budget")}, Outcome.LIMIT),
        ({"a": StepResult(outcome=Outcome.LIMIT, reason="budget"), "b": failed()}, Outcome.FAILED),
        ({"a": StepResult(outcome=Outcome.LIMIT, reason="provider", provider_refused=True)}, Outcome.LIMIT),
        ({"a": StepResult(outcome=Outcome.FAILED, reason="provider", provider_refused=True)}, Outcome.FAILED),
    ],
)
async def test_the_outcome_is_a_census_of_the_steps(tmp_path: Path, acts: Mapping[str, Act], expected: Outcome) -> None:
    outcome = await Bench(tmp_path, plan_of({"a": [], "b": []})).run(ScriptedExecutor(acts))
    assert outcome.outcome is expected


async def test_a_refusing_provider_pauses_the_plan_and_the_step_can_go_on_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))
    refused = StepResult(outcome=Outcome.FAILED, reason="provider", detail="no credit", provider_refused=True)
    outcome = await bench.run(ScriptedExecutor({"a": refused}))
    assert (outcome.status, outcome.reason) == (PlanStatus.PAUSED, "provider")
    outcome = await bench.run(ScriptedExecutor())
    assert outcome.outcome is Outcome.COMPLETED


async def test_an_executor_that_raises_fails_its_step_and_the_plan_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": []}))
    outcome = await bench.run(ScriptedExecutor({"a": ZeroDivisionError("by nothing")}))
    assert statuses(outcome) == {"a": "failed", "b": "completed"}
    assert (outcome.steps[0].reason, outcome.steps[0].detail) == ("internal", "ZeroDivisionError: by nothing")
    assert "Traceback" in caplog.text


async def test_an_output_that_is_no_json_fails_its_step_and_the_plan_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": []}))
    odd = StepResult(outcome=Outcome.COMPLETED, output=object())
    outcome = await bench.run(ScriptedExecutor({"a": odd}))
    assert statuses(outcome) == {"a": "failed", "b": "completed"}
    assert "cannot be written as JSON" in outcome.steps[0].detail


async def test_pause_lets_running_steps_stop_and_a_resume_repeats_nothing_that_was_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}))
    first = ScriptedExecutor({"b": until_stopped, "c": completed("c's result")})

    async def pause(control: PlanControl) -> None:
        await first.until_running("b")
        await first.until_ended("c")
        control.submit(Pause(by="enough"))

    outcome = await bench.run(first, pause)
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.PAUSED, Outcome.INTERRUPTED, "enough")
    assert statuses(outcome) == {"a": "completed", "b": "pending", "c": "completed", "d": "blocked"}
    assert isinstance(bench.memory.events[-1], PlanPausedEvent)

    second = ScriptedExecutor()
    outcome = await bench.run(second)
    assert second.started == ["b", "d"]
    assert second.tasks[0].attempt == 1, "an interrupted attempt goes on under its own number"
    assert [given.summary for given in second.task("d").inputs] == ["b done", "c's result"]
    assert outcome.outcome is Outcome.COMPLETED
    assert [step.status for step in outcome.steps] == [StepStatus.COMPLETED] * 4
    assert [step.begun for step in outcome.steps] == [1, 1, 1, 1]
    resumed = bench.memory.events[0]
    assert isinstance(resumed, PlanResumedEvent)
    assert resumed.done == 2
    assert [step.status for step in resumed.steps] == ["completed", "pending", "completed", "pending"]


async def test_a_resumed_plan_says_why_steps_failed_and_were_skipped(tmp_path: Path) -> None:
    steps: dict[str, Any] = {"bad": [], "spared": {"on_failure": "ask"}, "asked": {"decision": "choice"}, "fine": []}
    bench = Bench(tmp_path, plan_of(steps, decisions=[CHOICE]))
    await bench.run(ScriptedExecutor({"bad": failed(detail="no luck"), "spared": failed()}))
    await bench.edit(lambda store: store.take(Decide(decision_id="failed:spared:1", selections=("skip",))))
    outcome = await bench.run(ScriptedExecutor())
    assert outcome.status is PlanStatus.PAUSED

    await bench.run(ScriptedExecutor())
    resumed = bench.memory.events[0]
    assert isinstance(resumed, PlanResumedEvent)
    assert resumed.done == 1
    assert [(each.id, each.status, each.reason) for each in resumed.steps] == [
        ("bad", "failed", "verify"),
        ("spared", "skipped", "waived"),
        ("asked", "pending", None),
        ("fine", "completed", None),
    ]


async def test_a_pause_before_the_run_starts_nothing_that_works(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))

    async def at_once(task: StepTask, stop: StopSignal) -> StepResult:
        assert stop.requested
        return StepResult(outcome=Outcome.INTERRUPTED, summary=task.step_id)

    async def pause(control: PlanControl) -> None:
        control.submit(Pause(by="before"))

    outcome = await bench.run(ScriptedExecutor({"a": at_once}), pause)
    assert (outcome.status, statuses(outcome)) == (PlanStatus.PAUSED, {"a": "pending", "b": "blocked"})


async def test_steps_that_do_not_stop_in_the_grace_time_are_cancelled_and_come_back_pending(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": []}))
    executor = ScriptedExecutor({"a": forever, "b": until_stopped})
    clock = ManualClock()

    async def pause(control: PlanControl) -> None:
        await executor.until_running("a", "b")
        control.submit(Pause(grace_seconds=5, by="stop"))
        await executor.until_ended("b")
        clock.advance(4.9)
        await anyio.wait_all_tasks_blocked()
        assert executor.running == {"a"}
        clock.advance(0.2)

    outcome = await bench.run(executor, pause, clock=clock)
    assert executor.cancelled == ["a"]
    assert (outcome.status, statuses(outcome)) == (PlanStatus.PAUSED, {"a": "pending", "b": "pending"})
    assert (await bench.run(ScriptedExecutor())).outcome is Outcome.COMPLETED


async def test_what_was_stopped_says_how_it_will_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"agent": [], "command": {"mode": "run", "command": "true"}}))
    executor = ScriptedExecutor({"agent": forever, "command": forever})

    async def pause(control: PlanControl) -> None:
        await executor.until_running("agent", "command")
        control.submit(Pause(grace_seconds=0, by="stop"))

    outcome = await bench.run(executor, pause)
    assert {report.id: report.detail for report in outcome.steps} == {
        "agent": "interrupted; will continue from its last turn on resume",
        "command": "interrupted; will restart on resume",
    }


async def test_cancel_ends_running_steps_at_once_and_gives_up_the_rest(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": [], "c": ["a"]}))
    executor = ScriptedExecutor({"a": forever})

    async def cancel(control: PlanControl) -> None:
        await executor.until_ended("b")
        await executor.until_running("a")
        control.submit(Cancel(by="no more"))

    outcome = await bench.run(executor, cancel)
    assert executor.cancelled == ["a"]
    assert statuses(outcome) == {"a": "cancelled", "b": "completed", "c": "cancelled"}
    assert (outcome.status, outcome.outcome, outcome.reason) == (
        PlanStatus.CANCELLED,
        Outcome.INTERRUPTED,
        "no more",
    )


async def test_a_run_that_is_cancelled_from_outside_leaves_a_plan_that_can_be_resumed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))
    executor = ScriptedExecutor({"b": forever})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, executor)
        await executor.until_running("b")
        tasks.cancel_scope.cancel()
    again = ScriptedExecutor()
    assert (await bench.run(again)).outcome is Outcome.COMPLETED
    assert again.started == ["b"]


async def test_the_plans_time_ends_running_steps_and_fails_it_as_a_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}, budget={"max_seconds": 60}))
    clock = ManualClock()
    executor = ScriptedExecutor({"a": forever})

    async def wait(control: PlanControl) -> None:
        await executor.until_running("a")
        clock.advance(61)
        assert not control.requested

    outcome = await bench.run(executor, wait, clock=clock)
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.FAILED, Outcome.LIMIT, "budget")
    assert statuses(outcome) == {"a": "pending", "b": "blocked"}
    assert executor.cancelled == ["a"]
    assert isinstance(bench.memory.events[-1], PlanCompletedEvent)


async def test_a_decision_by_flag_is_recorded_and_nobody_is_asked(tmp_path: Path) -> None:
    plan = plan_of({"a": {"when": {"choice": ["left"]}}, "b": {"when": {"choice": ["right"]}}}, decisions=[CHOICE])
    bench = Bench(tmp_path, plan, flags={"choice": ("right",)})
    outcome = await bench.run(ScriptedExecutor())
    assert statuses(outcome) == {"a": "skipped", "b": "completed"}
    (event,) = [e for e in bench.memory.events if isinstance(e, PlanDecisionEvent)]
    assert (event.selections, event.by, event.question) == (("right",), "flag", "Which?")
    with await to_thread.run_sync(bench.open) as store:
        assert store.state().answers() == {"choice": ("right",)}


async def test_an_unattended_plan_pauses_blocked_when_only_a_decision_is_left(tmp_path: Path) -> None:
    plan = plan_of({"a": {"decision": "choice"}, "b": []}, decisions=[CHOICE])
    bench = Bench(tmp_path, plan)
    outcome = await bench.run(ScriptedExecutor())
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.PAUSED, Outcome.BLOCKED, "decision")
    assert statuses(outcome) == {"a": "needs_decision", "b": "completed"}


async def test_a_person_decides_once_and_what_makes_no_sense_is_answered_by_a_warning(tmp_path: Path) -> None:
    plan = plan_of({"a": {"decision": "choice"}, "b": {"when": {"choice": ["right"]}}, "c": ["a"]}, decisions=[CHOICE])
    bench = Bench(tmp_path, plan, options=DispatchOptions(attended=True))
    executor = ScriptedExecutor()

    async def decide(control: PlanControl) -> None:
        control.submit(Decide(decision_id="chioce", selections=("left",)))
        control.submit(Decide(decision_id="choice", selections=("middle",)))
        control.submit(Decide(decision_id="choice", selections=("left",)))
        control.submit(Decide(decision_id="choice", selections=("right",)))

    outcome = await bench.run(executor, decide)
    assert statuses(outcome) == {"a": "completed", "b": "skipped", "c": "completed"}
    unknown, invalid, *late = bench.warnings()
    assert "'chioce': it is not open; open decisions: choice" in unknown
    assert "middle" in invalid
    assert all("already decided" in warning for warning in late)
    events = [e for e in bench.memory.events if isinstance(e, PlanDecisionEvent)]
    assert [(event.selections, event.by) for event in events] == [((), ""), (("left",), "user")]


async def test_a_decision_that_runs_out_of_time_takes_its_default(tmp_path: Path) -> None:
    choice = CHOICE | {"timeout_seconds": 30, "default": "right"}
    plan = plan_of({"a": {"when": {"choice": ["left"]}}, "b": {"when": {"choice": ["right"]}}}, decisions=[choice])
    clock = SleepyClock()
    bench = Bench(tmp_path, plan)
    outcome = await bench.run(ScriptedExecutor(), clock=clock)
    assert statuses(outcome) == {"a": "skipped", "b": "completed"}
    assert clock.slept == [30.0]
    assert [e.by for e in bench.memory.events if isinstance(e, PlanDecisionEvent)] == ["", "timeout"]


async def test_a_decision_without_a_default_that_runs_out_of_time_pauses_the_plan(tmp_path: Path) -> None:
    plan = plan_of({"a": {"decision": "choice"}}, decisions=[CHOICE | {"timeout_seconds": 30}])
    bench = Bench(tmp_path, plan, options=DispatchOptions(attended=True))
    outcome = await bench.run(ScriptedExecutor(), clock=SleepyClock())
    assert (outcome.status, outcome.outcome) == (PlanStatus.PAUSED, Outcome.BLOCKED)


async def test_a_silent_step_is_ended_as_idle_and_one_with_events_is_not(tmp_path: Path) -> None:
    clock = ManualClock()
    watchdog = Watchdog(MemorySink(), clock)
    plan = plan_of({"silent": {"idle_seconds": 10}, "busy": {"idle_seconds": 10}})
    bench = Bench(tmp_path, plan, options=DispatchOptions(watchdog=watchdog))
    executor = ScriptedExecutor({"silent": forever, "busy": until_stopped})

    async def work(control: PlanControl) -> None:
        await executor.until_running("silent", "busy")
        for _ in range(4):
            clock.advance(3)
            watchdog.publish(AssistantDeltaEvent(message_id="m", text=".", subagent_step_id="busy"))
            await anyio.wait_all_tasks_blocked()
        await executor.until_ended("silent")
        assert executor.running == {"busy"}
        control.submit(Pause(by="enough"))

    outcome = await bench.run(executor, work, clock=clock)
    assert statuses(outcome) == {"silent": "failed", "busy": "pending"}
    assert outcome.steps[0].reason == "idle"
    assert "10 seconds" in outcome.steps[0].detail


async def test_the_time_in_which_the_run_itself_was_stopped_is_no_silence_of_its_steps(tmp_path: Path) -> None:
    clock = ManualClock()
    sink = MemorySink()
    bench = Bench(tmp_path, plan_of({"a": {"idle_seconds": 10}}), memory=sink)
    bench.options = DispatchOptions(watchdog=Watchdog(sink, clock))
    may_end = anyio.Event()

    async def wait(_task: StepTask, _stop: StopSignal) -> StepResult:
        await may_end.wait()
        return completed()

    executor = ScriptedExecutor({"a": wait})

    async def stop_and_go_on(_control: PlanControl) -> None:
        await executor.until_running("a")
        clock.advance(3_600.0)
        await anyio.wait_all_tasks_blocked()
        may_end.set()

    outcome = await bench.run(executor, stop_and_go_on, clock=clock)
    assert outcome.status is PlanStatus.COMPLETED


async def test_a_command_that_prints_nothing_is_not_idle(tmp_path: Path) -> None:
    clock = ManualClock()
    watchdog = Watchdog(MemorySink(), clock)
    plan = plan_of({"a": {"mode": "run", "command": "make", "idle_seconds": 10}})
    bench = Bench(tmp_path, plan, options=DispatchOptions(watchdog=watchdog))
    executor = ScriptedExecutor({"a": until_stopped})

    async def wait(control: PlanControl) -> None:
        await executor.until_running("a")
        clock.advance(1000)
        await anyio.wait_all_tasks_blocked()
        assert executor.running == {"a"}
        control.submit(Pause(by="enough"))

    outcome = await bench.run(executor, wait, clock=clock)
    assert statuses(outcome) == {"a": "pending"}


async def test_a_disk_that_fills_up_ends_the_run_with_one_error_and_the_steps_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": []}))
    write = os.write

    async def fill_up(task: StepTask, stop: StopSignal) -> StepResult:
        def full(fd: int, data: bytes) -> int:
            if b'"attempt"' in data:
                raise OSError(28, "No space left on device")
            return write(fd, data)

        monkeypatch.setattr(os, "write", full)
        return completed(f"{task.step_id} {stop.requested}")

    executor = ScriptedExecutor({"a": forever, "b": fill_up})
    with pytest.raises(ExceptionGroup) as caught:
        await bench.run(executor)
    (error,) = caught.value.exceptions
    assert isinstance(error, StoreWriteError)
    assert "No space left on device" in str(error)
    assert executor.cancelled == ["a"]
    monkeypatch.undo()
    again = ScriptedExecutor()
    assert (await bench.run(again)).outcome is Outcome.COMPLETED
    assert sorted(again.started) == ["a", "b"]


async def test_a_list_shows_how_the_run_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))
    await bench.run(ScriptedExecutor({"b": failed()}))
    store = await to_thread.run_sync(bench.open)
    with store:
        summary = await to_thread.run_sync(store.folder.summary)
        assert store.state().steps["a"].status is StepStatus.COMPLETED
    assert (summary.status, summary.counts) == (PlanStatus.FAILED, {"completed": 1, "failed": 1})


class SlowStore(PlanStore):
    """A store whose first snapshot takes until ``go_on`` is set, or until another one begins beside it."""

    go_on = threading.Event()
    at_work = most = 0

    def write_snapshot(self, state: State) -> None:
        """Write the snapshot once it may."""
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        if self.at_work > 1:
            self.go_on.set()
        assert self.go_on.wait(60)
        super().write_snapshot(state)
        self.at_work -= 1


async def test_a_snapshot_waits_for_the_one_before_it_which_may_be_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.run.dispatcher.SNAPSHOT_SECONDS", 0.0)
    plan = plan_of({f"s{n}": [f"s{n - 1}"] if n else [] for n in range(9)})
    source = plan.model_dump_json(exclude_unset=True).encode()
    store = await to_thread.run_sync(SlowStore.create, tmp_path, RunSettings(workspace="/w"), source)
    assert isinstance(store, SlowStore)

    async def last(task: StepTask, stop: StopSignal) -> StepResult:
        store.go_on.set()
        return completed(f"{task.step_id} {stop.requested}")

    with store:
        loaded = await to_thread.run_sync(store.effective)
        executor = ScriptedExecutor({"s8": last})
        dispatcher = Dispatcher(loaded=loaded, width=1, executor=executor, store=store, sink=MemorySink())
        await dispatcher.run(PlanControl())
    assert store.most == 1
