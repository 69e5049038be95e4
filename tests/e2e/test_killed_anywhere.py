"""A few of the kills of ``tests.benchmarks.bench_kill``, on a smaller plan."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.kill_lab import Kind, Report, experiment, undisturbed

SIDE_BY_SIDE = 2


@pytest.mark.timeout(240)  # some dozens of processes, one after the other, on a machine that may be busy
@pytest.mark.parametrize(("executor", "count"), [("local", 3), ("process", 1)])
def test_a_plan_killed_at_any_instant_ends_as_if_nothing_had_happened(executor: str, count: int) -> None:
    kind = Kind(executor=executor, steps=20)
    seed = random.randrange(10**6)
    wanted, seconds = undisturbed(kind)

    def one(number: int) -> Report:
        return experiment(kind, seed + number, wanted, seconds)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        reports = list(pool.map(one, range(count)))
    assert [report for report in reports if report.problems] == []
    assert any(report.killed_at for report in reports), "the kills came too late to prove anything"
