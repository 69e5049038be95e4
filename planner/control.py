"""PlanControl: how other tasks pause, cancel, decide and revise while a plan runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio.from_thread
import anyio.lowlevel

from planner.instructions import CancelRequested, DecisionTaken
from planner.operations import Operation

TOO_LATE = "the run is over: nothing was changed"

OnVerdict: TypeAlias = Callable[[str | None], None]
"""Told once, in the run's thread: None if a wish was carried out, else one sentence that says why not."""


class Verdict:
    """What became of a wish, told to whoever asked for it."""

    __slots__ = ("_tell",)

    def __init__(self, tell: OnVerdict | None = None) -> None:
        self._tell = tell

    @property
    def is_given(self) -> bool:
        """Whether there is nobody left to tell."""
        return self._tell is None

    def give(self, problem: str | None) -> None:
        """Tell it; a second time nothing happens."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(problem)


@dataclass(frozen=True, slots=True)
class PauseWish:
    """Pause, and take running steps back (they go on later) when ``grace_seconds`` are over; None: never."""

    reason: str
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DecisionWish:
    """Take a decision."""

    taken: DecisionTaken
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RevisionWish:
    """Change the plan."""

    operations: tuple[Operation, ...]
    by: str
    reason: str
    verdict: Verdict


Request: TypeAlias = PauseWish | CancelRequested | DecisionWish | RevisionWish


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

    What is asked before the run begins is kept until then; what is asked after its end is ignored, or answered so.
    """

    def __init__(self) -> None:
        self.stop = PlanStop()
        self._early: deque[Request] | None = deque()
        self._deliver: Callable[[Request], None] | None = None
        self._verdicts: list[Verdict] = []
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

    def decide(
        self,
        decision_id: str,
        selections: Sequence[str],
        by: str = "user",
        *,
        on_verdict: OnVerdict | None = None,
    ) -> None:
        """Take a decision. One that is unknown, taken already or not among the options changes nothing.

        ``on_verdict`` is told so; without it a warning is announced.
        """
        self._submit(DecisionWish(DecisionTaken(decision_id, tuple(selections), by), Verdict(on_verdict)))

    def revise(
        self,
        operations: Sequence[Operation],
        by: str = "user",
        *,
        reason: str = "",
        on_verdict: OnVerdict | None = None,
    ) -> None:
        """Change the plan, all of the operations or none; ``on_verdict`` as for ``decide``."""
        self._submit(RevisionWish(tuple(operations), by, reason, Verdict(on_verdict)))

    def attach(self, deliver: Callable[[Request], None]) -> None:
        """Hand every wish to ``deliver`` from now on, in the thread of the calling task's event loop."""
        self._thread = threading.get_ident()
        self._loop = anyio.lowlevel.current_token()
        self._deliver = deliver
        early, self._early = self._early, None
        for request in early or ():
            self._hand_over(request)

    def detach(self) -> None:
        """Ignore every wish from now on; those that were not served are answered so."""
        self._deliver = None
        early, self._early = self._early, None
        for request in early or ():
            _refuse(request)
        verdicts, self._verdicts = self._verdicts, []
        for verdict in verdicts:
            verdict.give(TOO_LATE)

    def _submit(self, request: Request) -> None:
        if self._early is not None:
            self._early.append(request)
        elif threading.get_ident() == self._thread:
            self._hand_over(request)
        else:
            try:
                anyio.from_thread.run_sync(self._hand_over, request, token=self._loop)
            except anyio.RunFinishedError:
                _refuse(request)  # the loop that ran the plan is gone, and the plan with it

    def _hand_over(self, request: Request) -> None:
        if self._deliver is None:
            _refuse(request)
            return
        if isinstance(request, DecisionWish | RevisionWish) and not request.verdict.is_given:
            self._verdicts = [verdict for verdict in self._verdicts if not verdict.is_given]
            self._verdicts.append(request.verdict)
        self._deliver(request)


def _refuse(request: Request) -> None:
    if isinstance(request, DecisionWish | RevisionWish):
        request.verdict.give(TOO_LATE)
