"""Steps that a program does itself: what is recorded of them, and who may resume such a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from ipc.commands import Pause, Steer
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.status import PlanStatus
from planner.store.folder import PlanRunOptions, ProgramPart, find_plan
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from tests.fakes.executor import ScriptedExecutor, until_stopped
from tests.integration.app.plan.test_plan_session import host_of
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, open_plan
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError

LATER = StepResult(outcome=Outcome.INTERRUPTED, reason="environment", detail="later")


class Beside:
    """Does some steps with ``own``, and leaves the others to ``inner``."""

    def __init__(self, own: StepExecutor, steps: tuple[str, ...], inner: StepExecutor) -> None:
        self._own, self._steps, self._inner = own, steps, inner

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        return await (self._own if task.step_id in self._steps else self._inner).run(task, stop)


def doing(own: StepExecutor, *steps: str) -> ProgramPart:
    """Return a program's part that does these steps, or all if none are named."""
    if not steps:
        return ProgramPart(executor=lambda _, _where: own, does_all=True)
    return ProgramPart(executor=lambda inner, _where: Beside(own, steps, inner), functions=steps)


def loaded(*steps: dict[str, Any]) -> LoadedPlan:
    written = [{"title": step["id"], "mode": "code", **step} for step in steps]
    return load_plan(json.dumps({"version": 1, "goal": "g", "steps": written}), where="plan")


PLAN = loaded(
    {"id": "a", "mode": "run", "command": "true"}, {"id": "b", "depends_on": ["a"]}, {"id": "c", "depends_on": ["b"]}
)


async def run(plan: LoadedPlan | str, folder: Path, program: ProgramPart | None, **options: Any) -> PlanRun:
    given = PlanRunOptions(workdir=folder, plan_folder=folder, program=program, **options)
    session = await open_plan(plan, given, host_of(folder / "home"), Audience())
    return await session.run()


def kept(folder: Path, plan_id: str) -> tuple[str, tuple[str, ...], bytes]:
    plan = find_plan(folder / "home", plan_id)
    settings = plan.settings()
    return settings.executor, settings.functions, (plan.path / "journal.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("steps", "open_step", "given", "noted"),
    [(("b", "c"), "b", "functions", ("local", ("b", "c"))), ((), "b", "executor", ("program", ()))],
)
async def test_who_does_not_do_the_steps_of_a_program_is_refused_and_changes_nothing(
    tmp_path: Path, steps: tuple[str, ...], open_step: str, given: str, noted: tuple[str, tuple[str, ...]]
) -> None:
    paused = await run(PLAN, tmp_path, doing(ScriptedExecutor({"b": LATER}), *steps))
    plan_id = str(paused.record.plan_id)
    before = await to_thread.run_sync(kept, tmp_path, plan_id)

    for program in (None, doing(ScriptedExecutor(), "c")):
        with pytest.raises(UsageError) as refused:
            await run(plan_id, tmp_path, program)
        assert str(refused.value) == (
            f"plan {plan_id}: a program does step {open_step!r}: resume it there, with {given}="
        )

    assert before[:2] == noted
    assert await to_thread.run_sync(kept, tmp_path, plan_id) == before
    finished = await run(plan_id, tmp_path, doing(ScriptedExecutor(), *steps))
    assert finished.status is PlanStatus.COMPLETED


async def test_once_a_program_has_done_its_steps_anyone_may_go_on(tmp_path: Path) -> None:
    options = [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]
    last = {"id": "c", "title": "C", "mode": "run", "command": "true", "depends_on": ["b"], "decision": "go"}
    document = {
        "version": 1,
        "goal": "g",
        "steps": [{"id": "b", "title": "B", "mode": "code"}, last],
        "decisions": [{"id": "go", "question": "?", "options": options}],
    }
    paused = await run(load_plan(json.dumps(document), where="plan"), tmp_path, doing(ScriptedExecutor(), "b"))
    assert paused.status is PlanStatus.PAUSED

    finished = await run(str(paused.record.plan_id), tmp_path, None, decisions={"go": ("yes",)})

    assert finished.status is PlanStatus.COMPLETED


async def test_what_a_program_does_from_a_resume_on_is_kept_too(tmp_path: Path) -> None:
    plan = loaded({"id": "b"}, {"id": "c", "mode": "run", "command": "true", "depends_on": ["b"]})
    paused = await run(plan, tmp_path, doing(ScriptedExecutor({"b": LATER}), "b"))
    plan_id = str(paused.record.plan_id)

    again = await run(plan_id, tmp_path, doing(ScriptedExecutor({"c": LATER}), "b", "c"))

    assert again.status is PlanStatus.PAUSED
    assert (await to_thread.run_sync(kept, tmp_path, plan_id))[:2] == ("local", ("b", "c"))
    with pytest.raises(UsageError, match="a program does step 'c'"):
        await run(plan_id, tmp_path, None)


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_step_that_the_plan_does_not_have_can_not_be_done(tmp_path: Path, *, resumed: bool) -> None:
    plan: LoadedPlan | str = PLAN
    if resumed:
        plan = str((await run(PLAN, tmp_path, doing(ScriptedExecutor({"b": LATER}), "b", "c"))).record.plan_id)

    with pytest.raises(UsageError) as refused:
        await run(plan, tmp_path, doing(ScriptedExecutor(), "b", "c", "bb"))

    assert str(refused.value) == "functions: the plan has no step 'bb'; did you mean 'b'?"


async def test_a_program_that_is_silent_for_long_is_not_taken_for_stuck(tmp_path: Path) -> None:
    async def slow(_task: StepTask, _stop: StopSignal) -> StepResult:
        await anyio.sleep(0.3)
        return StepResult(outcome=Outcome.COMPLETED)

    ended = await run(loaded({"id": "b", "idle_seconds": 0.05}), tmp_path, doing(ScriptedExecutor({"b": slow}), "b"))

    assert ended.status is PlanStatus.COMPLETED


async def test_a_step_that_a_program_does_hears_nothing_and_says_so(tmp_path: Path) -> None:
    told: list[str | None] = []
    own = ScriptedExecutor({"b": until_stopped})
    given = PlanRunOptions(workdir=tmp_path, plan_folder=tmp_path, program=doing(own, "b"))
    session = await open_plan(loaded({"id": "b"}), given, host_of(tmp_path / "home"), Audience())

    async def steer() -> None:
        await own.until_running("b")
        session.control.submit(Steer(step_id="b", text="Use tabs"), told.append)
        session.control.submit(Pause(by="test"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(steer)
        await session.run()

    assert told == ["a program does step 'b', not an agent: it hears nothing"]
