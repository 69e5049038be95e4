"""The work of one step, turn and event, counted in calls of Python functions: the same on every machine.

Benchmarks time the same things, but not in CI. A bound is about a fifth above what was counted when it was set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import anyio
import pytest

from planner.plan.model import Plan
from tests.benchmarks.bench_plan import NoOp, Setting, chain, plan_of, random_3, run, wide
from tests.benchmarks.bench_view import told
from tests.fakes.engine import Bench
from tests.fakes.models import answer, calling
from vibe.view.view import View, apply

MOST_GROWTH = 1.1
"""How much more a step, a turn or an event may take with four times as many of them."""


def calls_of(work: Callable[[], object]) -> int:
    """Return how many Python functions are called in this thread."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del frame, arg
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def same_files(size: int) -> Plan:
    """Return a plan of steps that write the same files, so that one runs at a time."""
    plan = plan_of(wide(size))
    return plan.model_copy(
        update={"steps": tuple(each.model_copy(update={"writes": ("src/**",)}) for each in plan.steps)}
    )


PLANS: dict[str, tuple[Callable[[int], Plan], int]] = {
    "wide": (lambda size: plan_of(wide(size)), 330),
    "chain": (lambda size: plan_of(chain(size)), 370),
    "random": (lambda size: plan_of(random_3(size)), 410),
    "same files": (same_files, 1_750),
}


@pytest.mark.parametrize("shape", PLANS)
def test_a_step_takes_as_much_work_in_a_plan_of_any_size(shape: str, tmp_path: Path) -> None:
    plan_with, most = PLANS[shape]
    setting = Setting(root=tmp_path, memory_sink=True)
    run(plan_with(10), NoOp(), setting)  # what is imported and kept once

    small, large = (calls_of(lambda size=size: run(plan_with(size), NoOp(), setting)) / size for size in (200, 800))

    assert large <= most
    assert large / small <= MOST_GROWTH


def test_a_turn_takes_as_much_work_after_any_number_of_turns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n" * 100)

    def turns(count: int) -> float:
        reads = [calling(("read_file", {"path": "a.txt", "offset": number, "limit": 3})) for number in range(count)]
        bench = Bench(root=tmp_path, answers=[*reads, answer("done")], max_turns=count + 1)
        return calls_of(lambda: anyio.run(bench.loop.act, "read it")) / count

    turns(10)
    small, large = turns(50), turns(200)

    assert large <= 1_350
    assert large / small <= MOST_GROWTH


def test_an_event_takes_as_much_work_to_fold_in_a_view_of_any_size() -> None:
    def folded(count: int) -> float:
        events = told(count)

        def fold() -> None:
            view = View()
            for event in events:
                apply(view, event)

        return calls_of(fold) / count

    small, large = folded(2_000), folded(8_000)

    assert large <= 21
    assert large / small <= MOST_GROWTH
