"""PlanControl: how other tasks pause, cancel and decide while a plan runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio.from_thread
import anyio.lowlevel

from planner.instructions import CancelRequested, DecisionTaken


@dataclass(frozen=True, slots=True)
class PauseWish:
    """Pause, and take running steps back (they go on later) when ``grace_seconds`` are over; None: never."""

    reason: str
    grace_seconds: float | None = None


Request: TypeAlias = PauseWish | CancelRequested | DecisionTaken


class PlanStop:
    """The stop signal that running steps look at between turns."""

    __slots__ = ("_requested",)

    def __init__(self) -> None:
        self._requested = False

    @property
    def requested(self) -> bool:
        """Whether to stop at the end of the current turn."""
        return self._requested

    def set(self) -> None:
        """Ask every running step to stop; it cannot be taken back within a run."""
        self._requested = True


class PlanControl:
    """Takes wishes for one run of a plan, from any thread.

    What is asked before the run begins is kept until then; what is asked after its end is ignored.
    """

    def __init__(self) -> None:
        self.stop = PlanStop()
        self._early: deque[Request] | None = deque()
        self._deliver: Callable[[Request], None] | None = None
        self._thread = 0
        self._loop: anyio.lowlevel.EventLoopToken | None = None

    def request_pause(self, reason: str = "user", *, grace_seconds: float | None = None) -> None:
        """Start nothing more; running steps stop at the end of their turn, at the latest after ``grace_seconds``.

        Asked again it can only shorten the grace: 0 stops them now. Either way they go on when the plan is resumed.
        """
        self.stop.set()
        self._submit(PauseWish(reason, grace_seconds))

    def request_cancel(self, reason: str = "user") -> None:
        """Cancel what runs, at once, and give up what is open."""
        self.stop.set()
        self._submit(CancelRequested(reason))

    def decide(self, decision_id: str, selections: Sequence[str], by: str = "user") -> None:
        """Take a decision. One that is unknown, taken already or not among the options is answered by a warning."""
        self._submit(DecisionTaken(decision_id, tuple(selections), by))

    def attach(self, deliver: Callable[[Request], None]) -> None:
        """Hand every wish to ``deliver`` from now on, in the thread of the calling task's event loop."""
        self._thread = threading.get_ident()
        self._loop = anyio.lowlevel.current_token()
        self._deliver = deliver
        early, self._early = self._early, None
        for request in early or ():
            deliver(request)

    def detach(self) -> None:
        """Ignore every wish from now on."""
        self._deliver = None

    def _submit(self, request: Request) -> None:
        if self._early is not None:
            self._early.append(request)
        elif threading.get_ident() == self._thread:
            self._hand_over(request)
        else:
            try:
                anyio.from_thread.run_sync(self._hand_over, request, token=self._loop)
            except anyio.RunFinishedError:
                return  # the loop that ran the plan is gone, and the plan with it

    def _hand_over(self, request: Request) -> None:
        if self._deliver is not None:
            self._deliver(request)
