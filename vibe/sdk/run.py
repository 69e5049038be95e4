"""Run: work for a program, which begins when it is awaited, iterated or waited for, in a task of its own."""

from __future__ import annotations

import asyncio  # noqa: TID251  a program's loop: its task of the work must be no child of the task that waits
import warnings
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from threading import Lock
from typing import Any, Generic, Self, TypeVar

from anyio import CancelScope

from ipc.events import AssistantDeltaEvent, Event
from vibe.sdk.options import check, raised
from vibe.system.errors import UsageError

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
Item = TypeVar("Item")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that runs here.

    Raises:
        UsageError: none does, or one of another kind.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError("vibe.sdk needs an asyncio loop, and none runs here: without one, use wait()") from error


def told_in(task: asyncio.Task[Any] | None, call: Callable[..., Item], *args: object) -> Item:
    """Make a call in the loop of a task, from whatever thread, and return what it comes to."""
    loop = None if task is None else task.get_loop()
    with suppress(RuntimeError):
        loop = None if asyncio.get_running_loop() is loop else loop
    if loop is None or not loop.is_running():
        return call(*args)

    async def made() -> Item:
        return call(*args)

    return asyncio.run_coroutine_threadsafe(made(), loop).result()


async def end_of(task: asyncio.Future[None]) -> None:
    """Wait for the end of a task, however often the caller is cancelled meanwhile, which is raised then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _unheard(_text: str, _step: str) -> bool:
    return False


class RunWork(Generic[R]):
    """The inside of a run, for whoever does it: takes its events, and is told how it is stopped and steered."""

    def __init__(self, do: Callable[[RunWork[R]], Awaitable[R]], context: Callable[[], Context] = copy_context) -> None:
        self._do, self._context = do, context
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], object] = str
        self._news = asyncio.Event()
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._ended: Future[None] = Future()  # whoever waits for it may be in another loop than it is
        self._begins = Lock()
        self._events: deque[Event] | None = None  # None: the program takes none
        self.steer: Callable[[str, str], bool] = _unheard
        """Takes a text and the step it is for; False: no agent is at work."""
        self.is_used = self.is_interrupted = self.has_ended = False

    def publish(self, event: Event) -> None:
        """Keep an event for the program, if it takes them."""
        if self._events is not None:
            self._events.append(event)
            self._news.set()

    def taken(self) -> Iterator[Event]:
        """Take the events that came so far, one after the other."""
        while self._events:
            yield self._events.popleft()

    def serve(self, stop: Callable[[], object], steer: Callable[[str, str], bool] = _unheard) -> None:
        """From now on it is stopped and steered so; where it is interrupted already, it is stopped at once."""
        self._stop, self.steer = stop, steer
        if self.is_interrupted:
            stop()

    def interrupt(self) -> None:
        """Stop it; it then ends in its own time, with a result."""
        self.is_interrupted = True
        told_in(self._task, self._stop)

    def told(self, text: str, step: str) -> bool:
        """Steer it; False: no agent is at work."""
        return told_in(self._task, self.steer, text, step)

    def begin(self, *, iterated: bool = False) -> asyncio.Task[None]:
        """Begin, if it has not.

        Raises:
            UsageError: no asyncio loop runs here, or it can't be iterated any more.
        """
        self.is_used = True
        loop = running_loop()
        with self._begins:
            if self._task is None:
                self._events = deque() if iterated else None
                self._task = loop.create_task(self._have_done(), context=self._context())
                self._task.add_done_callback(lambda _: self._ended.set_result(None))
            elif iterated:
                raise UsageError("a run is iterated once, and before it is awaited: ask again for another")
        return self._task

    async def ended(self) -> R:
        """Begin, and wait for the end; whoever is cancelled meanwhile interrupts it, and waits all the same."""
        self.begin()
        await self._kept_up_to(asyncio.wait([asyncio.wrap_future(self._ended)]))
        return self.result

    async def heard(self) -> None:
        """Wait for an event, or the end; cancelled as ``ended``."""
        await self._kept_up_to(self._news.wait())
        self._news.clear()

    async def _kept_up_to(self, moment: Awaitable[object]) -> None:
        try:
            await moment
        except asyncio.CancelledError:
            await self.settled()
            raise

    async def settled(self) -> None:
        """Interrupt it and wait until all is in order, whatever becomes of the caller."""
        self.interrupt()
        await end_of(asyncio.wrap_future(self._ended))

    @property
    def result(self) -> R:
        """See ``Run.result``."""
        if self._error is not None:
            raise self._error
        if not self._results:
            raise UsageError("the run has no result yet: await it first")
        return self._results[0]

    async def _have_done(self) -> None:
        try:
            self._results.append(await self._do(self))
        except BaseException as error:
            self._error = raised(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._stop, self.steer, self.has_ended = str, _unheard, True
            self._news.set()

    def __del__(self) -> None:
        if not self.is_used:
            told = "a run was never awaited, iterated or waited for, so nothing was done"
            warnings.warn(told, RuntimeWarning, stacklevel=2)


class Run(Generic[R_co]):
    """Work that has not begun: ``await`` it, iterate it for its events, or call ``wait()`` where no loop runs.

    It is in a task of its own, so it may be begun, iterated and closed in different tasks. Whoever is cancelled while
    waiting for it interrupts it, and waits until all is in order. A second await gives the same result.
    """

    def __init__(self, work: RunWork[R_co]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._work.ended().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return Stream(self._work, lambda event: event)

    def text(self) -> Stream[str]:
        """Return the pieces of the main agent's answer as they come, to be iterated."""
        return Stream(self._work, _piece)

    def wait(self) -> R_co:
        """Have it done from code that is not asynchronous, in any thread; Ctrl-C interrupts it.

        Raises:
            UsageError: an event loop runs in this thread.
        """
        self._work.is_used = True
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise UsageError("wait() blocks, and an event loop runs in this thread: write `await` instead")
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # the thread's own loop stays as it is
            return runner.run(self._work.ended())

    @property
    def result(self) -> R_co:
        """The result, once it has ended.

        Raises:
            UsageError: it has not.
            VibeError: it came to that; see ``NotCompleted``.
        """
        return self._work.result

    def steer(self, text: str, step: str = "") -> bool:
        """Tell the agent at work something before its next model call; False: none is. ``step``: that of a plan."""
        check(text=text, step=step)
        return self._work.told(text, step)

    def interrupt(self) -> None:
        """Stop; what was done is kept, and can be gone on with. Whoever waits is told how it ended."""
        self._work.interrupt()


def _piece(event: Event) -> str | None:
    return event.text if isinstance(event, AssistantDeltaEvent) and not event.subagent_id else None


class Stream(Generic[Item]):
    """Iterates a run, which begins with the first item; left before the end, in whatever way, it interrupts the run.

    What the program does not take waits in memory. At the end it raises what an await would.
    """

    def __init__(self, work: RunWork[Any], pick: Callable[[Event], Item | None]) -> None:
        self._work, self._pick = work, pick
        self._leave: Callable[[], object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        if self._leave is None:
            task = self._work.begin(iterated=True)
            self._leave = partial(task.get_loop().call_soon_threadsafe, self._work.interrupt)
        while True:
            for event in self._work.taken():
                item = self._pick(event)
                if item is not None:
                    return item
            if self._work.has_ended:
                _ = self._work.result  # raises what went wrong
                raise StopAsyncIteration
            await self._work.heard()

    async def aclose(self) -> None:
        """Interrupt the run and wait for its end; ``contextlib.aclosing`` calls it."""
        if self._leave is not None:
            await self._work.settled()

    def __del__(self) -> None:
        if self._leave is not None and not self._work.has_ended:
            with suppress(RuntimeError):  # the loop is closed
                self._leave()
