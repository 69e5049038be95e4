"""``decide`` and ``evolve`` alone: microseconds per step from building the DAG to the end, without journal or tasks.

``python -m tests.benchmarks.bench_scheduler_pure [--json]`` exits with 1 if a shape is over its bound.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable

import msgspec

from ipc.events import Fact
from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Dependency, Plan, PlanStatus, Step
from planner.state.commands import (
    AttemptEnded,
    AttemptSaved,
    Command,
    Effect,
    MarkBlocked,
    Start,
    StartAttempt,
)
from planner.state.decide import carry_out
from planner.state.schedule import schedule_of
from planner.state.state import State
from subagents.executor import StepResult
from vibe.core.messages import Outcome
from vibe.core.modes import ExecutionMode

BOUND_US = 25.0
SIZES = (1_000, 10_000)
PARALLEL = 32
ROUNDS = 5
DONE = StepResult(outcome=Outcome.COMPLETED)
RAW = msgspec.Raw(msgspec.json.encode(DONE))


def _step(number: int, needs: list[int], writes: list[str] | None = None) -> Step:
    return Step(
        id=f"s{number}",
        title=f"Step {number}",
        mode=ExecutionMode.RESEARCH,
        depends_on=[Dependency(step=f"s{other}") for other in needs],
        writes=writes,
    )


def wide(size: int) -> list[Step]:
    """Return steps without any dependencies."""
    return [_step(number, []) for number in range(size)]


def chain(size: int) -> list[Step]:
    """Return steps that each follow the one before."""
    return [_step(number, [number - 1] if number else []) for number in range(size)]


def dense(size: int) -> list[Step]:
    """Return steps with three dependencies each, drawn from all the steps before."""
    draw = random.Random(7)
    return [_step(number, draw.sample(range(number), min(3, number))) for number in range(size)]


def one_directory(size: int) -> list[Step]:
    """Return steps that all write the same directory, and a file of their own, so that one runs at a time."""
    return [_step(number, [], ["src/**", f"tests/test_{number}.py"]) for number in range(size)]


def own_files(size: int) -> list[Step]:
    """Return steps that each write a file of their own, so that all may run side by side."""
    return [_step(number, [], [f"src/part_{number}.py"]) for number in range(size)]


SHAPES: dict[str, Callable[[int], list[Step]]] = {
    "wide": wide,
    "chain": chain,
    "random, 3 deps": dense,
    "writes, one directory": one_directory,
    "writes, own files": own_files,
}


def run(plan: Plan) -> int:
    """Run the plan with no-op steps, and return the number of facts."""
    loaded = LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=b"", where="bench")
    state, waiting = State(), deque[Effect]()
    count = 0

    def record(fact: Fact) -> None:
        nonlocal count
        count += 1
        del fact

    def take(command: Command) -> None:
        waiting.extend(carry_out(state, command, 1.0, record))

    take(Start(loaded=loaded, width=PARALLEL))
    while state.status is PlanStatus.ACTIVE and schedule_of(state).to_mark_blocked:
        take(MarkBlocked())
    while waiting:
        effect = waiting.popleft()
        if isinstance(effect, StartAttempt):
            take(AttemptEnded(step_id=effect.step_id, result=DONE, raw=RAW))
            take(AttemptSaved(effect.step_id))
    if state.status is not PlanStatus.COMPLETED:
        raise SystemExit(f"the plan ended wrongly: {state.status}")
    return count


def measure(shape: Callable[[int], list[Step]], size: int) -> float:
    """Return the best of some rounds in microseconds of CPU per step, as other work does not affect CPU time."""
    plan = Plan(version=1, goal="measure", steps=shape(size))
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        run(plan)
        best = min(best, time.process_time() - begun)
    return best / size * 1e6


def main() -> int:
    """Measure every shape at every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    rows = [
        {"shape": name, "steps": size, "us_per_step": round(measure(shape, size), 2), "bound": BOUND_US}
        for name, shape in SHAPES.items()
        for size in SIZES
    ]
    if as_json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print(f"{row['shape']:<24}{row['steps']:>8}{row['us_per_step']:>10} us/step   bound {row['bound']}")
    return int(any(float(row["us_per_step"]) > BOUND_US for row in rows))


if __name__ == "__main__":
    sys.exit(main())
