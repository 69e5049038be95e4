"""Runs work that is abandoned once something else happens, and work that finishes even if its caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CancelScope, create_task_group

from vibe.system.errors import innermost

T = TypeVar("T")


async def unless(happens: Callable[[], Awaitable[object]], work: Callable[[], Awaitable[T]]) -> list[T]:
    """Do some work and return a list of its result, or an empty list if ``happens`` returned first and cancelled it.

    An error of the work is raised as it is, not as a member of a group.
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
        raise error from error.__cause__  # The cause says which resource the system ran out of.
    return results


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Await something short. A cancellation takes effect when it is done."""
    with CancelScope(shield=True):
        return await act()
    raise AssertionError("the scope has no deadline")  # Only for the type checker.
