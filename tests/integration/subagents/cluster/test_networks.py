"""Workers in networks of their own, which a run cannot reach, or loses."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ipc.events import Event, PlacementEvent
from ipc.sink import MemorySink
from subagents.cluster.node import security_of
from subagents.executor import StepResult
from tests.fakes.cluster import NOTICED, RemoteRun
from tests.fakes.namespaces import Nodes, cable, ip, network, own_network, skip_without_networks
from tests.fakes.step_links import until
from tests.integration.subagents.worktree.rig import FILES, Rig, worktree_task
from vibe.app.cluster.address import Certificates
from vibe.app.cluster.certificates import write_certificates
from vibe.app.inspect.cluster import cluster_findings
from vibe.app.inspect.diagnosis import CheckState
from vibe.core.config.models import ClusterConfig
from vibe.core.messages import NeverStop, Outcome
from vibe.shell.sandbox.settings import SandboxMode


def events_of(run: RemoteRun) -> list[Event]:
    assert isinstance(run.services.sink, MemorySink)
    return run.services.sink.events


@pytest.fixture
def certificates(tmp_path: Path) -> Generator[Certificates]:
    skip_without_networks()
    with own_network():
        yield write_certificates(tmp_path / "certs")


@contextmanager
def nodes(base: Path, certificates: tuple[str, ...]) -> Generator[Nodes]:
    made = Nodes(base, certificates)
    try:
        yield made
    finally:
        made.end()


async def test_where_a_run_reaches_the_scheduler_alone_that_passes_on_what_a_worker_says(
    tmp_path: Path, certificates: Certificates
) -> None:
    rig = Rig(tmp_path).create(FILES)
    files = certificates.files
    with nodes(tmp_path, files) as made, network("inside") as inside, network("worker") as far:
        at_run, _ = cable(1, inside)
        _, at_worker = cable(2, far, inside)
        ip("route", "add", "unreachable", "10.213.2.0/24")
        try:
            port = made.start("scheduler", "tls://0.0.0.0:0", inside).rpartition(":")[2]
            worker = made.start("worker", f"tls://{at_worker}:{port}", far)
            run = RemoteRun(rig, security=security_of(files))
            async with run.executor(f"tls://{at_run}:{port}") as (executor, _):
                results = [
                    await executor.run(worktree_task(name, command=f"echo {name} > {name}"), NeverStop())
                    for name in ("s", "t")
                ]
            config = ClusterConfig(address=f"tls://{at_run}:{port}", certificates=str(certificates.ca.parent))
            found = await to_thread.run_sync(lambda: [*cluster_findings(config, SandboxMode.OFF, {})])
        finally:
            ip("route", "delete", "unreachable", "10.213.2.0/24")

    assert [(result.outcome, result.detail) for result in results] == [(Outcome.COMPLETED, "")] * 2
    assert (rig.read("s"), rig.read("t"), rig.leftovers()) == ("s\n", "t\n", [])
    assert worker.startswith("tls://10.213.2.2:")
    told = next(finding for finding in found if finding.detail.startswith(worker))
    assert told.state is CheckState.WARNING
    assert "so the scheduler passes on all that its steps say: open its port to them" in told.detail


async def test_a_worker_that_is_cut_off_is_lost_ends_its_attempt_and_changes_nothing_later(
    tmp_path: Path, certificates: Certificates
) -> None:
    rig = Rig(tmp_path).create(FILES)
    files = certificates.files
    begun, go = tmp_path / "begun", tmp_path / "go"
    command = f"echo >> {begun}; while [ ! -e {go} ]; do sleep 0.05; done; echo x >> a.txt"
    results: list[StepResult] = []
    took = ended = 0.0
    run = RemoteRun(rig, lost_seconds=4.0, security=security_of(files))
    with nodes(tmp_path, files) as made, network("worker") as far:
        _, here = cable(3, far)
        scheduler = made.start("scheduler", f"tls://{here}:0", None)
        made.start("worker", scheduler, far, lost_seconds=4.0)
        async with run.executor(scheduler) as (executor, _), anyio.create_task_group() as group:

            async def work() -> None:
                results.append(await executor.run(worktree_task("s", command=command), NeverStop()))

            group.start_soon(work)
            await until(begun.exists)
            made.begin("worker", scheduler, None)  # not waited for: that would block the heartbeats of the run
            ip("-n", far, "link", "set", "far3", "down")
            cut = time.monotonic()
            await until(lambda: any(isinstance(e, PlacementEvent) and e.status == "lost" for e in events_of(run)))
            took = time.monotonic() - cut
            await until(lambda: not [*tmp_path.glob("worker2/work/*/a.txt")])
            ended = time.monotonic() - cut
            await until(lambda: begun.read_text() == "\n\n")
            go.touch()
            ip("-n", far, "link", "set", "far3", "up")
            await until(lambda: results)
        await anyio.sleep(1.0)

    assert [(result.outcome, result.detail, result.lost) for result in results] == [(Outcome.COMPLETED, "", 1)]
    assert 3.0 < took < NOTICED
    assert ended < NOTICED, "the other side, which hears nothing either, has ended it"
    assert (rig.read("a.txt").count("x"), begun.read_text()) == (1, "\n\n")
    assert rig.leftovers() == []
