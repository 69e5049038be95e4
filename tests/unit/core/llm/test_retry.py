"""Temporary failures are retried, with notice and within bounds; others are not."""

from __future__ import annotations

from random import Random

import anyio
import anyio.lowlevel
import pytest

from tests.fakes.llm_ports import FakeClock, ListBackend, MemoryObserver, completion, request
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRequestError,
    ModelTransportError,
)
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.core.llm.retry import RetryingBackend, RetryPolicy

AGENTS = 8
EXACT = RetryPolicy(jitter=0.0)


def retrying(inner: ListBackend, clock: FakeClock, policy: RetryPolicy = EXACT) -> RetryingBackend:
    rng = Random(1)
    return RetryingBackend(inner, policy, sleep=clock.sleep, clock=clock.time, rng=rng)


async def test_the_wait_grows_by_half_each_time() -> None:
    clock, seen = FakeClock(), MemoryObserver()
    inner = ListBackend([*(ModelTransportError("cut") for _ in range(4)), completion()])
    assert (await retrying(inner, clock).complete(request(), seen)).message.content == "done"
    assert clock.slept == pytest.approx([0.5, 0.75, 1.125, 1.6875])
    assert [notice.attempt for notice in seen.notices] == [1, 2, 3, 4]
    assert [notice.wait_seconds for notice in seen.notices] == clock.slept
    assert seen.notices[0].reason == "cut"


async def test_jitter_spreads_the_waits_but_not_far() -> None:
    clock = FakeClock()
    inner = ListBackend([*(ModelOverloadedError("busy") for _ in range(5)), completion()])
    await retrying(inner, clock, RetryPolicy(jitter=0.2)).complete(request(), MemoryObserver())
    plain = [0.5 * 1.5**n for n in range(5)]
    assert all(0.8 * base <= wait <= 1.2 * base for base, wait in zip(plain, clock.slept, strict=True))
    assert clock.slept != pytest.approx(plain)


def unreachable() -> ModelTransportError:
    error = ModelTransportError("cannot be reached", provider="p")
    error.unreachable = True
    return error


async def test_who_never_answered_is_given_up_soon() -> None:
    clock = FakeClock()
    with pytest.raises(ModelTransportError, match=r"cannot be reached \(tried"):
        await retrying(ListBackend([unreachable() for _ in range(50)]), clock).complete(request(), MemoryObserver())
    assert 1.0 < sum(clock.slept) <= 5.0


async def test_who_has_answered_before_is_waited_for() -> None:
    clock = FakeClock()
    backend = retrying(ListBackend([completion(), *(unreachable() for _ in range(9)), completion()]), clock)
    await backend.complete(request(), MemoryObserver())
    assert (await backend.complete(request(), MemoryObserver())).message.content == "done"
    assert sum(clock.slept) > 30.0


async def test_who_begins_to_answer_is_waited_for() -> None:
    clock = FakeClock()
    busy = (ModelOverloadedError("loading", status=503) for _ in range(8))
    assert (
        await retrying(ListBackend([unreachable(), *busy, completion()]), clock).complete(request(), MemoryObserver())
    ).message.content == "done"


async def test_retry_after_is_never_undercut() -> None:
    clock = FakeClock()
    inner = ListBackend([ModelOverloadedError("busy", retry_after=20.0), completion()])
    await retrying(inner, clock).complete(request(), MemoryObserver())
    assert 20.0 <= clock.slept[0] <= 20.5


async def test_it_gives_up_within_the_cap_and_says_how_often_it_tried() -> None:
    clock, seen = FakeClock(), MemoryObserver()
    inner = ListBackend([ModelOverloadedError("busy", provider="p", status=503) for _ in range(100)])
    with pytest.raises(ModelOverloadedError, match=r"busy \(tried \d+ times\)") as caught:
        await retrying(inner, clock).complete(request(), seen)
    assert sum(clock.slept) <= 300
    assert len(inner.requests) == len(clock.slept) + 1 == len(seen.notices) + 1 > 10
    assert (caught.value.provider, caught.value.status) == ("p", 503)


async def test_a_wait_beyond_the_cap_is_not_begun() -> None:
    clock = FakeClock()
    inner = ListBackend([ModelOverloadedError("busy", retry_after=3600.0), completion()])
    with pytest.raises(
        ModelOverloadedError, match=r"busy; it asks to wait 3600 s, and retry_max_seconds allows 300 s in all"
    ):
        await retrying(inner, clock).complete(request(), MemoryObserver())
    assert clock.slept == []


async def test_a_call_that_failed_by_a_long_silence_gets_another_try() -> None:
    clock = FakeClock()

    class Silent(ListBackend):
        async def complete(self, *args: object) -> object:  # type: ignore[override]
            clock.now += 300
            return await super().complete(*args)  # type: ignore[arg-type]

    inner = Silent([ModelTransportError("silent"), completion()])
    await retrying(inner, clock).complete(request(), MemoryObserver())
    assert len(inner.requests) == 2


@pytest.mark.parametrize("kind", [ModelAccessError, ModelRequestError, ContextTooLongError])
async def test_what_cannot_pass_is_not_repeated(kind: type[ModelError]) -> None:
    clock, seen, error = FakeClock(), MemoryObserver(), kind("no")
    with pytest.raises(kind) as caught:
        await retrying(ListBackend([error, completion()]), clock).complete(request(), seen)
    assert caught.value is error
    assert (clock.slept, seen.notices) == ([], [])


async def test_an_answer_that_is_none_is_asked_for_exactly_once_more() -> None:
    inner = ListBackend([ModelProtocolError("what"), ModelProtocolError("what"), completion()])
    with pytest.raises(ModelProtocolError, match="tried 2 times"):
        await retrying(inner, FakeClock()).complete(request(), MemoryObserver())
    assert len(inner.requests) == 2


async def test_other_failures_in_between_do_not_buy_a_third_try() -> None:
    failures = [ModelProtocolError("a"), ModelOverloadedError("b"), ModelProtocolError("c"), completion()]
    inner = ListBackend(list(failures))
    with pytest.raises(ModelProtocolError, match="c"):
        await retrying(inner, FakeClock()).complete(request(), MemoryObserver())
    assert len(inner.requests) == 3


async def test_no_cap_no_retry() -> None:
    inner = ListBackend([ModelTransportError("cut"), completion()])
    with pytest.raises(ModelTransportError):
        await retrying(inner, FakeClock(), RetryPolicy(max_total_seconds=0)).complete(request(), MemoryObserver())
    assert len(inner.requests) == 1


async def test_no_reader_sees_a_text_twice() -> None:
    seen = MemoryObserver()
    inner = ListBackend([ModelTransportError("cut"), ModelTransportError("cut"), completion()], shows="Hello")
    await retrying(inner, FakeClock()).complete(request(), seen)
    assert [delta.attempt for delta in seen.deltas] == [1, 2, 3]
    assert seen.visible == "Hello"


async def test_closing_closes_the_inner_backend() -> None:
    inner = ListBackend([])
    await retrying(inner, FakeClock()).aclose()
    assert inner.closed


async def test_while_a_provider_cannot_be_reached_one_call_tries_for_all() -> None:
    at_once, most, tries, is_back = 0, 0, 0, anyio.Event()

    class Network:
        async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
            nonlocal at_once, most, tries
            del request, observer
            tries, at_once = tries + 1, at_once + 1
            most = max(most, at_once if tries > AGENTS and not is_back.is_set() else 0)
            await anyio.lowlevel.checkpoint()
            at_once -= 1
            if not is_back.is_set():
                raise unreachable()
            return completion()

        async def aclose(self) -> None: ...

    async def sleep(_: float) -> None:
        await anyio.lowlevel.checkpoint()
        if tries > 3 * AGENTS:
            is_back.set()

    backend = RetryingBackend(
        Network(), RetryPolicy(unreached_seconds=1e9, max_total_seconds=1e9), sleep=sleep, clock=lambda: 0.0
    )
    async with anyio.create_task_group() as group:
        for _ in range(AGENTS):
            group.start_soon(backend.complete, request(), MemoryObserver())

    assert most == 1
    assert is_back.is_set()


@pytest.mark.parametrize("others_answer", [True, False])
async def test_a_call_that_fails_alone_is_its_own_fault(*, others_answer: bool) -> None:
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        if others_answer:
            await backend.complete(request(), MemoryObserver())

    turns = (ModelOverloadedError("oops", status=500), completion()) if others_answer else (unreachable(),)
    inner = ListBackend([turn for _ in range(50) for turn in turns])
    backend = RetryingBackend(inner, EXACT, sleep=sleep, clock=clock.time)
    with pytest.raises(ModelError) as caught:
        await backend.complete(request(), MemoryObserver())

    assert caught.value.halts is not others_answer
