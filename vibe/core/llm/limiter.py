"""Limits the concurrent calls to one provider, shared by all agents that call it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

import anyio
from anyio.lowlevel import RunVar
from msgspec import Struct, field

from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest, WaitNotice, WrappingBackend

PATIENCE_SECONDS = 1.0
"""Seconds a call waits for its turn before a notice says so."""


class CallLimiter(Protocol):
    """Decides when calls to one provider may begin."""

    def slot(self) -> AbstractAsyncContextManager[object]:
        """Wait for a free slot and hold it."""
        ...

    def pause(self, seconds: float) -> None:
        """Let no call begin for ``seconds``."""


class ProviderLimiter(Struct, kw_only=True, eq=False):
    """Allows at most ``max_concurrency`` calls at once per event loop, with a pause that all of them share.

    ``max_pause_seconds`` is the longest pause that one answer of the provider may impose on all calls. A longer wait
    delays only its own call.
    """

    max_concurrency: int
    max_pause_seconds: float
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time
    _slots: RunVar[anyio.Semaphore] = field(default_factory=lambda: RunVar("slots"))
    """One per event loop: a semaphore can't wake other threads."""
    _resume_at: float = float("-inf")

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a free slot and for the end of any pause, then hold the slot."""
        try:
            slots = self._slots.get()
        except LookupError:
            slots = anyio.Semaphore(self.max_concurrency)
            self._slots.set(slots)
        async with slots:
            while (wait := self._resume_at - self.clock()) > 0:
                await self.sleep(wait)
            yield

    def pause(self, seconds: float) -> None:
        """Let no call begin for ``seconds``; a shorter pause never shortens a longer one."""
        if seconds <= self.max_pause_seconds:
            self._resume_at = max(self._resume_at, self.clock() + seconds)


class LimitedBackend(WrappingBackend):
    """Wraps a backend in its provider's limiter. A wait of more than ``patience`` seconds is reported."""

    limiter: CallLimiter
    patience: float = PATIENCE_SECONDS

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Call the inner backend when a slot is free; a Retry-After pauses all callers of the provider."""
        async with AsyncExitStack() as held:
            await self._wait_for_slot(held, request, observer)
            try:
                return await self.inner.complete(request, observer)
            except ModelError as error:
                if error.retryable and error.retry_after:
                    self.limiter.pause(error.retry_after)
                raise

    async def _wait_for_slot(self, held: AsyncExitStack, request: ModelRequest, observer: ModelObserver) -> None:
        """Wait for a slot and keep it in ``held``, with notices at the start and the end of a long wait."""
        started = anyio.current_time()
        with anyio.move_on_after(self.patience):
            await held.enter_async_context(self.limiter.slot())
            return
        provider = request.model.provider
        observer.notice(WaitNotice(provider=provider))
        await held.enter_async_context(self.limiter.slot())
        observer.notice(WaitNotice(provider=provider, waited_seconds=anyio.current_time() - started))
