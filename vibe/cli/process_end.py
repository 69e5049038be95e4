"""ProcessEnd: the end of a process that serves others over its standard streams, in time even if something is not."""

from __future__ import annotations

import atexit
import os
import threading

LAST_SECONDS = 0.7
"""The time work has to end once nobody waits for it; what watches over its processes kills them with ours then."""


class ProcessEnd:
    """The end of the process, if it ``is_ours``: at once when all is done, and in time even if something is not."""

    def __init__(self, *, is_ours: bool) -> None:
        self.code = 0
        self._is_ours = is_ours
        if is_ours:
            atexit.register(self._leave)  # after all that is registered later; taking objects apart takes long

    def is_near(self, code: int) -> None:
        """Say that nobody waits any more for what is still at work."""
        self.code = code
        if self._is_ours:
            late = threading.Timer(LAST_SECONDS, self._leave)
            late.daemon = True
            late.start()

    def _leave(self) -> None:
        os._exit(self.code)
