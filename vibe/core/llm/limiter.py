"""Limits the concurrent calls to one provider, shared by all agents that call it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

import anyio
from anyio.lowlevel import RunVar

from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion, ModelBackend, ModelObserver, ModelRequest, WaitNotice

PATIENCE_SECONDS = 1.0
"""Seconds a call waits for its turn before a notice says so."""


class CallLimiter(Protocol):
    """Decides when calls to one provider may begin."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Wait for a free slot and hold it."""
        ...

    def pause(self, seconds: float) -> None:
        """Let no call begin for ``seconds``."""
        ...


class ProviderLimiter:
    """Allows at most ``max_concurrency`` calls at once per event loop, with a pause that all of them share.

    ``max_pause_seconds`` is the longest pause that one answer of the provider may impose on all calls. A longer wait
    delays only its own call.
    """

    def __init__(
        self,
        *,
        max_concurrency: int,
        max_pause_seconds: float,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._most = max_concurrency
        self._slots = RunVar[anyio.Semaphore]("slots")  # one per event loop: a semaphore can't wake other threads
        self._max_pause = max_pause_seconds
        self._sleep = sleep
        self._clock = clock
        self._resume_at = float("-inf")

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a free slot and for the end of any pause, then hold the slot."""
        try:
            slots = self._slots.get()
        except LookupError:
            slots = anyio.Semaphore(self._most)
            self._slots.set(slots)
        async with slots:
            while (wait := self._resume_at - self._clock()) > 0:
                await self._sleep(wait)
            yield

    def pause(self, seconds: float) -> None:
        """Let no call begin for ``seconds``; a shorter pause never shortens a longer one."""
        if seconds <= self._max_pause:
            self._resume_at = max(self._resume_at, self._clock() + seconds)


class LimitedBackend:
    """Wraps a backend in its provider's limiter. A wait of more than ``patience`` seconds is reported."""

    def __init__(self, inner: ModelBackend, limiter: CallLimiter, patience: float = PATIENCE_SECONDS) -> None:
        self._inner = inner
        self._limiter = limiter
        self._patience = patience

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Call the inner backend when a slot is free; a Retry-After pauses all callers of the provider."""
        async with AsyncExitStack() as held:
            await self._wait_for_slot(held, request, observer)
            try:
                return await self._inner.complete(request, observer)
            except ModelError as error:
                if error.retryable and error.retry_after:
                    self._limiter.pause(error.retry_after)
                raise

    async def _wait_for_slot(self, held: AsyncExitStack, request: ModelRequest, observer: ModelObserver) -> None:
        """Wait for a slot and keep it in ``held``, with notices at the start and the end of a long wait."""
        started = anyio.current_time()
        with anyio.move_on_after(self._patience):
            await held.enter_async_context(self._limiter.slot())
            return
        provider = request.model.provider
        observer.notice(WaitNotice(provider=provider))
        await held.enter_async_context(self._limiter.slot())
        observer.notice(WaitNotice(provider=provider, waited_seconds=anyio.current_time() - started))

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self._inner.aclose()
