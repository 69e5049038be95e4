"""Steps done once for each item of a list: unfolded once, limited in parallel, and with their results."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from anyio import to_thread

from ipc.commands import Act as ActOnStep, Pause, Revise, StepAction
from ipc.events import PlanDecisionEvent, PlanStepUpdateEvent, PlanUnfoldedEvent
from planner.plan.for_each import children_of
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Plan
from planner.plan.revision import operations_between
from planner.plan.status import PlanStatus
from planner.run.control import PlanControl
from planner.run.revision_runner import ReplanPolicy
from planner.run.step_runner import DispatchOptions
from planner.state.outcome import RunResult
from planner.state.state import StepState
from planner.store.errors import BrokenPlanError
from planner.store.store import PlanStore
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.executor import Act, ScriptedExecutor, completed, failed, until_stopped
from tests.unit.planner.facts import retrying
from tests.unit.planner.plan_bench import Bench, plan_of
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError

SCHEMA = {"type": "object", "properties": {"files": {"type": "array"}}}


def plan_over(each: Mapping[str, Any] | list[Any] | None = None, **fields: Any) -> Plan:
    """Return a plan that finds a list, does a step for each of its items, and one after that."""
    fix: dict[str, Any] = {
        "title": "Fix ${item.path}",
        "depends_on": ["find"],
        "for_each": {"in": "find", "at": "/files", "key": "/path", **each} if isinstance(each, Mapping) else each,
        "prompt": "Mend ${item.path}, item ${index}.",
        "writes": ["${item.path}"],
        **fields,
    }
    return plan_of({"find": {"output_schema": SCHEMA, "writes": []}, "fix": fix, "sum": ["fix"]})


def found(*items: object) -> StepResult:
    """Return the result of the step that hands in the list."""
    return StepResult(outcome=Outcome.COMPLETED, summary="found", output={"files": list(items)})


def files(*names: str) -> StepResult:
    return found(*({"path": name} for name in names))


def child(plan: Plan, *names: str) -> list[str]:
    """Return the ids of the steps for these paths."""
    pattern = next(step for step in plan.steps if step.id == "fix")
    return [one.id for one in children_of(pattern, [{"path": name} for name in names], {})]


def step_of(outcome: RunResult, step_id: str) -> StepState:
    return next(step for step in outcome.steps if step.id == step_id)


def output_in(bench: Bench) -> list[dict[str, Any]]:
    """Return the complete results of the items, from their file."""
    return json.loads((bench.home / "plans" / bench.plan_id / "steps" / "fix" / "result.json").read_bytes())["output"]


async def test_a_step_is_done_for_each_item_and_the_next_one_gets_the_list(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}))
    executor = ScriptedExecutor({"find": files("b.py", "a.py")})
    outcome = await bench.run(executor)
    b, a = child(bench.plan, "b.py", "a.py")
    assert executor.started == ["find", b, a, "sum"]
    assert [step.id for step in outcome.steps] == ["find", "fix", b, a, "sum"]
    assert outcome.status is PlanStatus.COMPLETED
    task = executor.task(b)
    assert (task.step.title, task.step.prompt, task.step.writes) == ("Fix b.py", "Mend b.py, item 0.", ["b.py"])
    assert task.item is not None
    assert task.variables == {"VIBE_ITEM": '{"path":"b.py"}', "VIBE_ITEM_PATH": "b.py"}
    (given,) = executor.task("sum").inputs
    assert given.summary == "2 of 2 completed"
    assert given.output == [
        {"key": "b.py", "item": {"path": "b.py"}, "status": "completed", "summary": f"{b} done", "output": None},
        {"key": "a.py", "item": {"path": "a.py"}, "status": "completed", "summary": f"{a} done", "output": None},
    ]
    assert output_in(bench) == given.output
    assert bench.moves("fix") == ["blocked", "pending", "blocked", "pending", "completed"]
    events = bench.memory.events
    unfolded = next(number for number, event in enumerate(events) if isinstance(event, PlanUnfoldedEvent))
    assert all(event.step_id != b for event in events[:unfolded] if isinstance(event, PlanStepUpdateEvent))


async def test_no_more_of_a_list_run_side_by_side_than_its_width(tmp_path: Path) -> None:
    plan = plan_of({"each": {"for_each": {"items": list(range(9)), "width": 2}, "workspace": "worktree"}, "other": []})
    executor = ScriptedExecutor()
    counts: list[int] = []

    async def count(task: StepTask, stop: StopSignal) -> StepResult:
        del stop
        counts.append(len(executor.running - {"other"}))
        await anyio.lowlevel.checkpoint()
        return completed(task.step_id)

    pattern = plan.steps[0]
    executor = ScriptedExecutor({one.id: count for one in children_of(pattern, list(range(9)), {})})
    outcome = await Bench(tmp_path, plan, max_parallel=4).run(executor)
    assert outcome.status is PlanStatus.COMPLETED
    assert max(counts) == 2
    assert len(counts) == 9


async def test_an_empty_list_completes_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}))
    executor = ScriptedExecutor({"find": files()})
    outcome = await bench.run(executor)
    assert outcome.status is PlanStatus.COMPLETED
    assert executor.started == ["find", "sum"]
    assert executor.task("sum").inputs[0].output == []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ({"files": 3}, "step 'find' has no list at /files of what it handed in"),
        ({}, "step 'find' has no list at /files of what it handed in"),
        ({"files": [{"path": f"{n}"} for n in range(257)]}, "257 items are more than `at_most` allows, 256: raise it"),
        ({"files": [{"path": "a"}, {"path": "b"}, {"path": "a"}]}, "items 0 and 2 have the same key, 'a'"),
        (
            {"files": [{"path": None}]},
            "item 0 has null at /path, which is not a key: a key is text, not blank, or a number",
        ),
        ({"files": ["a"]}, "item 0 has nothing at /path, which is not a key"),
        ({"files": [{"path": "x" * 201}]}, "item 0 has a key of 201 characters"),
        ({"files": [{"path": "../x"}]}, "item 0 ('../x'): `writes` names '../x', which is not a relative path"),
        ({"files": [{"path": "/etc/x"}]}, "`writes` names '/etc/x'"),
        ({"files": [{"path": "-rf"}]}, "`writes` names '-rf'"),
        ({"files": [{"path": "*.py"}]}, "`writes` names '*.py'"),
        ({"files": [{"path": ".git/config"}]}, "which no step made for an item may write"),
    ],
)
async def test_a_list_that_is_none_fails_the_step_with_a_sentence(tmp_path: Path, items: object, said: str) -> None:
    bench = Bench(tmp_path, plan_over({}))
    result = StepResult(outcome=Outcome.COMPLETED, output=items)
    outcome = await bench.run(ScriptedExecutor({"find": result}))
    step = step_of(outcome, "fix")
    assert (step.status, step.reason) == ("failed", "items")
    assert said in step.detail
    assert step.detail.endswith("; to have another list made: retry find")
    assert (outcome.status, outcome.outcome) == (PlanStatus.FAILED, Outcome.FAILED)
    assert not any(isinstance(event, PlanUnfoldedEvent) for event in bench.memory.events)


@pytest.mark.parametrize(("bad", "status"), [(2, PlanStatus.COMPLETED), (3, PlanStatus.FAILED)])
async def test_so_many_must_complete_as_are_enough(tmp_path: Path, bad: int, status: PlanStatus) -> None:
    bench = Bench(tmp_path, plan_over({"enough": 3}))
    names = ["a", "b", "c", "d", "e"]
    acts: dict[str, Act | list[Act]] = {
        "find": files(*names),
        **dict.fromkeys(child(bench.plan, *names[:bad]), failed()),
    }
    outcome = await bench.run(ScriptedExecutor(acts))
    assert outcome.status is status
    step = step_of(outcome, "fix")
    said = f"{5 - bad} of 5 completed"
    assert step.last_result.summary.startswith(f"{said}\nFix a: it does not work")
    assert (step.status, step.reason) == (("completed", None) if bad == 2 else ("failed", "items"))


async def test_what_did_not_complete_is_named_by_its_key_where_the_title_names_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}, title="Mend"))
    (bad,) = child(bench.plan, "b")
    outcome = await bench.run(ScriptedExecutor({"find": files("a", "b"), bad: failed()}))
    assert step_of(outcome, "fix").last_result.summary.splitlines()[1].startswith("b: ")


async def test_a_question_about_an_item_does_not_promise_that_the_dependants_run_without_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}, on_failure="ask"))
    (bad,) = child(bench.plan, "b")
    await bench.run(ScriptedExecutor({"find": files("a", "b"), bad: failed()}))
    [asked] = [event for event in bench.memory.events if isinstance(event, PlanDecisionEvent)]
    said = "Skip it: it counts as one that did not complete; if too few can, those not begun are skipped too"
    assert asked.labels[1] == said


async def test_what_has_not_begun_is_skipped_once_too_few_can_complete(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 1}))
    names = ["a", "b", "c"]
    a, b, c = child(bench.plan, *names)
    outcome = await bench.run(ScriptedExecutor({"find": files(*names), b: failed()}))
    skipped = step_of(outcome, c)
    assert step_of(outcome, a).status == "completed"
    assert (skipped.status, skipped.reason) == ("skipped", "items")
    assert step_of(outcome, "fix").detail == "1 of 3 completed"
    assert [entry["status"] for entry in output_in(bench)] == ["completed", "failed", "skipped"]
    assert step_of(outcome, "sum").status == "blocked"


async def test_a_retry_of_the_list_does_those_again_that_did_not_complete(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"enough": "all"}))
    names = ["a", "b", "c", "d", "e"]
    ids = child(bench.plan, *names)
    first = ScriptedExecutor({"find": files(*names), ids[3]: failed()})
    assert (await bench.run(first)).status is PlanStatus.FAILED
    await bench.edit(lambda store: store.reset(retrying("fix")))
    again = ScriptedExecutor()
    outcome = await bench.run(again)
    assert outcome.status is PlanStatus.COMPLETED
    assert again.started[0] == ids[3]
    assert not set(again.started) & set(ids[:3])
    assert again.started[-1] == "sum"
    assert bench.warnings() == []
    assert output_in(bench)[3]["status"] == "completed"


async def test_a_retry_of_one_item_gives_those_another_chance_that_were_given_up_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 1}))
    names = ["a", "b", "c"]
    _, b, c = child(bench.plan, *names)
    await bench.run(ScriptedExecutor({"find": files(*names), b: failed()}))
    await bench.edit(lambda store: store.reset(retrying(b)))
    again = ScriptedExecutor()
    outcome = await bench.run(again)
    assert outcome.status is PlanStatus.COMPLETED
    assert again.started == [b, c, "sum"]


async def test_a_retry_of_one_item_is_no_chance_for_others_while_too_few_can_complete(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 2}, workspace="worktree"))
    names = ["a", "b", "c"]
    a, b, c = child(bench.plan, *names)
    await bench.run(ScriptedExecutor({"find": files(*names), a: failed(), b: failed()}))
    await bench.edit(lambda store: store.reset(retrying(b)))
    again = ScriptedExecutor()
    outcome = await bench.run(again)
    assert outcome.status is PlanStatus.FAILED
    assert again.started == [b]
    assert step_of(outcome, c).reason == "items"


async def test_a_failed_item_that_a_person_changed_is_done_again_with_its_list(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 1}))
    names = ["a", "b", "c"]
    _, b, c = child(bench.plan, *names)
    await bench.run(ScriptedExecutor({"find": files(*names), b: failed()}))
    change = {"op": "update_step", "id": b, "changes": {"prompt": "Try it"}}
    await bench.edit(lambda store: store.take(Revise(operations=(change,), by="user")))
    again = ScriptedExecutor()
    outcome = await bench.run(again)
    assert outcome.status is PlanStatus.COMPLETED
    assert again.started == [b, c, "sum"]


@pytest.mark.parametrize("kind", ["change", "retry", "cancel"])
async def test_an_item_is_done_again_while_other_steps_run(tmp_path: Path, kind: str) -> None:
    list_plan = plan_over({"width": 1}, title="Fix ${item.path}")
    other = plan_of({"other": {"writes": []}}).steps
    bench = Bench(tmp_path, list_plan.model_copy(update={"steps": [*other, *list_plan.steps]}))
    names = ["a", "b", "c"]
    a, b, c = child(bench.plan, *names)
    gate = anyio.Event()

    async def wait(task: StepTask, stop: StopSignal) -> StepResult:
        del stop
        await gate.wait()
        return completed(task.step_id)

    first: Act = until_stopped if kind == "cancel" else failed()
    executor = ScriptedExecutor({"find": files(*names), "other": wait, b: [first, completed(b)]})

    def submit(control: PlanControl, command: Any) -> None:
        control.submit(command, lambda problem: None if problem is None else pytest.fail(problem))

    async def meanwhile(control: PlanControl) -> None:
        await executor.until_running(b)
        if kind == "cancel":
            submit(control, ActOnStep(step_id="fix", action=StepAction.CANCEL))
        await _until(lambda: {"failed", "cancelled"}.issuperset(bench.moves("fix")[-1:] + bench.moves(b)[-1:]))
        change = {"op": "update_step", "id": b, "changes": {"prompt": "Try it"}}
        if kind == "change":
            submit(control, Revise(operations=(change,), by="user"))
        else:
            submit(control, ActOnStep(step_id="fix" if kind == "cancel" else b, action=StepAction.RETRY))
        await _until(lambda: bench.moves("fix")[-1:] == ["completed"])
        gate.set()

    outcome = await bench.run(executor, meanwhile)
    assert outcome.status is PlanStatus.COMPLETED
    assert [step for step in executor.started if step != "other"] == ["find", a, b, b, c, "sum"]
    assert bench.warnings() == []


async def _until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110  events can only be polled
            await anyio.sleep(0.001)


async def test_a_step_whose_list_was_read_is_not_done_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}))
    await bench.run(ScriptedExecutor({"find": files("a")}))
    with pytest.raises(Exception, match="step 'find' can't be done again: the items of step 'fix' are its list"):
        await bench.edit(lambda store: store.reset(retrying("find")))


async def test_a_list_is_skipped_as_a_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 1}))
    a, b = child(bench.plan, "a", "b")

    async def skip(task: StepTask, stop: StopSignal) -> StepResult:
        del task, stop
        await anyio.sleep_forever()
        raise AssertionError

    executor = ScriptedExecutor({"find": files("a", "b"), a: skip})

    async def meanwhile(control: PlanControl) -> None:
        await executor.until_running(a)
        control.submit(ActOnStep(step_id="fix", action=StepAction.SKIP, by="me"))

    outcome = await bench.run(executor, meanwhile)
    assert [step_of(outcome, each).status for each in ("fix", a, b)] == ["skipped"] * 3
    assert outcome.status is PlanStatus.COMPLETED


async def test_a_list_is_read_once_however_often_its_process_is_killed(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(12)]
    bench = Bench(tmp_path, plan_over({"width": 3}))
    ids = child(bench.plan, *names)
    await bench.run(ScriptedExecutor({"find": files(*names)}))
    whole = (bench.home / "plans" / bench.plan_id / "journal.jsonl").read_bytes().splitlines(keepends=True)
    journal = bench.home / "plans" / bench.plan_id / "journal.jsonl"
    for cut in (6, 9, len(whole) // 2, len(whole) - 2):
        await anyio.Path(journal).write_bytes(b"".join(whole[:cut]))
        executor = ScriptedExecutor({"find": files(*names)})
        outcome = await bench.run(executor)
        assert outcome.status is PlanStatus.COMPLETED
        lines = journal.read_bytes()
        assert lines.count(b'"type":"plan.unfolded"') == 1
        for each in ids:
            assert (
                sum(f'"step_id":"{each}"'.encode() in line and b"plan.attempt" in line for line in lines.splitlines())
                == 1
            )
        assert [entry["key"] for entry in output_in(bench)] == names
        assert executor.most <= 3


async def test_a_list_that_is_changed_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    plan = plan_of({"each": {"for_each": {"items": ["a"]}}})
    read, changed = threading.Event(), threading.Event()

    def earlier(_step_id: str, _items: object) -> tuple[Mapping[str, StepResult], str]:
        read.set()
        changed.wait(10.0)
        return {}, ""

    async def change(control: PlanControl) -> None:
        await to_thread.run_sync(read.wait, 10.0)
        operation = {"op": "update_step", "id": "each", "changes": {"for_each": {"items": ["b", "c"]}}}
        control.submit(Revise(operations=(operation,)), lambda _problem: changed.set())

    executor = ScriptedExecutor()
    bench = Bench(tmp_path, plan, options=DispatchOptions(earlier=earlier))
    outcome = await bench.run(executor, change)
    assert outcome.status is PlanStatus.COMPLETED
    assert [each["item"] for each in step_of(outcome, "each").output] == ["b", "c"]
    assert len(executor.started) == 2


async def test_a_revision_that_was_looked_at_before_a_list_was_read_keeps_the_steps_for_its_items(
    tmp_path: Path,
) -> None:
    plan = plan_of({
        "first": [],
        "each": {"for_each": {"items": ["a", "b"]}, "depends_on": ["first"]},
        "last": ["each"],
    })
    looked, unfolded = anyio.Event(), threading.Event()

    def check(loaded: LoadedPlan, _left: Collection[str]) -> LoadedPlan:
        anyio.from_thread.run_sync(looked.set)
        unfolded.wait(10.0)
        return loaded

    async def wait(_task: StepTask, _stop: StopSignal) -> StepResult:
        await looked.wait()
        return completed()

    class Executor(ScriptedExecutor):
        async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
            if task.item is not None:
                unfolded.set()
                await judged.wait()  # otherwise the last step might already be at work
            return await super().run(task, stop)

    verdicts: list[str | None] = []
    judged = anyio.Event()

    def note(verdict: str | None) -> None:
        verdicts.append(verdict)
        judged.set()

    async def change(control: PlanControl) -> None:
        operation = {"op": "update_step", "id": "last", "changes": {"title": "Other"}}
        control.submit(Revise(operations=(operation,)), note)

    bench = Bench(tmp_path, plan, options=DispatchOptions(replanning=ReplanPolicy(check=check)))
    outcome = await bench.run(Executor({"first": wait}), change)
    assert (outcome.status, verdicts) == (PlanStatus.COMPLETED, [None])
    assert (len(outcome.steps), step_of(outcome, "last").outline.title) == (5, "Other")


async def test_the_list_on_disk_is_the_one_that_was_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({}))
    await bench.run(ScriptedExecutor({"find": files("a"), "sum": failed()}))
    (kept,) = (bench.home / "plans" / bench.plan_id / "steps" / "fix").glob("items-*.json")
    kept.write_text('[{"path":"b"}]')
    with pytest.raises(BrokenPlanError, match="is not the list that was read when the plan ran"):
        await bench.edit(PlanStore.effective)


async def test_a_step_for_an_item_can_be_removed_and_changed_and_its_list_can_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, plan_over({"width": 1, "enough": 2}, prompt="Mend ${item.path} $${x}"))
    a, b, c = child(bench.plan, "a", "b", "c")
    executor = ScriptedExecutor({"find": files("a", "b", "c"), a: until_stopped})

    async def pause(control: PlanControl) -> None:
        await executor.until_running(a)
        control.submit(Pause())

    assert (await bench.run(executor, pause)).status is PlanStatus.PAUSED
    revise = partial(Revise, by="user")
    update = {"op": "update_step", "id": "fix", "changes": {"title": "x"}}
    with pytest.raises(UsageError, match="the list of step 'fix' was read, so it can't be changed any more"):
        await bench.edit(lambda store: store.take(revise(operations=(update,))))
    added = {"id": "new", "title": "t", "mode": "code", "depends_on": [b]}
    with pytest.raises(UsageError, match=f"'{b}' is made for an item of step 'fix'"):
        await bench.edit(lambda store: store.take(revise(operations=({"op": "add_step", "step": added},))))
    changes: list[dict[str, Any]] = [
        {"op": "remove_step", "id": c},
        {"op": "update_step", "id": b, "changes": {"max_turns": 3}},
    ]
    await bench.edit(lambda store: store.take(revise(operations=tuple(changes))))
    await bench.edit(_says_only_what_a_person_wrote)
    again = ScriptedExecutor()
    outcome = await bench.run(again)
    assert outcome.status is PlanStatus.COMPLETED
    assert again.started == [a, b, "sum"]
    assert (again.task(b).max_turns, again.task(b).step.prompt) == (3, "Mend b ${x}")
    assert [entry["status"] for entry in output_in(bench)] == ["completed", "completed", "skipped"]


def _says_only_what_a_person_wrote(store: PlanStore) -> None:
    """Check that an editor opens only what a person wrote, and that saving it unchanged changes nothing."""
    now = store.effective()
    said = json.loads(now.source_bytes)
    assert [step["id"] for step in said["steps"]] == ["find", "fix", "sum"]
    assert operations_between(now.plan, load_plan(now.source_bytes, where="p").plan) == ()
