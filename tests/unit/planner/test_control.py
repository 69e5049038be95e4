from __future__ import annotations

import threading

from anyio import to_thread

from planner.control import PauseWish, PlanControl, Request
from planner.instructions import CancelRequested, DecisionTaken


async def test_wishes_before_the_run_are_kept_and_after_it_ignored() -> None:
    control = PlanControl()
    got: list[Request] = []
    control.decide("d", ["x"])
    control.request_pause("soon")
    control.attach(got.append)
    control.request_cancel("now")
    control.detach()
    control.request_cancel("too late")
    assert got == [DecisionTaken("d", ("x",), "user"), PauseWish("soon"), CancelRequested("now")]


async def test_pause_and_cancel_raise_the_stop_signal_and_a_decision_does_not() -> None:
    paused, cancelled = PlanControl(), PlanControl()
    paused.decide("d", ["x"])
    assert not paused.stop.requested
    paused.request_pause()
    cancelled.request_cancel()
    assert paused.stop.requested
    assert cancelled.stop.requested


async def test_a_wish_from_another_thread_is_served_in_the_threads_of_the_run() -> None:
    control = PlanControl()
    threads: list[int] = []

    def note(request: Request) -> None:
        assert isinstance(request, (PauseWish, CancelRequested))
        threads.append(threading.get_ident())

    control.attach(note)
    await to_thread.run_sync(control.request_pause)
    thread = threading.Thread(target=control.request_cancel)
    thread.start()
    await to_thread.run_sync(thread.join)
    assert threads == [threading.get_ident()] * 2
