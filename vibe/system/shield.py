"""Awaiting work that must come to its end even if the caller is cancelled meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import CancelScope

T = TypeVar("T")


async def shielded(act: Callable[[], Awaitable[T]]) -> T:
    """Await something short; a cancellation counts from its end on."""
    with CancelScope(shield=True):
        return await act()
    raise AssertionError("the scope has no deadline")  # for the type checker
