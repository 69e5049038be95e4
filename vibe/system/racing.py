"""Runs work that may be abandoned, work that must finish, and code of others that must not end its task."""

from __future__ import annotations

import asyncio  # noqa: TID251  only the task knows whether a cancellation was meant for it
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup

from vibe.system.errors import BrokeOffError, described, innermost

T = TypeVar("T")


@asynccontextmanager
async def bare_task_group() -> AsyncGenerator[TaskGroup]:
    """Run tasks beside the block. The first error, of the block or a task, is raised as it is, not in a group."""
    try:
        async with create_task_group() as group:
            yield group
    except BaseExceptionGroup as errors:
        error = innermost(errors)
        raise error from error.__cause__  # The cause says which resource the system ran out of.


async def unless(happens: Callable[[], Awaitable[object]], work: Callable[[], Awaitable[T]]) -> list[T]:
    """Do some work and return a list of its result, or an empty list if ``happens`` returned first and cancelled it."""
    results: list[T] = []
    async with bare_task_group() as group:

        async def watch() -> None:
            await happens()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        results.append(await work())
        group.cancel_scope.cancel()
    return results


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Await something short. A cancellation takes effect when it is done."""
    with CancelScope(shield=True):
        return await act()
    raise AssertionError("the scope has no deadline")  # Only for the type checker.


def _current_task() -> asyncio.Task[Any] | None:
    with suppress(RuntimeError):  # in a thread without a loop, or after the end of the loop
        return asyncio.current_task()
    return None


@contextmanager
def foreign_code() -> Generator[None]:
    """Run code of others, whose ``sys.exit()`` and the like are failures of that code and end nothing else.

    A cancellation of this task goes on as it is, and so does the closing of its coroutine.

    Raises:
        BrokeOffError: the code raised what is no ``Exception``, or another cancellation.
    """
    task = _current_task()
    try:
        yield
    except BaseException as error:
        is_cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        # A coroutine that is collected may be closed in another task.
        if is_cancelled or isinstance(error, Exception) or task is not _current_task():
            raise
        # A cancellation that is raised again would seem to be that of who gets it.
        cause = None if isinstance(error, asyncio.CancelledError) else error
        raise BrokeOffError(f"it broke off by itself: {described(error)}") from cause
