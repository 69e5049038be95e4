"""The scheduler alone: microseconds per step, from building the DAG to EndPlan, without journal, events or tasks.

``python -m tests.benchmarks.bench_scheduler_pure [--json]``; exits 1 if a shape is over its bound.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable

from planner.dag import Dag
from planner.instructions import EndPlan, StartStep, StepEnded
from planner.model import Dependency, Plan, Step
from planner.scheduler import Scheduler
from vibe.core.modes import ExecutionMode
from vibe.core.outcome import Outcome

BOUND_US = 25.0
SIZES = (1_000, 10_000)
PARALLEL = 32
ROUNDS = 5


def _step(number: int, needs: list[int], writes: list[str] | None = None) -> Step:
    return Step(
        id=f"s{number}",
        title=f"Step {number}",
        mode=ExecutionMode.RESEARCH,
        depends_on=[Dependency(step=f"s{other}") for other in needs],
        writes=writes,
    )


def wide(size: int) -> list[Step]:
    """No dependencies at all."""
    return [_step(number, []) for number in range(size)]


def chain(size: int) -> list[Step]:
    """Each step after the one before."""
    return [_step(number, [number - 1] if number else []) for number in range(size)]


def dense(size: int) -> list[Step]:
    """Three dependencies each, drawn from all the steps before."""
    draw = random.Random(7)
    return [_step(number, draw.sample(range(number), min(3, number))) for number in range(size)]


def one_directory(size: int) -> list[Step]:
    """Every step writes the same directory, and a file of its own: one runs at a time."""
    return [_step(number, [], ["src/**", f"tests/test_{number}.py"]) for number in range(size)]


def own_files(size: int) -> list[Step]:
    """Every step writes a file of its own: all may run side by side."""
    return [_step(number, [], [f"src/part_{number}.py"]) for number in range(size)]


SHAPES: dict[str, Callable[[int], list[Step]]] = {
    "wide": wide,
    "chain": chain,
    "random, 3 deps": dense,
    "writes, one directory": one_directory,
    "writes, own files": own_files,
}


def run(plan: Plan) -> int:
    """Run the plan with no-op steps; returns the number of instructions."""
    scheduler = Scheduler(plan, Dag.build(plan.steps), max_parallel=PARALLEL)
    waiting = deque(scheduler.start())
    count = 0
    while waiting:
        instruction = waiting.popleft()
        count += 1
        if isinstance(instruction, StartStep):
            waiting.extend(scheduler.handle(StepEnded(instruction.step_id, Outcome.COMPLETED)))
        elif isinstance(instruction, EndPlan) and (waiting or instruction.status != "completed"):
            raise SystemExit(f"the plan ended wrongly: {instruction}")
    return count


def measure(shape: Callable[[int], list[Step]], size: int) -> float:
    """The best of some rounds, in microseconds of CPU per step: other work on the machine does not count."""
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
