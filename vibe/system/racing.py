"""Work that is given up once something else happens, and work that comes to its end even if its caller is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CancelScope, create_task_group

T = TypeVar("T")


async def unless(happens: Callable[[], Awaitable[object]], work: Callable[[], Awaitable[T]]) -> list[T]:
    """Do some work and return what it comes to, in a list; empty: ``happens`` returned before, and it was cancelled.

    What the work raises is raised as it is, not as one of a group.
    """
    results: list[T] = []
    failure: Exception | None = None
    async with create_task_group() as group:

        async def watch() -> None:
            await happens()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            results.append(await work())
        except Exception as error:  # noqa: BLE001  raised below, where the group can't wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return results


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Await something short; a cancellation counts from its end on."""
    with CancelScope(shield=True):
        return await act()
    raise AssertionError("the scope has no deadline")  # for the type checker
