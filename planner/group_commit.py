"""GroupCommit: callers that want the same slow work done share it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread


class GroupCommit:
    """Does ``work`` in a worker thread, once for all who asked before it began; never twice side by side."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._asked = 0
        self._done = 0
        self._ended: anyio.Event | None = None

    async def join(self) -> None:
        """Return once the work has been done from its beginning after this call.

        What the work raises goes to the caller who had it done; the others have it done again.
        """
        self._asked += 1
        target = self._asked
        while self._done < target:
            if self._ended is None:
                await self._do()
            else:
                await self._ended.wait()

    async def _do(self) -> None:
        reached = self._asked
        ended = self._ended = anyio.Event()
        try:
            await to_thread.run_sync(self._work)
            self._done = reached
        finally:
            self._ended = None
            ended.set()
