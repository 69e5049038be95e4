"""ChatControl: commands from outside to a run that answers a prompt; it can be cancelled."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.lowlevel

from ipc.commands import Cancel, Reply, Wish, tag_of
from ipc.control import refusal


class ChatControl:
    """Called from the control server's thread; a command that comes before the prompt's turn counts from then on."""

    def __init__(self) -> None:
        self.cancelled = False
        self._cancel: Callable[[], None] | None = None
        self._loop: anyio.lowlevel.EventLoopToken | None = None

    def __call__(self, command: Wish) -> Reply:
        """Carry out the command, or refuse it."""
        if not isinstance(command, Cancel):
            return refusal("refused", f"this run answers a prompt: it can be cancelled, but not {tag_of(command)}")
        self.cancelled = True
        if self._cancel is not None:
            try:
                anyio.from_thread.run_sync(self._cancel, token=self._loop)
            except anyio.RunFinishedError:
                return refusal("ended", "the run is over: nothing was changed")
        return Reply(ok=True, message="cancelling: the agent is stopped now")

    def serve(self, cancel: Callable[[], None]) -> None:
        """Have ``cancel`` called on this loop when a cancellation comes; at once if one has come."""
        self._loop = anyio.lowlevel.current_token()
        self._cancel = cancel
        if self.cancelled:
            cancel()
