from __future__ import annotations

import anyio

from planner.run.watchdog import Timers
from tests.fakes.clock import ManualClock, SleepyClock


async def test_calls_are_made_in_the_order_of_their_times_and_no_earlier() -> None:
    clock = SleepyClock()
    timers = Timers(clock, clock.sleep)
    made: list[tuple[str, float]] = []

    def note(name: str) -> None:
        made.append((name, clock.now - 1000))
        if name == "last":
            timers.stop()

    timers.after(30.0, lambda: note("last"))
    timers.after(10.0, lambda: note("first"))
    timers.after(10.0, lambda: note("second"))
    await timers.run()
    assert made == [("first", 10.0), ("second", 10.0), ("last", 30.0)]


async def test_an_earlier_call_wakes_the_sleeping_task() -> None:
    clock = ManualClock()
    timers = Timers(clock, clock.sleep)
    made: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        timers.after(100.0, lambda: made.append("late"))
        await anyio.wait_all_tasks_blocked()
        timers.after(1.0, lambda: made.append("early"))
        await anyio.wait_all_tasks_blocked()
        assert made == []
        clock.advance(1.0)
        await anyio.wait_all_tasks_blocked()
        assert made == ["early"]
        timers.stop()
    assert made == ["early"]


async def test_a_call_may_ask_for_another() -> None:
    clock = SleepyClock()
    timers = Timers(clock, clock.sleep)
    made: list[float] = []

    def again() -> None:
        made.append(clock.now - 1000)
        if len(made) == 3:
            timers.stop()
        timers.after(5.0, again)

    timers.after(5.0, again)
    await timers.run()
    assert made == [5.0, 10.0, 15.0]


async def test_timers_stopped_before_they_run_end_at_once() -> None:
    timers = Timers()
    timers.after(1e9, lambda: None)
    timers.stop()
    await timers.run()
