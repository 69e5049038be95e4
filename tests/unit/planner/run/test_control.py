from __future__ import annotations

import threading

from anyio import to_thread

from ipc.commands import Cancel, Decide, Pause, Revise
from planner.plan.operations import RemoveStep, plain_operations
from planner.run.control import TOO_LATE, PlanControl, Request


async def test_wishes_before_the_run_are_kept_and_after_it_ignored() -> None:
    control = PlanControl()
    got: list[Request] = []
    control.submit(Pause(by="soon"))
    control.attach(got.append)
    control.submit(Cancel(by="now"))
    control.detach()
    control.submit(Cancel(by="too late"))
    assert [request.command for request in got] == [Pause(by="soon"), Cancel(by="now")]


async def test_whoever_wants_to_know_is_told_once_what_became_of_a_wish() -> None:
    control = PlanControl()
    told: dict[str, str | None] = {}
    control.submit(Decide(decision_id="early", selections=("x",)), lambda problem: told.update(early=problem))

    def serve(request: Request) -> None:
        if request.command == Decide(decision_id="early", selections=("x",)):
            request.answer(None)
            request.answer("a second time")

    control.attach(serve)
    control.submit(
        Revise(operations=plain_operations([RemoveStep(id="a")])), lambda problem: told.update(unserved=problem)
    )
    assert told == {"early": None}
    control.detach()
    control.submit(Decide(decision_id="late", selections=("x",)), lambda problem: told.update(late=problem))
    assert told == {"early": None, "unserved": TOO_LATE, "late": TOO_LATE}


async def test_a_wish_for_a_run_that_never_began_is_answered() -> None:
    control = PlanControl()
    told: list[str | None] = []
    control.submit(Decide(decision_id="d", selections=("x",)), told.append)
    control.detach()
    assert told == [TOO_LATE]


async def test_pause_and_cancel_raise_the_stop_signal_and_a_decision_does_not() -> None:
    paused, cancelled = PlanControl(), PlanControl()
    paused.submit(Decide(decision_id="d", selections=("x",)))
    assert not paused.requested
    paused.submit(Pause())
    cancelled.submit(Cancel())
    assert paused.requested
    assert cancelled.requested


async def test_a_wish_from_another_thread_is_served_in_the_threads_of_the_run() -> None:
    control = PlanControl()
    threads: list[int] = []

    def note(request: Request) -> None:
        assert isinstance(request.command, (Pause, Cancel))
        threads.append(threading.get_ident())

    control.attach(note)
    await to_thread.run_sync(control.submit, Pause())
    thread = threading.Thread(target=control.submit, args=(Cancel(),))
    thread.start()
    await to_thread.run_sync(thread.join)
    assert threads == [threading.get_ident()] * 2
