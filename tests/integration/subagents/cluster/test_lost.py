from __future__ import annotations

import signal
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from subagents.cluster import client as module
from subagents.cluster.client import ClusterClient
from subagents.executor import StepResult, StepTask
from tests.fakes.cluster import NOTICED, Cluster, RemoteRun, cluster
from tests.fakes.step_links import until
from tests.integration.subagents.worktree.rig import FILES, Rig, git, worktree_task
from vibe.core.messages import NeverStop, Outcome

NEVER = NeverStop()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


@asynccontextmanager
async def at_work(
    made: Cluster, run: RemoteRun, tasks: Sequence[StepTask], *, begun: Path | None = None
) -> AsyncGenerator[tuple[dict[str, StepResult], ClusterClient]]:
    """Run all of these during the block, and wait for them after it. All but the first start once ``begun`` exists."""
    results: dict[str, StepResult] = {}
    async with run.executor(made.scheduler.address) as (executor, client):

        async def work(task: StepTask) -> None:
            if begun is not None and task is not tasks[0]:
                await until(begun.exists)
            results[task.step_id] = await executor.run(task, NEVER)

        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(work, task)
            yield results, client


def busy(made: Cluster) -> list[int]:
    """Return the numbers of the workers that have checkouts."""
    return [n for n in range(len(made.workers)) if [*made.folder(n).glob("work/*/a.txt")]]


async def test_steps_of_a_killed_worker_are_done_once_on_another(rig: Rig, tmp_path: Path) -> None:
    tasks = [worktree_task(f"s{n}", command=f"sleep 0.5; echo {n} > new{n}") for n in range(12)]
    with cluster(tmp_path, 2, 2, ALLOWED_FAILURES="3") as made:
        async with at_work(made, RemoteRun(rig), tasks) as (results, _):
            await until(lambda: len(results) >= 3 and busy(made))
            made.workers[busy(made)[0]].end()

    assert [result.detail for result in results.values() if result.outcome is not Outcome.COMPLETED] == []
    assert [rig.read(f"new{n}") for n in range(12)] == [f"{n}\n" for n in range(12)]
    subjects = git(rig.root, "log", "--format=%s").splitlines()
    assert sorted(one for one in subjects if one.startswith("Step ")) == sorted(f"Step s{n}" for n in range(12))
    assert rig.leftovers() == []


async def test_a_frozen_worker_is_lost_and_changes_nothing_once_thawed(rig: Rig, tmp_path: Path) -> None:
    command = f"echo >> {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo x >> a.txt"
    run = RemoteRun(rig, lost_seconds=4.0)
    with cluster(tmp_path, 1, 1) as made:
        async with at_work(made, run, [worktree_task("s", command=command)]) as (results, _):
            await until((tmp_path / "begun").exists)
            frozen = made.workers[busy(made)[0]]
            frozen.signal(signal.SIGSTOP)
            began = time.monotonic()
            await until(lambda: results or (tmp_path / "begun").read_text() == "\n\n")
            took = time.monotonic() - began
            (tmp_path / "go").touch()
        frozen.signal(signal.SIGCONT)
        await anyio.sleep(1.0)

    assert results["s"].outcome is Outcome.COMPLETED
    assert 3.0 < took < NOTICED
    assert rig.read("a.txt").count("x") == 1
    assert rig.leftovers() == []


async def test_a_worker_that_is_frozen_before_it_announces_a_place_is_found_out(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANNOUNCE_SECONDS", 1.0)
    monkeypatch.setattr(module, "ASK_SECONDS", 2.0)
    with cluster(tmp_path, 1) as made:
        made.workers[0].signal(signal.SIGSTOP)
        async with at_work(made, RemoteRun(rig), [worktree_task("s", command="echo x >> a.txt")]) as (results, _):
            await anyio.sleep(0.3)
            assert made.add(slots=1).address

    assert results["s"].outcome is Outcome.COMPLETED
    assert rig.read("a.txt").count("x") == 1


async def test_with_the_scheduler_gone_a_step_at_work_ends_and_nothing_new_begins(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACK_SECONDS", 6.0)
    waiting = f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo x >> a.txt"
    tasks = [
        worktree_task("first", command=waiting, priority=1),
        worktree_task("second", command="true"),
        worktree_task("third", command="true", needs={"gpu": 1}),
    ]
    with cluster(tmp_path, 1) as made:
        async with at_work(made, RemoteRun(rig), tasks, begun=tmp_path / "begun") as (results, _):
            await until((tmp_path / "begun").exists)
            made.scheduler.end()
            await until(lambda: {"second", "third"} <= {*results})
            (tmp_path / "go").touch()

    for waited in ("second", "third"):
        assert (results[waited].outcome, results[waited].reason) == (Outcome.INTERRUPTED, "environment")
        assert "was not back within 6 s" in results[waited].detail
    assert results["first"].outcome is Outcome.COMPLETED
    assert rig.read("a.txt").endswith("x\n")
