"""Steps on workers: the cost of placing a step, of a turn and of a lost worker, each beside its bound.

Workers are processes of this machine and share its cores with the run, so ratios say more than times.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ipc.events import Event, PlacementEvent, ToolCallEvent, WorktreeEvent
from subagents.cluster.client import ClusterClient
from subagents.cluster.node import scheduler_at
from subagents.executor import StepResult
from subagents.remote.places import PlaceRequest, WorkerSettings
from subagents.remote.trees import commit_at_head, open_project, pack, unpack
from subagents.worktree.executor import WorktreeExecutor
from subagents.worktree.repository import Base, Repository
from subagents.worktree.worktree import Worktree
from tests.fakes.cluster import Cluster, RemoteRun, cluster
from tests.fakes.step_links import shared_of_a_run
from tests.fakes.waiting import written
from tests.integration.subagents.worktree.rig import FILES, Rig, environment, git, worktree_task
from vibe.app.cluster.certificates import write_certificates
from vibe.app.cluster.service import Node, keep_running
from vibe.core.messages import NeverStop

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
LOST_SECONDS = 4.0
TURNS = 20
PLACES = 20


class Clocked:
    """A sink that records the time of each event."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Event]] = []

    def publish(self, event: Event) -> None:
        """Record the event."""
        self.seen.append((time.perf_counter(), event))

    def when(self, fits: Callable[[Event], object]) -> float:
        """Return the time of the last event that fits."""
        return next(at for at, event in reversed(self.seen) if fits(event))


class Table:
    """Prints measurements beside their bounds, and counts those beyond."""

    def __init__(self) -> None:
        self.beyond = 0

    def tell(self, what: str, measured: float, bound: float, unit: str) -> None:
        """Print one line."""
        self.beyond += measured > bound
        print(f"{what:<66} {measured:>8.4g} {bound:>8.4g} {unit:<3} {'BEYOND' if measured > bound else ''}", flush=True)


async def places(table: Table, base: Path) -> None:
    """Measure starting a cluster, connecting to it, placing steps, and the first output of a command."""
    table.tell("cluster `local:2` up", await _up(base / "local"), 1.5, "s")
    with cluster(base, 2, 2) as made:
        address = made.scheduler.address
        began = time.perf_counter()
        async with ClusterClient(address, run="a" * 32) as client:
            table.tell("connected to one that is up", (time.perf_counter() - began) * 1_000, 300, "ms")
            took = [await _placed(client) for _ in range(PLACES)]
            table.tell("placed", statistics.median(took), 15, "ms")
        rig, sink = await to_thread.run_sync(lambda: Rig(base / "first").create(FILES)), Clocked()
        run = RemoteRun(rig, services=replace(shared_of_a_run(), sink=sink))
        async with run.executor(address) as (executor, _):
            took = [await _first_event(executor, sink, number) for number in range(PLACES)]
        table.tell("first event of a command, from its worktree on", statistics.median(took), 70, "ms")


async def _up(folder: Path) -> float:
    """Return the seconds until both workers of `local:2` serve."""
    certificates, serving = write_certificates(folder), list[str]()
    settings = WorkerSettings(folder=str(folder), lost_seconds=LOST_SECONDS)
    began = time.perf_counter()
    scheduler = scheduler_at("tls://127.0.0.1:0", str(folder), certificates.files)
    async with scheduler as address, anyio.create_task_group() as group:
        node = Node(
            address=address,
            certificates=certificates,
            environ=os.environ,
            folder=folder,
            slots=1,
            count=2,
            settings=settings,
            is_quiet=True,
        )
        group.start_soon(keep_running, node, serving.append)
        await _until(lambda: len(serving) == 2)
        began -= time.perf_counter()
        group.cancel_scope.cancel()
    return -began


async def _placed(client: ClusterClient) -> float:
    began = time.perf_counter()
    async with client.place(PlaceRequest()):
        return (time.perf_counter() - began) * 1_000


async def _first_event(executor: WorktreeExecutor, sink: Clocked, number: int) -> float:
    await executor.run(worktree_task(f"s{number}", command="true"), NeverStop())
    began = sink.when(lambda event: isinstance(event, WorktreeEvent) and event.status == "created")
    return (sink.when(lambda event: isinstance(event, ToolCallEvent)) - began) * 1_000


async def losses(table: Table, base: Path) -> None:
    """Measure how soon a killed or frozen worker is noticed."""
    for number, (what, kind, bound) in enumerate((
        ("worker killed: noticed", signal.SIGKILL, 0.5),
        (f"worker frozen: noticed, lost_seconds {LOST_SECONDS:g}", signal.SIGSTOP, LOST_SECONDS + 5),
    )):
        folder = base / f"lost{number}"
        rig, sink = await to_thread.run_sync(lambda folder=folder: Rig(folder).create(FILES)), Clocked()
        run = RemoteRun(rig, services=replace(shared_of_a_run(), sink=sink), lost_seconds=LOST_SECONDS)
        with cluster(folder, 1) as made:
            took, gone = await _lost(made, run, sink, folder / "pid", kind)
        table.tell(what, took, bound, "s")
        if kind is signal.SIGKILL:
            table.tell("worker killed: its processes gone", gone, 1.0, "s")


async def _lost(made: Cluster, run: RemoteRun, sink: Clocked, pid: Path, kind: signal.Signals) -> tuple[float, float]:
    results: list[StepResult] = []
    took = gone = 0.0
    async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:

        async def work() -> None:
            task = worktree_task("s", command=f"echo $$ > {pid}; sleep 60 & wait")
            results.append(await executor.run(task, NeverStop()))

        group.start_soon(work)
        await _until(lambda: written(pid))
        process = await to_thread.run_sync(lambda: Path("/proc", pid.read_text().strip()))
        began = time.perf_counter()
        made.workers[0].signal(kind)
        await _until(
            lambda: any(isinstance(event, PlacementEvent) and event.status == "lost" for _, event in sink.seen)
        )
        took = sink.when(lambda event: isinstance(event, PlacementEvent)) - began
        if kind is signal.SIGKILL:
            await _until(lambda: not process.exists())
        gone = time.perf_counter() - began
        group.cancel_scope.cancel()
    return took, gone


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  what happens in a process sets no event
        await anyio.sleep(0.005)


def trees(table: Table, base: Path) -> None:
    """Measure transferring a tree of 2 500 files, beside git's own calls for it."""
    rig = Rig(base / "tree").create({f"d{n % 50}/f{n}": f"{n}\n" * 150 for n in range(2_500)})
    repository = rig.repository()
    head = git(rig.root, "rev-parse", "HEAD").strip()
    ours, theirs = base / "ours.git", base / "theirs.git"
    own = Worktree(repository=repository, path=rig.root, branch="main")
    commit = commit_at_head(_fresh(repository, base / "here", head), {})
    began = time.perf_counter()
    there = open_project(ours, commit, environment())
    unpack(there.git, pack(repository.git, commit), most=1 << 31)
    _fresh(there, base / "there", commit)
    took = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run(["git", "init", "-q", "--bare", str(theirs)], check=True)
    words = ["git", "pack-objects", "--revs", "--stdout", "-q"]
    packed = subprocess.run(
        words, cwd=own.path, input=f"{commit}\n".encode(), stdout=subprocess.PIPE, check=True
    ).stdout
    index = ["git", "index-pack", "--stdin"]
    subprocess.run(index, cwd=theirs, input=packed, stdout=subprocess.DEVNULL, check=True)
    checkout = ["git", "worktree", "add", "-q", "--detach", str(base / "git-own"), commit]
    subprocess.run(checkout, cwd=theirs, check=True)
    table.tell(
        "tree of 2 500 files packed, unpacked, checked out, by git's own", took / (time.perf_counter() - began), 2, "x"
    )


def _fresh(repository: Repository, path: Path, commit: str) -> Worktree:
    repository.scratch.mkdir(exist_ok=True)
    made = Worktree(repository=repository, path=path, branch=f"bench/{path.name}")
    made.create(Base(commit=commit, head=commit, ref=""))
    return made


def plans(table: Table, base: Path) -> None:
    """Measure the same plans on processes of this machine and on its workers, run as a user would."""
    for slots, bound in ((2, 1.10), (4, 1.15), (8, 1.25)):
        sleeping = [{"mode": "run", "command": "sleep 2"}] * 32
        workers = f"local:{max(1, slots // 2)}x2"
        plain, there = (_timed(base, sleeping, slots, words) for words in _ways(workers))
        table.tell(f"32 steps of 2 s on {slots} slots, by the process executor's", there / plain, bound, "x")
    nothing = [{"mode": "run", "command": "true"}] * 200
    plain, there = (_timed(base, nothing, 8, words) for words in _ways("local:2x4"))
    table.tell("200 commands that do nothing (bound: 24 s where processes take 12.7)", there / plain, 24 / 12.7, "x")
    talk = [{"mode": "code", "prompt": "Go."}]
    plain, there = (_turn(base, talk, words) for words in _ways("local:1x1"))
    table.tell("an agent's turn, more than in a process here", there - plain, 25, "ms")


def _ways(workers: str) -> tuple[Sequence[str], Sequence[str]]:
    return ("--executor", "process"), ("--cluster", workers)


def _run(
    base: Path, steps: Sequence[dict[str, Any]], slots: int, words: Sequence[str]
) -> tuple[list[dict[str, Any]], float]:
    """Run a plan in a new repository, and return its events and the seconds from its first step's start to the end."""
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        rig, home = Rig(folder).create(FILES), folder / "home"
        home.mkdir()
        calls = ({"name": "bash", "arguments": {"command": f"echo {number}"}} for number in range(TURNS))
        turns = [*({"tool_calls": [call]} for call in calls), {"text": "done"}]
        script = folder / "script.json"
        script.write_text(json.dumps({"version": 1, "agents": {"*": {"turns": turns}}}))
        (home / "config.toml").write_text(
            f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "{script}"\n'
            '[[models]]\nname = "m"\nprovider = "p"\n'
        )
        plan = {
            "version": 1,
            "goal": "g",
            "max_parallel_steps": slots,
            "defaults": {"workspace": "worktree", "max_turns": 2 * TURNS},
            "steps": [
                {"id": f"s{number}", "title": "S", "writes": [f"{number}"], **step} for number, step in enumerate(steps)
            ],
        }
        (folder / "p.json").write_text(json.dumps(plan))
        argv = [VIBE, "plan", "run", str(folder / "p.json"), "--auto-approve", "--output", "streaming", *words]
        variables = {**environment(), "VIBE_HOME": str(home), "HOME": str(folder)}
        ended = subprocess.run(argv, cwd=rig.root, env=variables, stdout=subprocess.PIPE, check=True)
        events = [json.loads(line) for line in ended.stdout.splitlines()]
    began = next(event["ts"] for event in events if event["type"] == "worktree.state")
    return events, max(event["ts"] for event in events if "ts" in event) - began


def _timed(base: Path, steps: Sequence[dict[str, Any]], slots: int, words: Sequence[str]) -> float:
    return _run(base, steps, slots, words)[1]


def _turn(base: Path, steps: Sequence[dict[str, Any]], words: Sequence[str]) -> float:
    """Return the median time between two calls of the model, in ms."""
    events, _ = _run(base, steps, 1, words)
    calls = [event["ts"] for event in events if event["type"] == "model.started"]
    return statistics.median(after - before for before, after in pairwise(calls)) * 1_000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-plans", action="store_true", help="leave out whole plans, which take minutes")
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.WARNING)
    table = Table()
    print(f"load {os.getloadavg()[0]:.1f}\n{'what':<66} {'measured':>8} {'bound':>8}")
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        anyio.run(places, table, base)
        anyio.run(losses, table, base)
        trees(table, base)
        if not given.no_plans:
            plans(table, base)
    print(f"{table.beyond} beyond their bounds")


if __name__ == "__main__":
    main()
