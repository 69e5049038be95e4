"""Plans run inside another program: several in one process, each controllable, and without any signal handlers."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.commands import Act, Pause, StepAction
from ipc.events import Event, PlanPausedEvent, PlanStepUpdateEvent, ToolCallEvent, UserMessageEvent
from ipc.sink import MemorySink
from planner.plan.loader import load_plan
from planner.plan.status import PlanStatus, StepStatus
from planner.store.folder import ApprovalSetting, PlanRunOptions
from planner.store.store import PlanStore
from tests.fakes.full_disk import file_size_limit
from vibe.app.engine.host import Host
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, PlanSession, open_plan
from vibe.core.messages import Outcome
from vibe.front.plan_summary import summary_text

WAITS = "while [ ! -e go ]; do sleep 0.02; done"


class Watcher(MemorySink):
    """Announces the moves of steps."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = anyio.Event()

    def publish(self, event: Event) -> None:
        super().publish(event)
        self._moved.set()
        self._moved = anyio.Event()

    async def until(self, step_id: str, status: str) -> None:
        await self.until_said(
            lambda event: isinstance(event, PlanStepUpdateEvent) and (event.step_id, event.status) == (step_id, status)
        )

    async def until_said(self, matches: Callable[[Event], bool]) -> Event:
        while (found := next(filter(matches, self.events), None)) is None:
            await self._moved.wait()
        return found


def host_of(home: Path) -> Host:
    return Host(home=home, environ={"PATH": os.environ["PATH"]}, owns_process=True)


async def opened(folder: Path, *steps: dict[str, Any], **settings: Any) -> tuple[PlanSession, Watcher]:
    """Return a plan in a workspace of its own, ready to run. Its steps are commands unless they say otherwise."""
    workdir, watcher = folder / "work", Watcher()
    await anyio.Path(workdir).mkdir(parents=True)
    document = {"version": 1, "goal": "g", "steps": [{"title": s["id"], "mode": "run", **s} for s in steps]}
    loaded = load_plan(json.dumps(document), where="plan.json")
    options = PlanRunOptions(workdir=workdir, plan_folder=workdir, **settings)
    return await open_plan(loaded, options, host_of(folder / "home"), Audience(listeners=[watcher])), watcher


async def test_two_plans_run_in_one_process_and_take_no_signals(tmp_path: Path) -> None:
    handlers = [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    ended: dict[str, PlanRun] = {}
    started: list[str] = []

    async def run(name: str) -> None:
        session, watcher = await opened(tmp_path / name, {"id": "a", "command": WAITS}, {"id": "b", "command": "true"})

        async def act() -> None:
            await watcher.until("a", "in_progress")
            assert [signal.getsignal(w) for w in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
            session.control.submit(Act(step_id="a", action=StepAction.SKIP if name == "one" else StepAction.CANCEL))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act)
            ended[name] = await session.run(lambda: started.append(name))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "one")
        tasks.start_soon(run, "two")

    assert sorted(started) == ["one", "two"]
    assert (ended["one"].status, ended["one"].record.exit_code) == (PlanStatus.COMPLETED, 0)
    assert (ended["two"].status, ended["two"].record.exit_code) == (PlanStatus.FAILED, 1)
    assert ended["two"].record.result == "step 'a' was cancelled: the step was stopped by a command"


async def test_a_full_disk_pauses_a_plan_whose_record_counts_what_was_done(tmp_path: Path) -> None:
    session, watcher = await opened(
        tmp_path, {"id": "a", "command": "true"}, {"id": "b", "command": WAITS, "depends_on": ["a"]}
    )
    ended: list[PlanRun] = []
    over = anyio.Event()

    async def run() -> None:
        ended.append(await session.run())
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await watcher.until("b", "in_progress")
        [journal] = [path async for path in anyio.Path(tmp_path).glob("home/plans/*/journal.jsonl")]
        with file_size_limit((await journal.stat()).st_size):
            await anyio.Path(tmp_path, "work/go").touch()
            await over.wait()
    [broken_off] = ended

    assert (broken_off.status, broken_off.record.exit_code) == (PlanStatus.PAUSED, 3)
    assert "File too large" in broken_off.record.detail
    assert [(step.id, step.status) for step in broken_off.record.steps or ()] == [
        ("a", StepStatus.COMPLETED),
        ("b", StepStatus.PENDING),
    ]
    assert ": 1 of 2 steps, " in summary_text(broken_off)
    assert [event.status for event in watcher.events if isinstance(event, PlanStepUpdateEvent)][-1] == "pending"
    assert [event.reason for event in watcher.events if isinstance(event, PlanPausedEvent)] == ["environment"]


async def test_a_plan_whose_folder_is_moved_away_names_the_write_that_failed_and_is_paused(tmp_path: Path) -> None:
    session, watcher = await opened(
        tmp_path, {"id": "a", "command": "true"}, {"id": "b", "command": WAITS, "depends_on": ["a"]}
    )
    ended: list[PlanRun] = []

    async def run() -> None:
        ended.append(await session.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await watcher.until("b", "in_progress")
        plans = anyio.Path(tmp_path, "home/plans")
        await plans.rename(tmp_path / "elsewhere")
        await anyio.Path(tmp_path, "work/go").touch()
    [broken_off] = ended

    assert (broken_off.status, broken_off.record.exit_code) == (PlanStatus.PAUSED, 3)
    assert broken_off.record.detail.startswith(
        f"cannot write {tmp_path}/home/plans/{broken_off.record.plan_id}/journal.jsonl: No such"
    )
    assert [step.status for step in broken_off.record.steps or ()] == [StepStatus.COMPLETED, StepStatus.PENDING]
    assert [event.status for event in watcher.events if isinstance(event, PlanStepUpdateEvent)][-1] == "pending"
    assert [event.reason for event in watcher.events if isinstance(event, PlanPausedEvent)] == ["environment"]


async def test_no_error_of_ours_leaves_a_plan_at_work_for_those_who_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    session, watcher = await opened(tmp_path, {"id": "a", "command": "true"})
    monkeypatch.setattr(PlanStore, "write_result", fail)

    with pytest.raises(RuntimeError, match="a bug"):
        await session.run()

    told = [event for event in watcher.events if isinstance(event, PlanStepUpdateEvent | PlanPausedEvent)]
    assert [getattr(event, "status", "paused") for event in told] == ["in_progress", "pending", "paused"]


async def test_a_plan_is_paused_by_whoever_holds_it_and_goes_on_by_its_id(tmp_path: Path) -> None:
    ended: list[PlanRun] = []
    session, watcher = await opened(tmp_path, {"id": "a", "command": WAITS}, {"id": "b", "command": "true"})

    async def pause() -> None:
        await watcher.until("b", "completed")
        session.control.submit(Pause(grace_seconds=0, by="editor"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pause)
        ended.append(await session.run())
    [paused] = ended

    assert (paused.record.outcome, paused.record.reason, paused.record.exit_code) == (
        Outcome.INTERRUPTED,
        "editor",
        130,
    )
    assert paused.record.after_signal(143).exit_code == 143
    await anyio.Path(tmp_path / "work" / "go").touch()
    options = PlanRunOptions(workdir=tmp_path / "work", plan_folder=tmp_path)
    again = await open_plan(str(paused.record.plan_id), options, host_of(tmp_path / "home"), Audience())
    finished = await again.run()
    assert finished.status is PlanStatus.COMPLETED
    assert finished.record.after_signal(143).exit_code == 0


@pytest.mark.parametrize("executor", ["local", "process"])
async def test_an_agent_is_found_by_its_id_and_reads_what_it_is_told_as_the_users(
    tmp_path: Path, executor: str
) -> None:
    home = tmp_path / "home"
    await anyio.Path(home).mkdir()
    call = {"tool_calls": [{"name": "bash", "arguments": {"command": WAITS}}]}
    script = {"version": 1, "agents": {"a": {"turns": [call, {"text": "done"}]}}}
    await anyio.Path(home / "script.json").write_text(json.dumps(script))
    await anyio.Path(home / "config.toml").write_text(
        'active_model = "replay"\n[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "script.json"\n'
        '[[models]]\nname = "replay"\nprovider = "replay"\n'
    )
    session, watcher = await opened(
        tmp_path, {"id": "a", "mode": "test"}, executor=executor, approvals=ApprovalSetting.AUTO
    )

    async def tell() -> None:
        working = await watcher.until_said(lambda event: isinstance(event, ToolCallEvent))
        assert working.subagent_id is not None
        assert session.steering.step_of("somebody else") is None
        assert session.steering.step_of(working.subagent_id) == "a"
        assert await session.steering.tell("a", "Hurry", "Ana")
        assert not await session.steering.tell("b", "Hurry")
        assert session.plan_id == working.plan_id
        await anyio.Path(tmp_path / "work" / "go").touch()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        await session.run()

    said = [event for event in watcher.events if isinstance(event, UserMessageEvent) and event.origin == "steer"]
    assert [(event.text, event.by, event.subagent_step_id) for event in said] == [("Hurry", "Ana", "a")]
    assert not await session.steering.tell("a", "too late")


async def test_the_temporary_folders_of_a_run_go_at_its_end_and_do_not_wait_for_the_garbage(tmp_path: Path) -> None:
    temporary, document = tmp_path / "tmp", {"id": "a", "title": "A", "mode": "run", "command": "true"}
    temporary.mkdir()
    plan = {"version": 1, "goal": "g", "steps": [{**document, "verify": ['test -d "$TMPDIR"']}]}
    host = Host(home=tmp_path / "home", environ={"PATH": os.environ["PATH"], "TMPDIR": str(temporary)})
    options = PlanRunOptions(workdir=tmp_path, plan_folder=tmp_path)
    session = await open_plan(load_plan(json.dumps(plan), where="plan.json"), options, host, Audience())
    gc.disable()
    try:
        ended = await session.run()
    finally:
        gc.enable()
    assert ended.status is PlanStatus.COMPLETED
    assert list(temporary.iterdir()) == []
