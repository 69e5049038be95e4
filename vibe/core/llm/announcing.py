"""RetryAnnouncer: says on the event stream that a model call is about to be repeated."""

from __future__ import annotations

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.llm.port import Delta, RetryNotice


class RetryAnnouncer:
    """A ``ModelObserver`` that keeps the answer to itself and makes every retry known."""

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
                    f"attempt {notice.attempt + 1} of a model call follows in {notice.wait_seconds:.1f} s "
                    f"(Ctrl-C stops): {notice.reason}"
                ),
            )
        )
