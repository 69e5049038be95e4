"""One provider with many agents: bounded in parallel, and paused together."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.fakes.llm_ports import FakeClock, ListBackend, MemoryObserver, completion, request
from vibe.core.llm.errors import ModelAccessError, ModelError, ModelOverloadedError
from vibe.core.llm.limiter import LimitedBackend, ProviderLimiter


def limiter(clock: FakeClock, max_concurrency: int = 2) -> ProviderLimiter:
    return ProviderLimiter(max_concurrency=max_concurrency, max_pause_seconds=60, sleep=clock.sleep, clock=clock.time)


async def test_no_more_calls_than_allowed_run_at_once() -> None:
    gate = limiter(FakeClock(), max_concurrency=3)
    running, peak = 0, 0

    async def call() -> None:
        nonlocal running, peak
        async with gate.slot():
            running += 1
            peak = max(peak, running)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            running -= 1

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call)
    assert (running, peak) == (0, 3)


async def test_retry_after_heard_by_one_holds_up_all() -> None:
    clock = FakeClock()
    gate = limiter(clock)
    first = LimitedBackend(ListBackend([ModelOverloadedError("busy", retry_after=5.0)]), gate)
    second = LimitedBackend(ListBackend([completion()]), gate)
    with pytest.raises(ModelOverloadedError):
        await first.complete(request(), MemoryObserver())
    await second.complete(request(), MemoryObserver())
    assert clock.slept == [5.0]


@pytest.mark.parametrize("error", [ModelOverloadedError("busy"), ModelAccessError("no", retry_after=5.0)])
async def test_other_failures_hold_up_nobody(error: ModelError) -> None:
    clock = FakeClock()
    backend = LimitedBackend(ListBackend([error, completion()]), limiter(clock, 1))
    with pytest.raises(ModelError):
        await backend.complete(request(), MemoryObserver())
    await backend.complete(request(), MemoryObserver())
    assert clock.slept == []


async def test_a_shorter_pause_does_not_cut_a_longer_one() -> None:
    clock = FakeClock()
    gate = limiter(clock)
    gate.pause(10)
    gate.pause(2)
    async with gate.slot():
        assert sum(clock.slept) == 10


async def test_a_pause_that_grows_while_waiting_is_waited_out() -> None:
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        if len(clock.slept) == 1:
            gate.pause(7)

    gate = ProviderLimiter(max_concurrency=1, max_pause_seconds=60, sleep=sleep, clock=clock.time)
    gate.pause(10)
    async with gate.slot():
        assert clock.slept == [10, 7]


async def test_a_wait_beyond_the_bound_stops_nobody_else() -> None:
    clock = FakeClock()
    gate = limiter(clock)
    gate.pause(86_400)
    async with gate.slot():
        assert clock.slept == []


async def test_a_cancelled_call_gives_its_place_back() -> None:
    gate = limiter(FakeClock(), max_concurrency=1)

    async def hold(scope: anyio.CancelScope) -> None:
        with scope:
            async with gate.slot():
                await anyio.sleep_forever()

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(hold, scope)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    with anyio.fail_after(60):
        async with gate.slot():
            pass


async def test_a_long_wait_for_a_turn_is_said_and_so_is_its_end() -> None:
    gate = limiter(FakeClock(), max_concurrency=1)
    backend = LimitedBackend(ListBackend([completion()]), gate, patience=0.01)
    observer = MemoryObserver()

    async with anyio.create_task_group() as group, gate.slot():
        group.start_soon(backend.complete, request(), observer)
        with anyio.fail_after(60):
            while not observer.waits:  # noqa: ASYNC110  a list announces nothing
                await anyio.sleep(0.005)
        assert [notice.waited_seconds for notice in observer.waits] == [None]

    waits, had_turn = observer.waits
    assert waits.provider == had_turn.provider == request().model.provider
    assert had_turn.waited_seconds is not None
    assert had_turn.waited_seconds >= 0.01


async def test_who_has_a_turn_at_once_says_nothing() -> None:
    observer = MemoryObserver()

    await LimitedBackend(ListBackend([completion()]), limiter(FakeClock())).complete(request(), observer)

    assert observer.waits == []
