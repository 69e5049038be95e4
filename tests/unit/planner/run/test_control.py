from __future__ import annotations

import threading

from anyio import to_thread

from ipc.commands import Cancel, Decide, Pause
from planner.plan.operations import RemoveStep
from planner.run.control import TOO_LATE, PlanControl, Request


async def test_wishes_before_the_run_are_kept_and_after_it_ignored() -> None:
    control = PlanControl()
    got: list[Request] = []
    control.request_pause("soon")
    control.attach(got.append)
    control.request_cancel("now")
    control.detach()
    control.request_cancel("too late")
    assert [request.command for request in got] == [Pause(by="soon"), Cancel(by="now")]


async def test_whoever_wants_to_know_is_told_once_what_became_of_a_wish() -> None:
    control = PlanControl()
    told: dict[str, str | None] = {}
    control.decide("early", ["x"], on_verdict=lambda problem: told.update(early=problem))

    def serve(request: Request) -> None:
        if request.command == Decide(decision_id="early", selections=("x",)):
            request.reply.give(None)
            request.reply.give("a second time")

    control.attach(serve)
    control.revise([RemoveStep(id="a")], on_verdict=lambda problem: told.update(unserved=problem))
    assert told == {"early": None}
    control.detach()
    control.decide("late", ["x"], on_verdict=lambda problem: told.update(late=problem))
    assert told == {"early": None, "unserved": TOO_LATE, "late": TOO_LATE}


async def test_a_wish_for_a_run_that_never_began_is_answered() -> None:
    control = PlanControl()
    told: list[str | None] = []
    control.decide("d", ["x"], on_verdict=told.append)
    control.detach()
    assert told == [TOO_LATE]


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
        assert isinstance(request.command, (Pause, Cancel))
        threads.append(threading.get_ident())

    control.attach(note)
    await to_thread.run_sync(control.request_pause)
    thread = threading.Thread(target=control.request_cancel)
    thread.start()
    await to_thread.run_sync(thread.join)
    assert threads == [threading.get_ident()] * 2
