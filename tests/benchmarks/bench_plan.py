"""The cost of running a plan beside the steps themselves: scheduler, dispatcher, journal and events together.

    python -m tests.benchmarks.bench_plan [--rounds N] [--memory-sink] [--json]

Overhead is measured in microseconds per no-op step, from the first instruction to the plan's end, with the plan's
journal (no fsync), ``run.json``, snapshots and the real event bus (StampingSink, codec, its own journal, socket).
``result.json`` is left out, since the journal holds every result; the row ``with result files`` says what it adds. On a
busy machine, wall time includes its other work, so the bound judges processor time where that is known.

Makespan is measured for 400 steps of a random DAG, 32 side by side, over max(critical path, total / 32). The steps last
50 ms each, or log-normal times with the same median. The plan's journal is on disk before a dependant starts, as in
every run. Makespan is counted from the first step's start to the last one's end; another row includes the plan's own
start and end. LangGraph and Dask are measured in the same run if they are installed (see ``peers``). The figures of
others come from runs of their own on such a machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path

import anyio
from anyio import to_thread

from ipc.bus import EventBus
from ipc.registry import RunInfo
from ipc.sink import EventSink, MemorySink, StampingSink
from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Dependency, Plan, Step
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher, DispatchOptions
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from tests.benchmarks.peers import Dask, LangGraph, installed
from vibe.core.messages import Outcome
from vibe.core.modes import ExecutionMode

Row = dict[str, str | float]
SIZES = (1_000, 10_000)
PARALLEL = 32
BOUND_US = 150.0
BOUND_GROWTH = 1.2
BOUND_MB = 60.0
MAKESPAN_STEPS = 400
STEP_SECONDS = 0.05
BOUNDS_MAKESPAN = {"constant": 1.03, "log-normal": 1.05}
PEERS_US = "bare anyio queue 6-20, Ray 820-1700, Prefect 3500-6600, DBOS 7200-9400"
PEERS_MAKESPAN = "Ray actors 1.18"
DONE = StepResult(outcome=Outcome.COMPLETED, summary="done")


class NoOp:
    """A step that does nothing."""

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Return at once."""
        del task, stop
        return DONE


class Sleeper:
    """Steps that last as long as they are given. ``began`` and ``ended`` are the first and the last moment of all."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self.began = math.inf
        self.ended = 0.0

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Sleep for the step's time."""
        del stop
        self.began = min(self.began, time.perf_counter())
        await anyio.sleep(self._seconds[task.step_id])
        self.ended = time.perf_counter()
        return DONE


def wide(size: int) -> list[list[int]]:
    """Return a graph without any dependencies."""
    return [[] for _ in range(size)]


def chain(size: int) -> list[list[int]]:
    """Return a graph in which each step follows the one before."""
    return [[number - 1] if number else [] for number in range(size)]


def random_3(size: int) -> list[list[int]]:
    """Return a graph with three dependencies for each step, drawn from all the steps before."""
    draw = random.Random(7)
    return [draw.sample(range(number), min(3, number)) for number in range(size)]


SHAPES: dict[str, Callable[[int], list[list[int]]]] = {"wide": wide, "chain": chain, "random, 3 deps": random_3}


def plan_of(needs: list[list[int]]) -> Plan:
    """Return a plan of steps that write nothing."""
    steps = [
        Step(
            id=f"s{number}",
            title=f"Step {number}",
            mode=ExecutionMode.RESEARCH,
            depends_on=[Dependency(step=f"s{other}") for other in others],
        )
        for number, others in enumerate(needs)
    ]
    return Plan(version=1, goal="measure", steps=steps)


@contextmanager
def sink_in(home: Path, *, memory: bool) -> Generator[EventSink]:
    """Yield the real bus, or a sink in memory."""
    if memory:
        yield StampingSink("bench", MemorySink())
        return
    bus = EventBus(home, source="bench", info=RunInfo(cwd=str(home)))
    try:
        yield StampingSink("bench", bus)
    finally:
        bus.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings of a measurement. Homes stay below ``root`` until everything is measured.

    Some file systems create files ten times slower for seconds after others were removed.
    """

    root: Path
    memory_sink: bool
    write_results: bool = False
    flushed: bool = False


class Unflushed(PlanStore):
    """A store that does not wait for the disk, so that only our own work is measured."""

    async def sync(self) -> None:
        """Write the results."""
        if self._kept:
            await to_thread.run_sync(self._write_results)

    def _write_results(self) -> None:
        while self._kept:
            self.write_result(*self._kept.popleft())


@dataclass(frozen=True, slots=True, order=True)
class Took:
    """Seconds of wall time, and of processor time in all threads."""

    wall: float
    cpu: float


def run(plan: Plan, executor: StepExecutor, setting: Setting) -> Took:
    """Run the plan in a home of its own, from building its DAG to its end.

    Raises:
        SystemExit: The plan did not complete.
    """
    home = Path(tempfile.mkdtemp(prefix="vb-", dir=setting.root))
    settings = RunSettings(workspace=str(home), max_parallel=PARALLEL)
    with (
        (PlanStore if setting.flushed else Unflushed).create(home, settings, b"{}") as store,
        sink_in(home, memory=setting.memory_sink) as sink,
    ):
        options = DispatchOptions(write_results=setting.write_results)

        async def timed() -> Took:
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            loaded = LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=b"{}", where="bench")
            dispatcher = Dispatcher(
                loaded=loaded, width=PARALLEL, executor=executor, store=store, sink=sink, options=options
            )
            gc.freeze()  # as vibe.app.plan.run does
            outcome = await dispatcher.run(PlanControl())
            gc.unfreeze()
            if outcome.outcome is not Outcome.COMPLETED:
                raise SystemExit(f"the plan ended wrongly: {outcome.reason}")
            return Took(time.perf_counter() - wall, time.process_time() - cpu)

        return anyio.run(timed)


def overhead(rounds: int, setting: Setting) -> list[Row]:
    """Return the microseconds per no-op step for every shape and size, as the best of some rounds."""
    rows: list[Row] = []
    for name, shape in SHAPES.items():
        small, large = (plan_of(shape(size)) for size in SIZES)
        runs: tuple[list[Took], list[Took]] = ([], [])
        for _ in range(rounds):  # in turn, so that other work on the machine affects both sizes alike
            runs[0].extend(run(small, NoOp(), setting) for _ in range(5))
            runs[1].append(run(large, NoOp(), setting))
        figures = [
            Took(min(t.wall for t in times) / size * 1e6, min(t.cpu for t in times) / size * 1e6)
            for size, times in zip(SIZES, runs, strict=True)
        ]
        rows += [
            _row(f"us/step, {name}, {size} steps", best, BOUND_US) for size, best in zip(SIZES, figures, strict=True)
        ]
        growth = Took(figures[1].wall / figures[0].wall, figures[1].cpu / figures[0].cpu)
        rows.append(_row(f"growth, {name}", growth, BOUND_GROWTH, 2))
    plan = plan_of(wide(SIZES[0]))
    for what, other in {
        "with result files": replace(setting, write_results=True),
        "with fsync before a step counts": replace(setting, flushed=True),
    }.items():
        took = min(run(plan, NoOp(), other) for _ in range(rounds))
        rows.append(_row(f"us/step, wide, 1000 steps, {what}", Took(took.wall * 1e3, took.cpu * 1e3)))
    return rows


def _row(what: str, took: Took, bound: float | None = None, digits: int = 1) -> Row:
    row: Row = {"what": what, "ours": round(took.wall, digits), "ours_cpu": round(took.cpu, digits)}
    return row if bound is None else row | {"bound": bound}


def memory(setting: Setting) -> Row:
    """Return the megabytes that a 10 000-step plan and its run add to a process with everything imported.

    Run it first, because memory that was used before is not seen again.
    """
    run(plan_of(chain(10)), NoOp(), setting)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(plan_of(random_3(SIZES[1])), NoOp(), setting)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"what": "MB, random, 3 deps, 10000 steps", "ours": round((after - before) / 1024, 1), "bound": BOUND_MB}


def makespan(rounds: int, setting: Setting) -> list[Row]:
    """Return how much longer than necessary the plan takes, for steps of equal and of log-normal lengths, as medians.

    Facts are flushed to the disk before a step's dependants start, as in every run. A bare queue takes turns with ours.
    """
    needs, lengths = makespan_work()
    plan = plan_of(needs)
    flushed = replace(setting, flushed=True)
    with_files = replace(flushed, write_results=True)
    rows: list[Row] = []
    for name, seconds in lengths.items():
        plain: list[float] = []
        whole: list[float] = []
        files: list[float] = []
        bare: list[float] = []
        for _ in range(rounds):
            span, wall = _span_and_wall(plan, seconds, flushed)
            plain.append(span)
            whole.append(wall)
            files.append(_span_and_wall(plan, seconds, with_files)[0])
            bare.append(anyio.run(bare_queue, plan, seconds))
        shortest = lower_bound(plan, seconds)
        bound = BOUNDS_MAKESPAN[name]
        rows.append(_makespan_row(name, plain, shortest) | {"bound": bound})
        rows.append(_makespan_row(f"{name}, with result files", files, shortest) | {"bound": bound})
        rows.append(_makespan_row(f"{name}, with the plan's start and end", whole, shortest))
        rows.append(_makespan_row(f"{name}, a bare queue in our order", bare, shortest))
    return rows


def _span_and_wall(plan: Plan, seconds: Mapping[str, float], setting: Setting) -> tuple[float, float]:
    """Return the seconds from the first step's start to the last one's end, and those of the whole run."""
    sleeper = Sleeper(seconds)
    wall = run(plan, sleeper, setting).wall
    return sleeper.ended - sleeper.began, wall


def makespan_work() -> tuple[list[list[int]], dict[str, dict[str, float]]]:
    """Return the random graph and the durations of its steps by each distribution, the same every time."""
    draw = random.Random(11)
    needs = [draw.sample(range(n), min(n, draw.randint(0, 3))) for n in range(MAKESPAN_STEPS)]
    constant = {f"s{n}": STEP_SECONDS for n in range(MAKESPAN_STEPS)}
    return needs, {
        "constant": constant,
        "log-normal": {step_id: STEP_SECONDS * draw.lognormvariate(0, 0.8) for step_id in constant},
    }


def peers(rounds: int, others: Sequence[LangGraph | Dask]) -> list[Row]:
    """Return the same work done by others: microseconds per no-op step, and makespan over the bound, as medians."""
    rows: list[Row] = []
    for other in others:
        for name, shape in SHAPES.items():
            took = [other.run(shape(SIZES[0]), PARALLEL, None) for _ in range(rounds)]
            rows.append({
                "what": f"{other.name}, us/step, {name}, {SIZES[0]} steps",
                "ours": round(min(took) / SIZES[0] * 1e6, 1),
            })
        needs, lengths = makespan_work()
        for name, seconds in lengths.items():
            took = [other.run(needs, PARALLEL, list(seconds.values())) for _ in range(rounds)]
            rows.append(_makespan_row(f"{name}, {other.name}", took, lower_bound(plan_of(needs), seconds)))
    return rows


def _makespan_row(what: str, took: Sequence[float], shortest: float) -> Row:
    ratios = [seconds / shortest for seconds in took]
    return {"what": f"makespan, {what}", "ours": round(statistics.median(ratios), 3), "best": round(min(ratios), 3)}


async def bare_queue(plan: Plan, seconds: Mapping[str, float]) -> float:
    """Return the seconds of the least possible work: counters, a heap and tasks, without records or events."""
    dag = Dag.build(plan.steps)
    waiting = {step_id: len(needed) for step_id, needed in dag.dependencies.items()}
    ready: list[tuple[int, str]] = []
    free = PARALLEL

    def start() -> None:
        nonlocal free
        while ready and free:
            free -= 1
            tasks.start_soon(do, heappop(ready)[1])

    def settle(step_id: str) -> None:
        if not waiting[step_id]:
            heappush(ready, (-dag.remaining[step_id], step_id))

    async def do(step_id: str) -> None:
        nonlocal free
        await anyio.sleep(seconds[step_id])
        free += 1
        for dependant in dag.dependants[step_id]:
            waiting[dependant] -= 1
            settle(dependant)
        start()

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for step_id in dag.order:
            settle(step_id)
        start()
    return time.perf_counter() - began


def lower_bound(plan: Plan, seconds: Mapping[str, float]) -> float:
    """Return a bound that no schedule beats: the longest chain, or all the work shared out evenly."""
    ends: dict[str, float] = {}
    for step in plan.steps:  # drawn in topological order
        begins = max((ends[dependency.step] for dependency in step.dependencies), default=0.0)
        ends[step.id] = begins + seconds[step.id]
    return max(*ends.values(), sum(seconds.values()) / PARALLEL)


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--memory-sink", action="store_true", help="keep events in a list in place of the bus")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each 10 000-step measurement")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="vb-") as root:
        setting = Setting(root=Path(root), memory_sink=given.memory_sink)
        rows = [memory(setting), *overhead(given.rounds, setting), *makespan(given.rounds + 4, setting)]
    others, missing = installed()
    rows += peers(given.rounds, others)
    load = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
    report = {
        "events": "memory" if given.memory_sink else "bus",
        "load": load,
        "rows": rows,
        "notes": missing,
        "peers": {"us/step": PEERS_US, "makespan": PEERS_MAKESPAN},
    }
    if given.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{'':<60}{'wall':>9}{'cpu':>9}{'best':>9}    load {load}")
        for row in rows:
            bound = f"bound {row['bound']}" if "bound" in row else ""
            print(f"{row['what']:<60}{row['ours']:>9}{row.get('ours_cpu', ''):>9}{row.get('best', ''):>9}    {bound}")
        for note in missing:
            print(note)
        print(f"peers, us/step: {PEERS_US}\npeers, makespan: {PEERS_MAKESPAN}")
    return int(any("bound" in row and float(row.get("ours_cpu", row["ours"])) > float(row["bound"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
