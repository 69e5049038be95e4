"""A run's handling of steps that failed or were cut off: decisions and revisions, also across the end of a process."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ipc.commands import Decide, Pause, Revise
from ipc.events import PlanRevisedEvent, PlanStoppingEvent, SubAgentStartedEvent
from ipc.sink import MemorySink
from planner.plan.loader import LoadedPlan
from planner.plan.model import PlanStatus
from planner.plan.operations import Operation, RevisionInvalidError, plain_operations, read_operations
from planner.plan.revision import Proposal, ProviderRefused, RevisionRequest
from planner.plan.step_limits import USUAL
from planner.run.control import PlanControl
from planner.run.revision_runner import ReplanPolicy
from planner.run.step_runner import DispatchOptions
from planner.run.watchdog import Watchdog
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.clock import SleepyClock
from tests.fakes.executor import ScriptedExecutor, completed, failed, forever, until_stopped
from tests.unit.planner.facts import retrying
from tests.unit.planner.plan_bench import CHOICE, Bench, plan_of, statuses
from vibe.core.messages import Outcome, Spending, Usage
from vibe.core.modes import ExecutionMode
from vibe.system.errors import UsageError

ATTENDED = DispatchOptions(attended=True)
ASKING = {"a": {"on_failure": "ask"}, "b": ["a"]}


async def decide_when_open(bench: Bench, control: PlanControl, decision_id: str, selection: str) -> None:
    """Answer a decision as soon as it is open."""
    while not any(d.decision_id == decision_id and not d.selections for d in bench.decisions()):  # noqa: ASYNC110
        await anyio.sleep(0.001)
    control.submit(Decide(decision_id=decision_id, selections=(selection,)))


async def test_a_failed_step_that_asks_is_tried_again_when_somebody_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of(ASKING), options=ATTENDED)
    executor = ScriptedExecutor({"a": [failed(detail="no luck"), completed()]})

    async def answer(control: PlanControl) -> None:
        await decide_when_open(bench, control, "failed:a:1", "retry")

    outcome = await bench.run(executor, answer)
    assert statuses(outcome) == {"a": "completed", "b": "completed"}
    assert executor.started == ["a", "a", "b"]
    assert [task.attempt for task in executor.tasks] == [1, 2, 1]
    opened, taken = bench.decisions()
    assert opened.question == "Step a (Step a) failed, attempt 1: no luck. What now?"
    assert opened.options == ("retry", "skip", "stop")
    assert (taken.selections, taken.by) == (("retry",), "user")
    assert bench.moves("a") == ["in_progress", "needs_decision", "in_progress", "completed"]


async def test_with_nobody_there_the_plan_waits_for_the_decision_and_a_resume_asks_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of(ASKING))
    first = await bench.run(ScriptedExecutor({"a": failed(detail="no luck")}))
    assert (first.status, first.outcome, first.reason) == (PlanStatus.PAUSED, Outcome.BLOCKED, "decision")
    assert (first.steps[0].begun, first.steps[0].detail) == (1, "no luck")
    again = await bench.run(ScriptedExecutor())
    assert (again.status, again.reason) == (PlanStatus.PAUSED, "decision")
    assert "no luck" in bench.decisions()[0].question
    await bench.edit(lambda store: store.take(Decide(decision_id="failed:a:1", selections=("skip",))))
    executor = ScriptedExecutor()
    last = await bench.run(executor)
    assert statuses(last) == {"a": "skipped", "b": "completed"}
    assert last.outcome is Outcome.COMPLETED
    assert (executor.started, executor.task("b").inputs[0].summary) == (["b"], "no luck")
    assert (last.steps[0].reason, last.steps[0].detail) == ("waived", "no luck")


async def test_stop_lets_the_failure_stand(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of(ASKING), options=ATTENDED)

    async def answer(control: PlanControl) -> None:
        await decide_when_open(bench, control, "failed:a:1", "stop")

    outcome = await bench.run(ScriptedExecutor({"a": failed(detail="no luck")}), answer)
    assert statuses(outcome) == {"a": "failed", "b": "blocked"}
    assert (outcome.outcome, outcome.reason, outcome.steps[0].detail) == (Outcome.FAILED, "verify", "no luck")


async def test_retries_come_before_the_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"on_failure": "ask", "retries": 1}}))
    await bench.run(ScriptedExecutor({"a": failed()}), clock=SleepyClock())
    assert [decision.decision_id for decision in bench.decisions()] == ["failed:a:2"]


async def test_every_end_of_the_journal_leads_to_the_same_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of(ASKING))
    await bench.run(ScriptedExecutor({"a": failed(detail="no luck")}))
    journal = anyio.Path(tmp_path / "plans" / bench.plan_id / "journal.jsonl")
    lines = (await journal.read_bytes()).splitlines(keepends=True)
    ended = next(number for number, line in enumerate(lines) if b'"type":"plan.attempt"' in line)
    for kept in range(ended + 1, len(lines) + 1):
        await journal.write_bytes(b"".join(lines[:kept]))
        executor = ScriptedExecutor()
        outcome = await bench.run(executor)
        assert (outcome.reason, executor.started) == ("decision", [])
        assert [decision.decision_id for decision in bench.decisions()] == ["failed:a:1"]


async def test_what_reaches_beyond_the_workspace_is_not_done_again_by_itself(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"side_effects": True}, "b": ["a"]}))

    async def stop_now(control: PlanControl) -> None:
        await cutting.until_running("a")
        control.submit(Pause(grace_seconds=0, by="enough"))

    cutting = ScriptedExecutor({"a": forever})
    first = await bench.run(cutting, stop_now)
    assert (first.status, first.reason, cutting.cancelled) == (PlanStatus.PAUSED, "enough", ["a"])
    assert statuses(first)["a"] == "needs_decision"
    idle = ScriptedExecutor()
    second = await bench.run(idle)
    assert (second.reason, second.outcome, idle.started) == ("decision", Outcome.BLOCKED, [])
    assert bench.decisions()[0].options == ("again", "skip", "stop")
    await bench.edit(lambda store: store.take(Decide(decision_id="interrupted:a:1", selections=("again",))))
    cutting = ScriptedExecutor({"a": forever})
    third = await bench.run(cutting, stop_now)
    assert (third.status, cutting.started) == (PlanStatus.PAUSED, ["a"])
    last = await bench.run(idle)
    assert (last.reason, idle.started) == ("decision", []), "the yes was for one time"


async def test_a_step_with_side_effects_that_stopped_at_a_turns_end_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"side_effects": True}}))
    executor = ScriptedExecutor({"a": until_stopped})

    async def pause(control: PlanControl) -> None:
        await executor.until_running("a")
        control.submit(Pause(by="enough"))

    await bench.run(executor, pause)
    last = ScriptedExecutor()
    assert (await bench.run(last)).outcome is Outcome.COMPLETED
    assert last.started == ["a"]


async def test_a_killed_step_with_side_effects_is_asked_about(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": {"side_effects": True}}))
    await bench.run(ScriptedExecutor())
    await bench.forget(b"in_progress", keep=1)
    executor = ScriptedExecutor()
    assert (await bench.run(executor)).reason == "decision"
    assert executor.started == []


async def test_a_step_with_side_effects_whose_worker_is_lost_is_asked_about(tmp_path: Path) -> None:
    async def lost(_: StepTask, __: StopSignal) -> StepResult:
        return StepResult(outcome=Outcome.INTERRUPTED, reason="lost", detail="worker w was lost")

    bench = Bench(tmp_path, plan_of({"a": {"side_effects": True}}))
    executor = ScriptedExecutor({"a": lost})
    assert (await bench.run(executor)).reason == "decision"
    assert [decision.decision_id for decision in bench.decisions()] == ["interrupted:a:1"]
    assert executor.started == ["a"]


@dataclass
class ScriptedReviser:
    """Answers with its next list of operations. ``asked`` keeps the requests."""

    answers: list[Sequence[Operation] | Exception | None]
    asked: list[RevisionRequest] = field(default_factory=list[RevisionRequest])

    async def revise(self, request: RevisionRequest) -> Proposal | None:
        self.asked.append(request)
        await anyio.lowlevel.checkpoint()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else Proposal(operations=answer)


def mend(step_id: str, title: str = "better") -> tuple[Operation, ...]:
    return read_operations([{"op": "update_step", "id": step_id, "changes": {"title": title}}])


REPLANNING = {"a": {"on_failure": "replan"}, "b": ["a"], "c": []}
INSTEAD = read_operations([
    {"op": "add_step", "step": {"id": "a1", "title": "first half", "mode": "research"}},
    {"op": "add_step", "step": {"id": "a2", "title": "second half", "mode": "research", "depends_on": ["a1"]}},
    {"op": "remove_edge", "step": "b", "depends_on": "a"},
    {"op": "add_edge", "step": "b", "depends_on": {"step": "a2"}},
    {"op": "remove_step", "id": "a"},
])


def replanning(
    *answers: Sequence[Operation] | Exception | None, most: int = 3
) -> tuple[ScriptedReviser, DispatchOptions]:
    reviser = ScriptedReviser(list(answers))
    return reviser, DispatchOptions(replanning=ReplanPolicy(reviser=reviser, max_replans=most))


async def test_a_failed_step_is_replaced_by_others_while_the_rest_goes_on(tmp_path: Path) -> None:
    reviser, options = replanning(INSTEAD)
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    executor = ScriptedExecutor({"a": failed(detail="too much at once")})
    outcome = await bench.run(executor)
    assert statuses(outcome) == {"b": "completed", "c": "completed", "a1": "completed", "a2": "completed"}
    assert outcome.outcome is Outcome.COMPLETED
    request = reviser.asked[0]
    assert (request.failed_step_id, request.result.detail) == ("a", "too much at once")
    assert request.statuses["b"] == "blocked"
    revised = next(event for event in bench.memory.events if isinstance(event, PlanRevisedEvent))
    assert (revised.reason, revised.operations[0]["op"]) == ("too much at once", "add_step")
    assert executor.task("b").inputs[0].step_id == "a2"
    effective: list[str] = []
    await bench.edit(lambda store: effective.extend(step.id for step in store.effective().plan.steps))
    assert effective == ["b", "c", "a1", "a2"]


async def test_a_mended_step_is_a_new_attempt_with_its_new_definition(tmp_path: Path) -> None:
    _, options = replanning(mend("a"))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    executor = ScriptedExecutor({"a": [failed(), completed()]})
    outcome = await bench.run(executor)
    assert outcome.outcome is Outcome.COMPLETED
    assert (executor.task("a").attempt, executor.task("a").step.title) == (2, "better")
    assert (outcome.steps[0].begun, outcome.steps[0].outline.title) == (2, "better")


async def test_what_cannot_be_carried_out_goes_back_once_with_the_problems(tmp_path: Path) -> None:
    wrong = read_operations([{"op": "remove_step", "id": "gone"}])
    reviser, options = replanning(wrong, mend("a"))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    outcome = await bench.run(ScriptedExecutor({"a": [failed(), completed()]}))
    assert outcome.outcome is Outcome.COMPLETED
    assert "gone" in reviser.asked[1].problems[0]
    reviser, options = replanning(wrong, wrong, mend("a"))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    outcome = await bench.run(ScriptedExecutor({"a": failed()}))
    assert statuses(outcome) == {"a": "failed", "b": "blocked", "c": "completed"}
    assert len(reviser.asked) == 2
    assert "gone" in outcome.steps[0].detail


async def test_without_a_better_plan_the_step_has_failed(tmp_path: Path) -> None:
    for options in (DispatchOptions(), replanning(None)[1], replanning(RuntimeError("a defect"))[1]):
        bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
        outcome = await bench.run(ScriptedExecutor({"a": failed(detail="no luck")}))
        assert statuses(outcome) == {"a": "failed", "b": "blocked", "c": "completed"}
        assert outcome.outcome is Outcome.FAILED
        assert outcome.steps[0].detail.startswith("no luck; ")


async def test_a_plan_is_revised_no_more_often_than_allowed_over_its_whole_life(tmp_path: Path) -> None:
    reviser, options = replanning(mend("a", "once"), mend("a", "twice"), most=2)
    bench = Bench(tmp_path, plan_of(REPLANNING | {"w": {"decision": "choice"}}, decisions=[CHOICE]), options=options)
    first = await bench.run(ScriptedExecutor({"a": failed(detail="no luck")}))
    assert (len(reviser.asked), first.steps[0].status.value) == (2, "failed")
    assert "replanned 2 times" in first.steps[0].detail
    await bench.edit(lambda store: store.reset(retrying("a")))
    outcome = await bench.run(ScriptedExecutor({"a": failed()}))
    assert (len(reviser.asked), outcome.steps[0].status.value) == (2, "failed")


@pytest.mark.parametrize("again", [mend("a"), mend("a", "a")], ids=["carried out before", "changes nothing"])
async def test_a_revision_that_brings_nothing_new_goes_back_and_is_not_carried_out(
    tmp_path: Path, again: Sequence[Operation]
) -> None:
    reviser, options = replanning(mend("a"), again if again == mend("a") else mend("a"), mend("a", "other"))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)

    outcome = await bench.run(ScriptedExecutor({"a": [failed(), failed(), completed()]}))

    assert outcome.outcome is Outcome.COMPLETED
    assert len(reviser.asked) == 3
    with pytest.raises(RevisionInvalidError, match="operations"):
        reviser.asked[1].check(mend("a"))
    assert "operations" in reviser.asked[2].problems[0]
    assert sum(isinstance(event, PlanRevisedEvent) for event in bench.memory.events) == 2


async def test_the_reason_of_who_revised_is_announced_and_kept(tmp_path: Path) -> None:
    class Reasoned(ScriptedReviser):
        async def revise(self, request: RevisionRequest) -> Proposal | None:
            found = await super().revise(request)
            return found and Proposal(operations=found.operations, reason="the file is called otherwise")

    options = DispatchOptions(replanning=ReplanPolicy(reviser=Reasoned([mend("a")]), max_replans=1))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    await bench.run(ScriptedExecutor({"a": [failed(), completed()]}))

    revised = next(event for event in bench.memory.events if isinstance(event, PlanRevisedEvent))
    assert revised.reason == "the file is called otherwise"


async def test_an_attempt_after_one_that_ran_out_gets_twice_as_much(tmp_path: Path) -> None:
    ran_out = StepResult(outcome=Outcome.LIMIT, reason="turns", detail="no turns left")
    steps = {"a": {"on_failure": "ask"}, "own": {"on_failure": "ask", "max_turns": 3}}
    bench = Bench(tmp_path, plan_of(steps))
    given: list[tuple[str, int, int]] = []
    for _ in range(2):
        executor = ScriptedExecutor({"a": ran_out, "own": ran_out})
        await bench.run(executor)
        given += [(name, executor.task(name).max_turns, executor.task(name).max_tokens) for name in steps]
        await bench.edit(lambda store: [store.reset(retrying(name)) for name in steps])

    usual = USUAL[ExecutionMode.CODE]
    assert given[0] == ("a", usual.max_turns, usual.max_tokens)
    assert given[2] == ("a", 2 * usual.max_turns, 2 * usual.max_tokens)
    assert (given[1][1], given[3][1]) == (3, 3)


async def test_killed_while_a_better_plan_is_looked_for_a_resume_asks_again(tmp_path: Path) -> None:
    reviser, options = replanning(INSTEAD, INSTEAD)
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    await bench.run(ScriptedExecutor({"a": failed(detail="too much")}))
    await bench.forget(b'"plan.revised"')
    executor = ScriptedExecutor()
    outcome = await bench.run(executor)
    assert outcome.outcome is Outcome.COMPLETED
    assert (len(reviser.asked), reviser.asked[1].result.detail) == (2, "too much")
    assert "a" not in executor.started


async def test_for_a_step_that_fails_while_the_plan_pauses_a_better_plan_is_looked_for_on_resume(
    tmp_path: Path,
) -> None:
    reviser, options = replanning(mend("a"))
    bench = Bench(tmp_path, plan_of({"a": {"on_failure": "replan"}}), options=options)

    async def fail_once_paused(_task: StepTask, _stop: StopSignal) -> StepResult:
        while not any(isinstance(event, PlanStoppingEvent) for event in bench.memory.events):  # noqa: ASYNC110  as below
            await anyio.sleep(0.001)
        return failed()

    async def pause(control: PlanControl) -> None:
        control.submit(Pause())

    first = await bench.run(ScriptedExecutor({"a": fail_once_paused}), pause)
    assert (first.status, reviser.asked) == (PlanStatus.PAUSED, [])
    last = await bench.run(ScriptedExecutor())
    assert (last.outcome, len(reviser.asked)) == (Outcome.COMPLETED, 1)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LIMIT])
async def test_a_provider_that_refuses_the_reviser_pauses_the_plan(tmp_path: Path, outcome: Outcome) -> None:
    reviser, options = replanning(ProviderRefused("the key, or the credit", outcome), mend("a"))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    first = await bench.run(ScriptedExecutor({"a": failed()}))
    assert (first.status, first.reason, first.outcome) == (PlanStatus.PAUSED, "provider", outcome)
    told: list[Outcome | None] = []
    await bench.edit(lambda store: told.append(store.state().outcome))
    assert told == [outcome]
    last = await bench.run(ScriptedExecutor())
    assert (last.outcome, len(reviser.asked)) == (Outcome.COMPLETED, 2)


async def test_a_person_changes_a_plan_that_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"], "z": ["b"]}))
    executor = ScriptedExecutor({"a": until_stopped, "new": completed()})
    verdicts: list[str | None] = []

    async def revise(control: PlanControl) -> None:
        await executor.until_running("a")
        control.submit(Revise(operations=plain_operations(mend("a"))), verdicts.append)
        control.submit(
            Revise(
                operations=(
                    {"op": "add_step", "step": {"id": "new", "title": "New", "mode": "research"}},
                    {"op": "add_edge", "step": "b", "depends_on": {"step": "new"}},
                    {"op": "remove_step", "id": "z"},
                ),
                reason="a second thought",
                by="someone",
            ),
            verdicts.append,
        )
        await executor.until_ended("new")
        control.submit(Pause(by="enough"))

    paused = await bench.run(executor, revise)
    assert verdicts[1] is None
    assert "is running or completed" in str(verdicts[0])
    assert statuses(paused) == {"a": "pending", "b": "blocked", "new": "completed"}
    last = ScriptedExecutor()
    outcome = await bench.run(last)
    assert (outcome.outcome, last.started) == (Outcome.COMPLETED, ["a", "b"])
    assert [given.step_id for given in last.task("b").inputs] == ["a", "new"]


def no_such_title(loaded: LoadedPlan, left: Collection[str]) -> LoadedPlan:
    if any(step.title == "bad" for step in loaded.plan.steps if step.id in left):
        raise UsageError("there is no model 'bad': name another")
    return loaded


async def test_a_revision_whose_steps_could_not_start_is_refused_with_the_sentence(tmp_path: Path) -> None:
    options = DispatchOptions(replanning=ReplanPolicy(check=no_such_title))
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}), options=options)
    executor = ScriptedExecutor({"a": until_stopped})
    verdicts: list[str | None] = []

    async def revise(control: PlanControl) -> None:
        await executor.until_running("a")
        control.submit(Revise(operations=plain_operations(mend("b", "bad"))), verdicts.append)
        control.submit(Revise(operations=plain_operations(mend("b", "good"))), verdicts.append)
        while len(verdicts) < 2:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        control.submit(Pause(by="enough"))

    paused = await bench.run(executor, revise)
    assert verdicts == ["the revision: there is no model 'bad': name another", None]
    assert paused.steps[1].outline.title == "good"


async def test_a_better_plan_whose_steps_could_not_start_goes_back_with_the_sentence(tmp_path: Path) -> None:
    reviser = ScriptedReviser([mend("a", "bad"), mend("a", "good")])
    options = DispatchOptions(replanning=ReplanPolicy(reviser=reviser, check=no_such_title))
    bench = Bench(tmp_path, plan_of(REPLANNING), options=options)
    outcome = await bench.run(ScriptedExecutor({"a": [failed(), completed()]}))
    assert (outcome.outcome, outcome.steps[0].outline.title) == (Outcome.COMPLETED, "good")
    assert reviser.asked[1].problems == ("there is no model 'bad': name another",)


async def test_a_failed_step_that_a_person_mends_is_done_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"], "c": []}))
    executor = ScriptedExecutor({"a": [failed(), completed()], "c": until_stopped})

    async def revise(control: PlanControl) -> None:
        while "failed" not in bench.moves("a"):  # noqa: ASYNC110
            await anyio.sleep(0.001)
        control.submit(Revise(operations=plain_operations(mend("a"))))
        await executor.until_ended("b")
        control.submit(Pause(by="enough"))

    outcome = await bench.run(executor, revise)
    assert statuses(outcome) == {"a": "completed", "b": "completed", "c": "pending"}
    assert executor.task("a").attempt == 2


async def test_a_wish_nobody_asked_about_is_answered_by_a_warning(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_of({"a": []}))
    executor = ScriptedExecutor({"a": until_stopped})

    async def revise(control: PlanControl) -> None:
        await executor.until_running("a")
        control.submit(Revise(operations=plain_operations(mend("gone"))))
        while not bench.warnings():  # noqa: ASYNC110
            await anyio.sleep(0.001)
        control.submit(Pause(by="enough"))

    await bench.run(executor, revise)
    assert "gone" in bench.warnings()[0]


async def test_an_attempt_that_was_cut_off_says_what_it_used(tmp_path: Path) -> None:
    events = MemorySink()
    watchdog = Watchdog(events)
    options = DispatchOptions(watchdog=watchdog, spent_by=lambda _, attempt: Spending(Usage(10, attempt, 0, 1), 0.5))
    bench = Bench(tmp_path, plan_of({"a": []}), options=options)
    executor = ScriptedExecutor({"a": forever})

    async def cut(control: PlanControl) -> None:
        await executor.until_running("a")
        watchdog.publish(
            SubAgentStartedEvent(
                title="A", mode="code", model="m", tools=(), max_tokens=1, max_turns=1,
                subagent_id="agent", subagent_step_id="a",
            )
        )  # fmt: skip
        control.submit(Pause(grace_seconds=0, by="enough"))

    outcome = await bench.run(executor, cut)
    result = outcome.steps[0].result
    assert result is not None
    assert (result.usage, result.cost_usd, result.agent_id) == (Usage(10, 1, 0, 1), 0.5, "agent")
    assert [(agent.agent_id, agent.usage) for agent in result.agents] == [("agent", Usage(10, 1, 0, 1))]
    assert (outcome.usage, outcome.cost_usd) == (Usage(10, 1, 0, 1), 0.5)


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the size of each file that is flushed to the disk."""
    sizes: list[int] = []
    flush = os.fdatasync

    def watched(fd: int) -> None:
        flush(fd)
        sizes.append(os.fstat(fd).st_size)

    monkeypatch.setattr(os, "fdatasync", watched)
    return sizes


async def test_a_step_counts_as_done_once_what_it_came_to_is_on_disk(tmp_path: Path, flushed: list[int]) -> None:
    bench = Bench(tmp_path, plan_of({"a": [], "b": ["a"]}))

    async def look(task: StepTask, stop: StopSignal) -> StepResult:
        [journal] = [path async for path in anyio.Path(tmp_path).rglob("journal.jsonl")]
        on_disk = (await journal.read_bytes())[: flushed[-1]].decode()
        assert '"plan.attempt"' in on_disk, f"{task.step_id} began before, stop {stop.requested}"
        return completed()

    assert (await bench.run(ScriptedExecutor({"b": look}))).outcome is Outcome.COMPLETED
    assert len(flushed) == 3, "one flush for each step and one for the end"


async def test_that_a_step_with_side_effects_began_is_on_disk_before_it_acts(
    tmp_path: Path, flushed: list[int]
) -> None:
    bench = Bench(tmp_path, plan_of({"deploy": {"side_effects": True}}))

    async def look(task: StepTask, stop: StopSignal) -> StepResult:
        [journal] = [path async for path in anyio.Path(tmp_path).rglob("journal.jsonl")]
        on_disk = (await journal.read_bytes())[: flushed[-1]].decode()
        assert f'"{task.step_id}"' in on_disk, stop.requested
        assert '"in_progress"' in on_disk
        return completed()

    assert (await bench.run(ScriptedExecutor({"deploy": look}))).outcome is Outcome.COMPLETED


STARVED = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("error", [STARVED, ExceptionGroup("several", [STARVED])])
async def test_a_step_the_system_could_not_serve_pauses_the_plan_and_goes_on_later(
    tmp_path: Path, error: Exception
) -> None:
    async def starved(_task: StepTask, _stop: StopSignal) -> StepResult:
        raise error

    bench = Bench(tmp_path, plan_of({"a": {}, "b": ["a"]}))
    first = await bench.run(ScriptedExecutor({"a": starved}))
    assert (first.status, first.outcome, first.reason) == (PlanStatus.PAUSED, Outcome.FAILED, "environment")
    assert statuses(first) == {"a": "pending", "b": "blocked"}
    assert "Too many open files: raise the limit of open files (`ulimit -n`)" in first.steps[0].detail

    executor = ScriptedExecutor()
    last = await bench.run(executor)
    assert statuses(last) == {"a": "completed", "b": "completed"}
    assert [task.attempt for task in executor.tasks] == [1, 1]
