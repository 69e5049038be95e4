"""Plans of a resumed conversation are restored as they were seen, even if their process was killed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from ipc.commands import Pause
from ipc.registry import Registry
from planner.plan.status import LEFT, PlanStatus
from planner.store.folder import PlanRunOptions, RunSettings
from planner.store.store import PlanStore
from tests.integration.app.plan.test_plan_session import WAITS, host_of, opened
from tests.unit.planner.facts import began, took_up
from tests.unit.planner.scripted_run import make_plan, step
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.looking_back import plans_of
from vibe.app.plan.run import open_plan
from vibe.view.plan_view import PlanView


def read_back(home: Path, *sessions: str) -> list[PlanView]:
    return [each.view for each in plans_of(Registry(home), sessions or ("mine",))]


async def paused(folder: Path) -> Path:
    """Return the home of a plan that was paused when its first step was done."""
    one = {"id": "one", "command": "touch one", "verify": ["true"]}
    session, watcher = await opened(folder, one, {"id": "two", "command": WAITS, "depends_on": ["one"]}, session="mine")

    async def leave() -> None:
        await watcher.until("two", "in_progress")
        session.control.submit(Pause(grace_seconds=0, by=LEFT))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await session.run()
    return folder / "home"


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_plan_that_was_paused_is_read_back_with_all_that_its_run_announced(
    tmp_path: Path,
    is_kept: bool,  # noqa: FBT001  a case
) -> None:
    home = await paused(tmp_path)
    if not is_kept:
        shutil.rmtree(home / "run")
    [plan] = await anyio.to_thread.run_sync(read_back, home)

    assert (plan.status, plan.reason, plan.ended_at is not None) == ("paused", LEFT, True)
    assert [step.status for step in plan.steps.values()] == ["completed", "pending"]
    assert [span.kind for span in plan.steps["one"].spans if span.kind == "work"]
    assert [check.status for check in plan.steps["one"].checks.values()] == ["passed"] * is_kept
    assert not await anyio.to_thread.run_sync(read_back, home, "another")


async def test_a_plan_that_was_resumed_after_the_clock_was_set_back_is_read_back_as_it_ended(tmp_path: Path) -> None:
    home = await paused(tmp_path)
    for journal in (*home.glob("plans/*/journal.jsonl"), *home.glob("run/*/*.jsonl")):
        was = journal.read_text()
        journal.write_text(re.sub(r'"ts":([0-9.]+)', lambda at: f'"ts":{float(at[1]) + 7_200}', was))
    (tmp_path / "work/go").touch()
    options = PlanRunOptions(workdir=tmp_path / "work", plan_folder=tmp_path / "work")
    ended = await (await open_plan("latest", options, host_of(home), Audience())).run()
    assert ended.status is PlanStatus.COMPLETED

    [plan] = await anyio.to_thread.run_sync(read_back, home)

    assert plan.status == "completed"
    assert [step.status for step in plan.steps.values()] == ["completed", "completed"]


def test_a_plan_whose_process_was_killed_is_paused_and_nothing_in_it_works(tmp_path: Path) -> None:
    source = make_plan([step("a"), step("b")]).model_dump_json(exclude_unset=True).encode()
    with PlanStore.create(tmp_path, RunSettings(workspace=str(tmp_path), session="mine"), source) as store:
        store.append(*(replace(fact, plan_id=store.plan_id) for fact in (took_up(1.0, None, "a", "b"), began("a"))))
        assert not read_back(tmp_path)  # a process works on it
    [plan] = read_back(tmp_path)

    assert (plan.status, plan.reason) == ("paused", "its process ended")
    assert [step.status for step in plan.steps.values()] == ["pending", "pending"]
    assert not plan.running
