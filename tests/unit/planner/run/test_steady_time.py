from __future__ import annotations

from planner.run.watchdog import steady_time


def test_a_clock_that_is_set_while_a_plan_runs_changes_no_duration() -> None:
    wall, steady = [1_000.0], [50.0]
    now = steady_time(lambda: wall[0], lambda: steady[0])
    first = now()

    wall[0] += 9_600 * 3_600
    steady[0] += 2.0

    assert (first, now()) == (1_000.0, 1_002.0)
