"""RetryingBackend: repeats model calls that failed for a temporary reason, and announces each retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import anyio
from msgspec import Struct, field, structs

from vibe.core.llm.errors import ModelError, ModelProtocolError
from vibe.core.llm.port import Completion, Delta, ModelObserver, ModelRequest, Notice, RetryNotice, WrappingBackend


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The waits between tries, and the limits after which to give up; all times are in seconds.

    ``max_total_seconds`` counts from the first failure, so that a call which failed after a long silence still gets
    another try; 0 means no retries. If the server was never reached, ``unreached_seconds`` from the first try on are
    the limit: a wrong address is more likely than a server that is about to start. ``jitter`` is the share by which a
    wait may be longer or shorter.
    """

    initial_seconds: float = 0.5
    factor: float = 1.5
    jitter: float = 0.2
    max_total_seconds: float = 300.0
    unreached_seconds: float = 5.0
    protocol_retries: int = 1

    def wait(self, attempt: int, retry_after: float | None, rng: Random) -> float:
        """Return the seconds to wait after the failed ``attempt`` (from 1), at least what the provider asked for."""
        backoff = self.initial_seconds * self.factor ** min(attempt - 1, 100)
        backoff *= 1 + self.jitter * (2 * rng.random() - 1)
        if retry_after is None:
            return backoff
        # Wait a little longer than asked, differently for each agent, so that they don't all come back at once.
        return max(backoff, retry_after + self.initial_seconds * rng.random())


class _SharedTries(Struct, eq=False):
    """Coordinates the calls to one provider: while it is unreachable, one call at a time tries and the others wait."""

    completed: int = 0
    """The number of complete answers."""
    is_unreachable: bool = False
    _trying: object = None
    _over: anyio.Event = field(default_factory=anyio.Event)

    def note_answer(self) -> None:
        """Note that an answer, or the start of one, has arrived."""
        self.is_unreachable = False
        self.give_up_turn(self._trying)

    async def take_turn(self, call: object) -> None:
        """Wait until the provider answers again, or until it is this call's turn to try."""
        while self.is_unreachable and self._trying not in {None, call}:
            await self._over.wait()
        if self.is_unreachable and self._trying is None:
            self._trying, self._over = call, anyio.Event()

    def give_up_turn(self, call: object) -> None:
        """Let another call try if it was this one's turn."""
        if self._trying is call:
            self._trying = None
            self._over.set()


class _AttemptObserver(Struct, eq=False):
    """Marks the pieces of one attempt with its number, so that a screen can drop those of earlier attempts.

    ``answered`` is called when the first piece arrives.
    """

    _inner: ModelObserver
    _attempt: int
    _answered: Callable[[], None] | None

    def delta(self, delta: Delta, /) -> None:
        if self._answered is not None:
            self._answered()
            self._answered = None
        self._inner.delta(structs.replace(delta, attempt=self._attempt) if self._attempt > 1 else delta)

    def notice(self, notice: Notice, /) -> None:
        self._inner.notice(notice)


class RetryingBackend(WrappingBackend):
    """Wraps a backend and repeats failed calls by a ``RetryPolicy``.

    A call whose answer can't be understood is repeated ``protocol_retries`` times only.
    """

    policy: RetryPolicy
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time
    rng: Random = field(default_factory=Random)  # noqa: S311  spreads waits, guards nothing
    _reached: bool = False
    _tries: _SharedTries = field(default_factory=_SharedTries)

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Call until it works or the policy forbids another try.

        Raises:
            ModelError: the last failure; its message says how many tries were made.
        """
        call = object()
        try:
            await self._tries.take_turn(call)
            return await self._until_answered(request, observer, call)
        finally:
            self._tries.give_up_turn(call)

    async def _until_answered(self, request: ModelRequest, observer: ModelObserver, call: object) -> Completion:
        """Call again and again; other calls may try in between while the provider can't be reached."""
        attempt, misunderstood, completed = 1, 0, self._tries.completed
        started = self.clock()
        deadline = float("inf")
        while True:
            try:
                attempt_observer = _AttemptObserver(observer, attempt, self._tries.note_answer)
                completion = await self.inner.complete(request, attempt_observer)
            except ModelError as error:
                failure = error
            else:
                self._tries.note_answer()
                self._tries.completed += 1
                self._reached = True
                return completion
            self._reached = self._reached or not failure.unreachable
            if attempt == 1:
                deadline = self.clock() + self.policy.max_total_seconds
            misunderstood += isinstance(failure, ModelProtocolError)
            wait = self.policy.wait(attempt, failure.retry_after, self.rng)
            if not failure.retryable or misunderstood > self.policy.protocol_retries:
                raise _final_error(failure, attempt)
            give_up_at = deadline if self._reached else min(deadline, started + self.policy.unreached_seconds)
            unanswered = not isinstance(failure, ModelProtocolError) and completed == self._tries.completed
            completed = self._tries.completed
            if self.clock() + wait <= give_up_at:
                observer.notice(
                    RetryNotice(
                        attempt=attempt, wait_seconds=wait, reason=str(failure), unreachable=failure.unreachable
                    )
                )
                if failure.unreachable:
                    self._tries.is_unreachable = True
                    await self._tries.take_turn(call)
            if self.clock() + wait > give_up_at and completed == self._tries.completed:
                raise _final_error(failure, attempt, self._wait_too_long(failure), unanswered=unanswered)
            await self.sleep(wait)
            attempt += 1

    def _wait_too_long(self, failure: ModelError) -> str:
        """Return words on the wait that the provider asks for and the policy forbids; empty if it asks for none."""
        if failure.retry_after is None:
            return ""
        longest = self.policy.max_total_seconds
        return f"; it asks to wait {failure.retry_after:g} s, and retry_max_seconds allows {longest:g} s in all"


def _final_error(failure: ModelError, attempts: int, note: str = "", *, unanswered: bool = False) -> ModelError:
    """Complete the message of the last failure; if the provider gave no answer meanwhile, the failure ``halts``."""
    tried = f" (tried {attempts} times)" if attempts > 1 else ""
    failure.args = (f"{failure}{tried}{note}",)
    failure.halts = failure.halts or unanswered
    return failure
