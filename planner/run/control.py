"""PlanControl: how other tasks pause, cancel, decide, revise and act on single steps while a plan runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import anyio.from_thread
import anyio.lowlevel
from msgspec import Struct

from ipc.commands import Cancel, Pause
from planner.state.changes import TOO_LATE
from planner.state.commands import Asked

OnVerdict: TypeAlias = Callable[[str | None], None]
"""Told once, in the run's thread: None if a command was carried out, else one sentence that says why not."""


class Request(Struct, eq=False):
    """A command from outside, and whom to tell what becomes of it."""

    command: Asked
    _tell: OnVerdict | None = None

    @property
    def is_answered(self) -> bool:
        """True once the sender is gone."""
        return self._tell is None

    def answer(self, problem: str | None) -> None:
        """Tell the sender; a second time nothing happens."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(problem)


class PlanControl:
    """Takes commands for one run of a plan, from any thread.

    What is asked before the run begins is kept until then; what is asked after its end is ignored, or answered so.
    """

    def __init__(self) -> None:
        self.requested = False
        """True if steps are to stop at the end of the current turn; it can't be taken back within a run."""
        self._early: deque[Request] | None = deque()
        self._deliver: Callable[[Request], object] | None = None
        self._served: list[Request] = []
        self._thread = 0
        self._loop: anyio.lowlevel.EventLoopToken | None = None

    def submit(self, command: Asked, on_verdict: OnVerdict | None = None) -> None:
        """Have the run carry a command out, when its turn comes."""
        if isinstance(command, Pause | Cancel):
            self.requested = True
        request = Request(command, on_verdict)
        if self._early is not None:
            self._early.append(request)
        elif self._loop is None:  # it was over before it began
            request.answer(TOO_LATE)
        elif threading.get_ident() == self._thread:
            self._hand_over(request)
        else:
            try:
                anyio.from_thread.run_sync(self._hand_over, request, token=self._loop)
            except anyio.RunFinishedError:
                request.answer(TOO_LATE)  # the loop that ran the plan is gone, and the plan with it

    def attach(self, deliver: Callable[[Request], object]) -> None:
        """Hand every command to ``deliver`` from now on, in the thread of the calling task's event loop."""
        self._thread = threading.get_ident()
        self._loop = anyio.lowlevel.current_token()
        self._deliver = deliver
        early, self._early = self._early, None
        for request in early or ():
            self._hand_over(request)

    def detach(self) -> None:
        """Ignore every command from now on; those that were not served are answered so."""
        self._deliver = None
        early, self._early = self._early, None
        served, self._served = self._served, []
        for request in (*(early or ()), *served):
            request.answer(TOO_LATE)

    def _hand_over(self, request: Request) -> None:
        if self._deliver is None:
            request.answer(TOO_LATE)
            return
        if not request.is_answered:
            self._served = [*(other for other in self._served if not other.is_answered), request]
        self._deliver(request)
