"""A few of the kills of ``tests.benchmarks.bench_kill``, on a smaller plan.

Covers ``planner.store``.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.kill_lab import Kind, Report, experiment, undisturbed

EXECUTES = True  # a process is killed while it starts, too
SIDE_BY_SIDE = 2
MORE = 4


@pytest.mark.timeout(900)  # dozens of processes, one after the other, on a machine that may be busy
@pytest.mark.parametrize(("executor", "count"), [("local", 3), ("process", 1)])
def test_a_plan_killed_at_any_instant_ends_as_if_nothing_had_happened(executor: str, count: int) -> None:
    kind = Kind(executor=executor, steps=20)
    seed = random.randrange(10**6)
    wanted, seconds = undisturbed(kind)

    def one(number: int, within: float = seconds) -> Report:
        return experiment(kind, seed + number, wanted, within)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        reports = list(pool.map(one, range(count)))
    for half in range(1, MORE + 1):
        if any(report.killed_at for report in reports):
            break
        reports.append(one(count + half, seconds / 2**half))  # the machine was busier before, so that kill was too late
    assert [report for report in reports if report.problems] == []
    assert any(report.killed_at for report in reports), "the kills came too late to prove anything"
