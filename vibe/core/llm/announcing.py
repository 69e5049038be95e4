"""CallAnnouncer: says on the event stream that a model call is about to be repeated, or waits for its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipc.events import WarningEvent
from ipc.sink import EventSink

if TYPE_CHECKING:
    from vibe.core.llm.port import Delta, RetryNotice, WaitNotice

WAIT = "model.wait"
"""The code of the warning that a model call waits for its turn; with its agent's next event it waits no longer."""
WAITED = "model.waited"
"""The code of the warning that it has its turn."""


class CallAnnouncer:
    """A ``ModelObserver`` that keeps the answer to itself and makes every retry and every long wait known."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink

    def delta(self, delta: Delta) -> None:
        """Nobody watches this answer grow."""

    def retry(self, notice: RetryNotice) -> None:
        """Say when the next attempt is made, and how to stop it."""
        self._sink.publish(
            WarningEvent(
                code="model.retry",
                message=(
                    f"model call: retrying in {notice.wait_seconds:.1f} s (attempt {notice.attempt + 1}; Ctrl-C "
                    f"stops): "
                    f"{notice.reason}"
                ),
                wait_seconds=notice.wait_seconds,
            )
        )

    def wait(self, notice: WaitNotice) -> None:
        """Say that it waits, or how long it has waited."""
        if notice.waited_seconds is None:
            code = WAIT
            message = (
                f"a model call waits for its turn at provider {notice.provider!r}: max_concurrency calls are under "
                f"way, or it "
                "asked for a pause"
            )
        else:
            code = WAITED
            message = f"a model call had its turn after {notice.waited_seconds:.1f} s"
        self._sink.publish(WarningEvent(code=code, message=message))
