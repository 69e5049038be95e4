"""Work that is given up once something else happens, and work that comes to its end even if its caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CancelScope, create_task_group

from vibe.system.errors import innermost

T = TypeVar("T")


async def unless(happens: Callable[[], Awaitable[object]], work: Callable[[], Awaitable[T]]) -> list[T]:
    """Do some work and return what it comes to, in a list; empty: ``happens`` returned before, and it was cancelled.

    What the work raises is raised as it is, not as one of a group.
    """
    results: list[T] = []
    try:
        async with create_task_group() as group:

            async def watch() -> None:
                await happens()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            results.append(await work())
            group.cancel_scope.cancel()
    except ExceptionGroup as group_of_one:
        error = innermost(group_of_one)
        raise error from error.__cause__  # which tells what the system had run out of
    return results


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Await something short; a cancellation counts from its end on."""
    with CancelScope(shield=True):
        return await act()
    raise AssertionError("the scope has no deadline")  # for the type checker
