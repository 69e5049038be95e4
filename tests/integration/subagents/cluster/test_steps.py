from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from subagents.cluster.client import ClusterClient
from subagents.executor import StepResult
from subagents.remote.frames import RemoteSettings
from subagents.remote.places import WorkerSettings, own_labels
from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.cluster import Cluster, RemoteRun, cluster
from tests.fakes.step_links import until
from tests.fakes.waiting import written
from tests.integration.subagents.worktree.rig import FILES, Rig, worktree_task
from vibe.core.messages import NeverStop, Outcome

NEVER = NeverStop()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of two workers with two slots each."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2, 2) as made:
        yield made


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


async def test_a_command_is_done_on_a_worker_and_its_work_is_merged_here(two: Cluster, rig: Rig) -> None:
    run = RemoteRun(rig)
    command = "echo more >> a.txt && rm b.txt && mkdir new && pwd > new/where.txt && echo printed"
    async with run.executor(two.scheduler.address) as (executor, _):
        result = await executor.run(worktree_task("s", command=command), NEVER)

    assert result.outcome is Outcome.COMPLETED, result.detail
    assert rig.read("a.txt").endswith("20\nmore\n")
    assert not (rig.root / "b.txt").exists()
    assert str(two.folder(0).parent) in rig.read("new/where.txt")
    assert "printed" in (rig.step_folder("s") / "output.log").read_text()
    assert sorted(result.files_changed) == ["a.txt", "b.txt", "new/where.txt"]
    assert rig.leftovers() == []


async def test_a_worker_that_nobody_described_knows_its_machine_and_its_sandboxes(two: Cluster) -> None:
    async with ClusterClient(two.scheduler.address, run="a" * 32) as client:
        reports = [worker.report for worker in await client.workers()]

    expected = await to_thread.run_sync(WorkerSettings().complete, os.environ)
    assert expected.labels == own_labels()
    assert [report["labels"] for report in reports] == [expected.labels] * 2
    assert [tuple(report["capabilities"]) for report in reports] == [expected.capabilities] * 2


async def test_commands_of_the_setup_run_where_the_step_does_and_their_failure_is_its(two: Cluster, rig: Rig) -> None:
    run = RemoteRun(rig)
    rig.write({".gitignore": "built\n"})
    rig.commit("ignore")
    rig.setup = ("pwd > built",)
    async with run.executor(two.scheduler.address) as (executor, _):
        done = await executor.run(worktree_task("s", command="cat built > where.txt"), NEVER)
    rig.setup = ("echo no >&2; exit 3",)
    async with run.executor(two.scheduler.address) as (executor, _):
        failed = await executor.run(worktree_task("t", command="true"), NEVER)

    assert done.outcome is Outcome.COMPLETED, done.detail
    assert str(two.folder(0).parent) in rig.read("where.txt")
    assert not (rig.root / "built").exists()
    assert (failed.outcome, failed.reason) == (Outcome.FAILED, "setup")
    assert "`echo" in failed.detail or "'echo" in failed.detail


async def test_what_a_worker_was_set_up_with_is_there_for_all_steps_until_its_keys_change(
    two: Cluster, rig: Rig, tmp_path: Path
) -> None:
    rig.write({".gitignore": "built\n", "lock": "1"})
    rig.commit("ignore")
    counting = f"echo >> {tmp_path}/count; mkdir built; cat lock > built/lock"
    run = RemoteRun(rig, settings=RemoteSettings(setup=(counting,), setup_keys=("lock",), share=("built",)))
    async with run.executor(two.scheduler.address) as (executor, _):
        for number in range(3):
            task = worktree_task(f"s{number}", command=f"cat built/lock > seen{number}; test -L built")
            assert (await executor.run(task, NEVER)).outcome is Outcome.COMPLETED
        made = len((tmp_path / "count").read_text())
        rig.write({"lock": "2"})
        rig.commit("newer")
        await executor.run(worktree_task("t", command="cat built/lock > seen"), NEVER)
    failing = RemoteRun(rig, settings=RemoteSettings(setup=("echo why; exit 7",)))
    async with failing.executor(two.scheduler.address) as (executor, _):
        failed = await executor.run(worktree_task("f", command="true"), NEVER)

    assert [rig.read(f"seen{number}") for number in range(3)] == ["1", "1", "1"]
    assert made <= 2, "once for each worker"
    assert rig.read("seen") == "2"
    assert not (rig.root / "built").exists()
    assert (failed.outcome, failed.reason) == (Outcome.FAILED, "setup")
    assert "failed with exit code 7: why" in failed.detail


async def test_a_worker_has_the_time_that_its_setup_takes(
    two: Cluster, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagents.remote.executor.READY_SECONDS", 0.2)
    run = RemoteRun(rig, settings=RemoteSettings(setup=("sleep 0.5",)))
    async with run.executor(two.scheduler.address) as (executor, _):
        result = await executor.run(worktree_task("s", command="true"), NEVER)

    assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")


async def test_a_worker_whose_git_fails_is_left_out_and_one_that_lost_its_objects_is_sent_them_again(
    two: Cluster, rig: Rig, tmp_path: Path
) -> None:
    waits = f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo x >> a.txt"
    results: list[StepResult] = []

    async def work(executor: WorktreeExecutor, step_id: str, command: str) -> None:
        results.append(await executor.run(worktree_task(step_id, command=command), NEVER))

    async with RemoteRun(rig).executor(two.scheduler.address) as (executor, _), anyio.create_task_group() as group:
        group.start_soon(work, executor, "s", waits)
        await until((tmp_path / "begun").exists)
        for number in range(2):
            if [*two.folder(number).glob("work/*/a.txt")]:
                shutil.rmtree(two.folder(number) / "projects")
        (tmp_path / "go").touch()
    async with RemoteRun(rig).executor(two.scheduler.address) as (executor, _), anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(work, executor, f"u{number}", f"sleep 0.2; echo {number} > u{number}")

    assert [result.outcome for result in results] == [Outcome.COMPLETED] * 5, [result.detail for result in results]
    assert rig.read("a.txt").count("x") == 1


async def test_a_setup_under_way_ends_with_the_run_that_wants_it(two: Cluster, rig: Rig, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    run = RemoteRun(rig, settings=RemoteSettings(setup=(f"sleep 300 & echo $! > {begun}; wait",)))
    async with run.executor(two.scheduler.address) as (executor, _), anyio.create_task_group() as group:
        group.start_soon(executor.run, worktree_task("s", command="true"), NEVER)
        await until(lambda: written(begun))
        group.cancel_scope.cancel()

    asleep = Path("/proc", begun.read_text().strip())
    await until(lambda: not asleep.exists())
