"""The files of a workspace, recorded around steps that run side by side."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ipc.events import WarningEvent
from ipc.sink import MemorySink
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.tasks import task_of
from tests.integration.core.session.repository import repository, snapshots, write
from vibe.app.plan.rewind import PlanFilesLog, RecordingExecutor, left_busy
from vibe.core.messages import NeverStop, Outcome
from vibe.core.session.snapshots import Point, Snapshots


@pytest.fixture
def log(tmp_path: Path) -> PlanFilesLog:
    return PlanFilesLog(snapshots(repository(tmp_path / "w", {"a.txt": "a"}), tmp_path / "plan"))


def task(step_id: str, *, worktree: bool = False) -> StepTask:
    return task_of(step_id, workspace="worktree" if worktree else "shared")


class Writer:
    """A step that waits until ``together`` steps have started, and then writes a file with its own name."""

    def __init__(self, root: Path, *, together: int = 1) -> None:
        self._root = root
        self._together = together
        self._here = 0
        self._all_here = anyio.Event()

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        self._here += 1
        if self._here == self._together:
            self._all_here.set()
        await self._all_here.wait()
        await anyio.to_thread.run_sync(write, self._root, {f"{task.step_id}.txt": "new"})
        assert not stop.requested
        return StepResult(outcome=Outcome.COMPLETED)


async def points(log: PlanFilesLog) -> list[Point]:
    return await anyio.to_thread.run_sync(log.snapshots.points)


async def test_each_step_is_between_two_points_and_known_as_the_one_that_was_busy(log: PlanFilesLog) -> None:
    executor = RecordingExecutor(Writer(log.snapshots.workspace), log, MemorySink())
    for name in ("one", "two"):
        await executor.run(task(name), NeverStop())

    before, after, again, end = await points(log)

    assert [(p.begun, p.ended, p.busy) for p in (before, after)] == [(("one",), (), ()), ((), ("one",), ("one",))]
    assert (again.begun, again.busy, again.changed) == (("two",), (), {})
    assert list(end.changed) == ["two.txt"]


async def test_steps_that_come_together_share_snapshots(log: PlanFilesLog) -> None:
    executor = RecordingExecutor(Writer(log.snapshots.workspace, together=30), log, MemorySink())
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(executor.run, task(f"s{number}"), NeverStop())

    taken = await points(log)

    assert sum(len(point.begun) for point in taken) == sum(len(point.ended) for point in taken) == 30
    assert len(taken) <= 20
    assert left_busy(taken) == set()


async def test_of_a_step_in_a_worktree_only_its_merge_is_noted(log: PlanFilesLog) -> None:
    executor = RecordingExecutor(Writer(log.snapshots.workspace), log, MemorySink())

    await executor.run(task("tree", worktree=True), NeverStop())

    (point,) = await points(log)
    assert (point.begun, point.ended, point.busy) == ((), ("tree",), ("tree",))


async def test_a_cancelled_step_is_no_longer_busy_after_the_next_point(log: PlanFilesLog) -> None:
    executor = RecordingExecutor(Writer(log.snapshots.workspace, together=2), log, MemorySink())
    with anyio.move_on_after(0.5):
        await executor.run(task("alone"), NeverStop())
    await executor.run(task("next"), NeverStop())

    taken = await points(log)

    assert [point.busy for point in taken] == [(), ("alone",), ("next",)]


async def test_a_process_that_died_leaves_its_steps_busy_for_the_next_one(log: PlanFilesLog, tmp_path: Path) -> None:
    await anyio.to_thread.run_sync(log.take, ("slow",))
    later = PlanFilesLog(snapshots(log.snapshots.workspace, tmp_path / "plan"))

    await anyio.to_thread.run_sync(later.take, ("slow",))
    await anyio.to_thread.run_sync(later.take, (), ("slow",))

    taken = await points(log)
    assert [(point.busy, point.cut) for point in taken] == [((), False), (("slow",), True), (("slow",), False)]


async def test_where_nothing_can_be_recorded_that_is_said_once(tmp_path: Path) -> None:
    sink = MemorySink()
    write(tmp_path / "w", {"a.txt": "a"})
    log = PlanFilesLog(Snapshots(tmp_path / "w", tmp_path / "plan", {"PATH": ""}))
    executor = RecordingExecutor(Writer(tmp_path / "w"), log, sink)
    for name in ("one", "two"):
        assert (await executor.run(task(name), NeverStop())).outcome is Outcome.COMPLETED

    (warning,) = sink.events
    assert isinstance(warning, WarningEvent)
    assert "git is not installed" in warning.message
