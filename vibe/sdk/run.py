"""Run: a piece of work for a program, which starts in its own task once it is awaited, iterated or waited for."""

from __future__ import annotations

import asyncio  # noqa: TID251  the work runs in the program's own loop, in a task that is no child of the one that waits
import warnings
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from threading import Lock
from typing import Any, Generic, Self, TypeVar
from weakref import WeakSet

from anyio import CancelScope
from anyio.lowlevel import current_token

from ipc.events import AssistantDeltaEvent, Event
from vibe.sdk.options import check, raised
from vibe.system.errors import UsageError, error_as

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
Item = TypeVar("Item")
WAIT = "wait(), in a thread of its own if a loop of another library runs"
OTHER_LOOP = f"wait() blocks, and an event loop of another library than asyncio runs in this thread: use {WAIT}"


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the asyncio event loop that is running here.

    Raises:
        UsageError: none is running, or it isn't asyncio's.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError(f"vibe.sdk needs an asyncio loop, and none runs here: without one, use {WAIT}") from error


def call_in_loop(task: asyncio.Task[Any] | None, call: Callable[..., Item], *args: object) -> Item:
    """Call a function in the event loop of a task, from any thread, and return its result."""
    loop = None if task is None else task.get_loop()
    with suppress(RuntimeError):
        loop = None if asyncio.get_running_loop() is loop else loop
    if loop is None or not loop.is_running():
        return call(*args)

    async def in_loop() -> Item:
        return call(*args)

    return asyncio.run_coroutine_threadsafe(in_loop(), loop).result()


async def wait_for_end(task: asyncio.Future[None]) -> None:
    """Wait until a task has ended, even if the caller is cancelled meanwhile.

    The cancellation is raised again once the task has ended.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _no_agent(_text: str, _step: str) -> bool:
    return False


_PART_OF: ContextVar[tuple[RunWork[Any], ...]] = ContextVar("_PART_OF", default=())
"""The works that the code at hand is a part of, as tools and callbacks are."""


def check_outside(work: RunWork[Any] | None) -> None:
    """Check that some work for whose end the caller is about to wait does not wait for the caller, itself or by others.

    Raises:
        UsageError: it does, so that both would wait for ever.
    """
    found = [work]
    for one in found:
        if one is not None and not one.has_ended:
            if one in _PART_OF.get():
                raise UsageError("a tool or callback can't wait for the work it is part of: return, or use steer()")
            found += {one.blocker(), *one.awaited} - {*found}


def call_outside(call: Callable[..., object], *args: object) -> None:
    """Call a function that waits for nothing itself as no part of any work. Tasks that it begins may wait."""
    context = copy_context()
    context.run(_PART_OF.set, ())
    context.run(call, *args)


class RunWork(Generic[R]):
    """The inner side of a run, for the code that does the work.

    It collects the events and knows how the work is stopped and steered.
    """

    def __init__(self, do: Callable[[RunWork[R]], Awaitable[R]], context: Callable[[], Context] = copy_context) -> None:
        self._do, self._context = do, context
        self.blocker: Callable[[], RunWork[Any] | None] = lambda: None
        """Returns the work that has to end before this one can, if any."""
        self.awaited = WeakSet[RunWork[Any]]()
        """The works that tools and callbacks of this one wait for, or did."""
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], object] = str
        self._news = asyncio.Event()
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._ended: Future[None] = Future()  # a thread-safe one, as those who wait may be in other event loops
        self._begin_lock = Lock()
        self._pick: Callable[[Event], object | None] | None = None
        self.items: deque[Any] = deque()
        """What was picked from the events for the program that iterates the run, and not taken yet."""
        self.steer: Callable[[str, str], bool] = _no_agent
        """Takes a text and the id of the step it is for. Returns False if no agent is at work."""
        self.is_used = self.is_interrupted = self.has_ended = False

    def publish(self, event: Event) -> None:
        """Keep what the program wants of an event, if the program iterates the run."""
        item = None if self._pick is None else self._pick(event)
        if item is not None:
            self.items.append(item)
            self._news.set()

    def serve(self, stop: Callable[[], object], steer: Callable[[str, str], bool] = _no_agent) -> None:
        """Set how the work is stopped and steered from now on; stop it at once if it was interrupted before."""
        self._stop, self.steer = stop, steer
        if self.is_interrupted:
            stop()

    def interrupt(self) -> None:
        """Ask the work to stop. It still ends in its own time, with a result."""
        self.is_interrupted = True
        call_in_loop(self._task, self._stop)

    def steer_agent(self, text: str, step: str) -> bool:
        """Say something to the agent at work; return False if no agent is at work."""
        return call_in_loop(self._task, self.steer, text, step)

    def begin(self, pick: Callable[[Event], object | None] | None = None) -> asyncio.Task[None]:
        """Start the work in a task of its own, unless it has started.

        If the run is iterated, ``pick`` returns the item to keep of an event, or None.

        Raises:
            UsageError: no asyncio loop runs here, the caller is a part of the work, or the work has started and so
                can no longer be iterated.
        """
        self.is_used = True
        check_outside(self)
        loop = running_loop()
        with self._begin_lock:
            if self._task is None:
                self._pick = pick
                context = self._context()
                context.run(_PART_OF.set, (*(one for one in _PART_OF.get() if not one.has_ended), self))
                self._task = loop.create_task(self._do_work(), context=context)
                self._task.add_done_callback(lambda _: self._ended.set_result(None))
            elif pick is not None:
                raise UsageError("a run is iterated once, and before it is awaited: ask again for another")
        return self._task

    async def ended(self) -> R:
        """Start the work, wait for its end and return the result.

        If the caller is cancelled, the work is interrupted and the wait continues until it has ended.
        """
        self.begin()
        await self._wait_or_settle(asyncio.wait([asyncio.wrap_future(self._ended)]))
        return self.result

    async def next_item(self) -> None:
        """Wait for the next item or for the end. A cancellation is handled as in ``ended``."""
        await self._wait_or_settle(self._news.wait())
        self._news.clear()

    async def _wait_or_settle(self, moment: Awaitable[object]) -> None:
        for one in _PART_OF.get()[-1:]:
            one.awaited.add(self)
        try:
            await moment
        except asyncio.CancelledError:
            await self.settled()
            raise

    async def settled(self) -> None:
        """Interrupt the work and wait until it has ended, even if the caller is cancelled."""
        self.interrupt()
        await wait_for_end(asyncio.wrap_future(self._ended))

    @property
    def result(self) -> R:
        """See ``Run.result``."""
        if self._error is not None:
            raise self._error
        if not self._results:
            raise UsageError("the run has no result yet: await it first")
        return self._results[0]

    async def _do_work(self) -> None:
        try:
            self._results.append(await self._do(self))
        except BaseException as error:
            self._error = raised(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._stop, self.steer, self.has_ended = str, _no_agent, True
            self._news.set()

    def __del__(self) -> None:
        if not self.is_used:
            message = "a run was never awaited, iterated or waited for, so nothing was done"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


class Run(Generic[R_co]):
    """Work that has not started yet.

    ``await`` it for its result, iterate it for its events, or call ``wait()`` where no event loop runs. The work has a
    task of its own, so it may be started, iterated and closed in different tasks. If a task is cancelled while it waits
    for the run, the run is interrupted, and the cancellation goes on once the run has ended. Awaiting it again gives
    the same result.
    """

    def __init__(self, work: RunWork[R_co]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._work.ended().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return Stream(self._work, lambda event: event)

    def text(self) -> Stream[str]:
        """Return an async iterator over the main agent's answer, piece by piece as it is written."""
        return Stream(self._work, _piece)

    def wait(self) -> R_co:
        """Do the work and return its result, from synchronous code in any thread. Ctrl-C interrupts it.

        Raises:
            UsageError: an event loop runs in this thread.
        """
        self._work.is_used = True
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise UsageError("wait() blocks, and an event loop runs in this thread: write `await` instead")
        with suppress(RuntimeError), error_as(ImportError, lambda _: UsageError(OTHER_LOOP)):
            current_token()
            raise UsageError(OTHER_LOOP)
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves the thread's own loop alone
            return runner.run(self._work.ended())

    @property
    def result(self) -> R_co:
        """The result, once the run has ended.

        Raises:
            UsageError: it has not ended.
            VibeError: the work failed with one; see ``NotCompleted``.
        """
        return self._work.result

    def steer(self, text: str, step: str = "") -> bool:
        """Say something to the agent at work, which reads it before its next model call.

        Returns False if no agent is at work. ``step`` is the id of the step of a plan whose agent is meant.
        """
        check(text=text, step=step)
        return self._work.steer_agent(text, step)

    def interrupt(self) -> None:
        """Stop the work. What was done is kept and can be continued; whoever waits for the run gets how it ended."""
        self._work.interrupt()


def _piece(event: Event) -> str | None:
    return event.text if isinstance(event, AssistantDeltaEvent) and not event.subagent_id else None


class Stream(Generic[Item]):
    """Iterates a run, which starts with the first item.

    Leaving the iteration early, in whatever way, interrupts the run. Items the program has not taken yet wait in
    memory. The iteration ends by raising what an await would raise, if anything.
    """

    def __init__(self, work: RunWork[Any], pick: Callable[[Event], Item | None]) -> None:
        self._work, self._pick = work, pick
        self._leave: Callable[[], object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        if self._leave is None:
            task = self._work.begin(self._pick)
            self._leave = partial(task.get_loop().call_soon_threadsafe, self._work.interrupt)
        items = self._work.items
        while not items:
            if self._work.has_ended:
                _ = self._work.result  # raises the error of the work, if there was one
                raise StopAsyncIteration
            await self._work.next_item()
        return items.popleft()

    async def aclose(self) -> None:
        """Interrupt the run and wait until it has ended. ``contextlib.aclosing`` calls this."""
        if self._leave is not None:
            await self._work.settled()

    def __del__(self) -> None:
        if self._leave is not None and not self._work.has_ended:
            with suppress(RuntimeError):  # raised when the loop is closed already
                self._leave()
