"""One step of a running plan is cancelled, skipped or repeated, and the next process continues from that."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ipc.commands import Act, Steer, StepAction
from ipc.events import PlanActEvent, ReviewComment
from planner.plan.model import PlanStatus
from planner.plan.revision import Proposal, RevisionRequest
from planner.run.control import TOO_LATE, PlanControl
from planner.run.revision_runner import ReplanPolicy
from planner.run.step_runner import DispatchOptions
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.executor import ScriptedExecutor, completed, failed, forever
from tests.unit.planner.plan_bench import Bench, plan_of, statuses
from vibe.core.messages import Outcome

Meanwhile = Callable[[PlanControl], Coroutine[Any, Any, None]]


@dataclass
class Verdicts:
    """The run's replies to each act."""

    said: list[str | None] = field(default_factory=list[str | None])
    given: anyio.Event = field(default_factory=anyio.Event)

    def take(self, problem: str | None) -> None:
        self.said.append(problem)
        self.given.set()

    async def ask(self, control: PlanControl, action: str, step_id: str) -> str | None:
        self.given = anyio.Event()
        control.submit(Act(step_id=step_id, action=StepAction(action), by="me"), self.take)
        await self.given.wait()
        return self.said[-1]


@dataclass
class Gate:
    """Acts that wait until the gate is opened."""

    opened: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self, task: StepTask, stop: StopSignal) -> StepResult:
        await self.opened.wait()
        return completed(f"{task.step_id} done, stop {stop.requested}")


async def until_said(bench: Bench, step_id: str, status: str) -> None:
    while status not in bench.moves(step_id):  # noqa: ASYNC110  events can only be polled
        await anyio.sleep(0.001)


async def test_a_running_step_is_cancelled_and_the_others_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": [], "after": ["a"], "clean": {"depends_on": [fails("a")]}}))
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({"a": forever, "b": gate.wait})

    async def cancel(control: PlanControl) -> None:
        await executor.until_running("a", "b")
        assert await verdicts.ask(control, "cancel", "a") is None
        assert await verdicts.ask(control, "cancel", "a") is None
        await executor.until_ended("clean")
        gate.opened.set()

    outcome = await bench.run(executor, cancel)
    assert executor.cancelled == ["a"]
    assert statuses(outcome) == {"a": "cancelled", "b": "completed", "after": "blocked", "clean": "completed"}
    assert (outcome.status, outcome.outcome, outcome.reason) == (PlanStatus.FAILED, Outcome.FAILED, "cancelled")
    assert outcome.steps[0].reason == "me"
    [stopping] = [event for event in bench.memory.events if isinstance(event, PlanActEvent)]
    assert (stopping.step_id, stopping.attempt, stopping.status, stopping.by) == ("a", 1, "cancelled", "me")


def fails(step_id: str) -> dict[str, str]:
    return {"step": step_id, "on": "failed"}


async def test_a_cancelled_step_that_may_fail_does_not_spoil_the_plan(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"on_failure": "continue", "retries": 3}, "after": ["a"]}))
    executor = ScriptedExecutor({"a": forever})

    outcome = await bench.run(executor, acting(executor, ("cancel", "a")))

    assert executor.started == ["a", "after"]
    assert (executor.task("after").inputs[0].status, outcome.status) == ("cancelled", PlanStatus.COMPLETED)
    assert outcome.warnings == (
        "step 'a' was cancelled (the step was stopped by a command); continued because on_failure is \"continue\"",
    )


def acting(executor: ScriptedExecutor, *acts: tuple[str, str]) -> Meanwhile:
    """Ask for one act after the other, once the first of the steps runs."""

    async def ask(control: PlanControl) -> None:
        await executor.until_running(acts[0][1])
        for action, step_id in acts:
            assert await Verdicts().ask(control, action, step_id) is None

    return ask


async def test_a_running_step_is_skipped_and_what_depends_on_it_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "after": ["a"]}))
    executor = ScriptedExecutor({"a": forever})

    outcome = await bench.run(executor, acting(executor, ("skip", "a")))

    assert (statuses(outcome), outcome.status) == ({"a": "skipped", "after": "completed"}, PlanStatus.COMPLETED)
    assert outcome.steps[0].reason == "waived"


async def test_of_two_wishes_for_a_step_that_is_being_stopped_the_last_holds(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "after": ["a"]}))
    executor = ScriptedExecutor({"a": forever})

    async def ask(control: PlanControl) -> None:
        await executor.until_running("a")
        for action in (StepAction.CANCEL, StepAction.SKIP):
            control.submit(Act(step_id="a", action=action))

    assert statuses(await bench.run(executor, ask)) == {"a": "skipped", "after": "completed"}


async def test_steps_that_wait_are_skipped_or_cancelled_before_they_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"], "c": [], "d": ["c"], "e": ["b"]}), max_parallel=1)
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({"a": gate.wait})

    async def ask(control: PlanControl) -> None:
        await executor.until_running("a")
        assert await verdicts.ask(control, "skip", "b") is None
        assert await verdicts.ask(control, "cancel", "c") is None
        assert await verdicts.ask(control, "retry", "d") == "can't retry step 'd': it has not run yet"
        gate.opened.set()

    outcome = await bench.run(executor, ask)
    assert executor.started == ["a", "e"]
    assert statuses(outcome) == {"a": "completed", "b": "skipped", "c": "cancelled", "d": "blocked", "e": "completed"}


async def test_a_failed_step_is_done_again_while_the_others_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"bad": [], "slow": [], "after": ["bad"]}))
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({"bad": [failed(), completed()], "slow": gate.wait})

    async def ask(control: PlanControl) -> None:
        await executor.until_running("slow")
        await until_said(bench, "bad", "failed")
        record = anyio.Path(bench.home / "plans" / bench.plan_id / "steps" / "bad" / "verification.json")
        await record.parent.mkdir(exist_ok=True)
        await record.touch()
        assert await verdicts.ask(control, "retry", "bad") is None
        assert not await record.exists()
        await until_said(bench, "after", "completed")
        gate.opened.set()

    outcome = await bench.run(executor, ask)
    assert outcome.status is PlanStatus.COMPLETED
    assert [task.attempt for task in executor.tasks if task.step_id == "bad"] == [1, 2]
    assert bench.moves("bad") == ["in_progress", "failed", "pending", "in_progress", "completed"]


async def test_what_a_step_was_told_goes_with_each_attempt_until_it_completes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"bad": [], "slow": []}))
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({"bad": [failed(), failed(), completed()], "slow": gate.wait})
    comment = ReviewComment(file="a.py", first=2, last=2, text="why?", code="x = 1", stale=True)

    async def ask(control: PlanControl) -> None:
        await executor.until_running("slow")
        await until_said(bench, "bad", "failed")
        control.submit(Steer(step_id="bad", text="use cents"))
        control.submit(Act(step_id="bad", action=StepAction.RETRY, comments=(comment,)))
        while bench.moves("bad").count("failed") < 2:  # noqa: ASYNC110  as above
            await anyio.sleep(0.001)
        control.submit(Act(step_id="bad", action=StepAction.RETRY, message="at last"))
        await until_said(bench, "bad", "completed")
        control.submit(Steer(step_id="bad", text="too late"), verdicts.take)
        await verdicts.given.wait()
        gate.opened.set()

    assert (await bench.run(executor, ask)).status is PlanStatus.COMPLETED
    tasks = [task.told for task in executor.tasks if task.step_id == "bad"]
    assert [len(told) for told in tasks] == [0, 2, 3]
    assert (tasks[2][0], tasks[2][2]) == ("use cents", "at last")
    assert tasks[2][1].endswith("a.py, line 2 (changed since):\n> x = 1\nwhy?")
    assert verdicts.said[0] is not None
    assert "it is completed" in verdicts.said[0]


async def test_a_completed_step_is_done_again_with_what_ran_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "after": ["a"], "slow": [], "last": ["after", "slow"]}))
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({
        "a": [completed(), completed()],
        "after": [completed(), completed()],
        "slow": gate.wait,
    })

    async def ask(control: PlanControl) -> None:
        await until_said(bench, "after", "completed")
        control.submit(Act(step_id="a", action=StepAction.RETRY, message="use cents"))
        while bench.moves("after").count("completed") < 2:  # noqa: ASYNC110  as above
            await anyio.sleep(0.001)
        assert (await verdicts.ask(control, "skip", "nobody") or "").startswith("the plan has no step 'nobody'")
        assert "it is completed" in (await verdicts.ask(control, "cancel", "after") or "")
        assert "it is running" in (await verdicts.ask(control, "retry", "slow") or "")
        gate.opened.set()

    assert (await bench.run(executor, ask)).status is PlanStatus.COMPLETED
    done = [(task.step_id, task.attempt, task.told) for task in executor.tasks if task.step_id in {"a", "after"}]
    assert done == [("a", 1, ()), ("after", 1, ()), ("a", 2, ("use cents",)), ("after", 2, ())]
    assert [task.step_id for task in executor.tasks].count("last") == 1


async def test_what_something_works_after_is_not_done_again_under_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"on_failure": "continue"}, "after": ["a"]}))
    gate, verdicts = Gate(), Verdicts()
    executor = ScriptedExecutor({"a": failed(), "after": gate.wait})

    async def ask(control: PlanControl) -> None:
        await executor.until_running("after")
        refused = await verdicts.ask(control, "retry", "a")
        assert refused == "can't retry step 'a': its dependents after are at work: wait for them, or stop them first"
        gate.opened.set()

    assert (await bench.run(executor, ask)).status is PlanStatus.COMPLETED


async def test_a_step_waits_no_longer_for_its_next_attempt(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"retries": 1}}))
    executor = ScriptedExecutor({"a": [failed(), completed()]})

    async def ask(control: PlanControl) -> None:
        await until_said(bench, "a", "pending")
        assert await Verdicts().ask(control, "retry", "a") is None

    assert (await bench.run(executor, ask)).status is PlanStatus.COMPLETED


async def test_nobody_looks_for_a_better_plan_for_a_step_that_was_cancelled(tmp_path: Path) -> None:
    class Thinking:
        def __init__(self) -> None:
            self.asked, self.cancelled = anyio.Event(), False

        async def revise(self, request: RevisionRequest) -> Proposal | None:
            self.asked.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.cancelled = True
                raise
            raise AssertionError(request)

    reviser = Thinking()
    options = DispatchOptions(replanning=ReplanPolicy(reviser=reviser))
    bench = Bench(tmp_path, plan_of({"a": {"on_failure": "replan"}, "b": ["a"]}), options=options)

    async def ask(control: PlanControl) -> None:
        await reviser.asked.wait()
        assert await Verdicts().ask(control, "skip", "a") is None

    outcome = await bench.run(ScriptedExecutor({"a": failed()}), ask)
    assert reviser.cancelled
    assert statuses(outcome) == {"a": "skipped", "b": "completed"}


async def test_what_was_asked_of_a_running_step_holds_when_the_process_is_killed(tmp_path: Path) -> None:
    for action, status in (("cancel", "cancelled"), ("skip", "skipped")):
        bench = Bench(tmp_path / action, plan_of({"a": {"side_effects": True}, "b": ["a"]}))
        executor = ScriptedExecutor({"a": forever})
        await bench.run(executor, acting(executor, (action, "a")))
        await bench.forget(b'"plan.act"', keep=1)

        again = ScriptedExecutor()
        outcome = await bench.run(again)

        assert statuses(outcome)["a"] == status
        assert again.started == (["b"] if action == "skip" else [])


async def test_an_act_after_the_end_is_answered_so(tmp_path: Path) -> None:
    control, verdicts = PlanControl(), Verdicts()
    control.detach()
    assert await verdicts.ask(control, "skip", "a") == TOO_LATE
    bench = Bench(tmp_path, plan_of({"a": []}))
    assert (await bench.run(ScriptedExecutor())).status is PlanStatus.COMPLETED
