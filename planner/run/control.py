"""PlanControl takes commands to a running plan from other tasks and threads, and reports what became of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import anyio.from_thread
import anyio.lowlevel
from msgspec import Struct, field

from ipc.commands import Cancel, Pause
from planner.state.changes import TOO_LATE
from planner.state.commands import Asked

OnVerdict: TypeAlias = Callable[[str | None], None]
"""Called once, in the run's thread: with None if a command was carried out, else with a sentence that says why not."""


class Request(Struct, eq=False):
    """A command from outside, with the callback that reports its outcome."""

    command: Asked
    _tell: OnVerdict | None = None

    @property
    def is_answered(self) -> bool:
        """True once it was answered, or if nobody waits for an answer."""
        return self._tell is None

    def answer(self, problem: str | None) -> None:
        """Report the outcome to the sender; a second call does nothing."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(problem)


class PlanControl(Struct, eq=False):
    """Takes commands for one run of a plan, from any thread.

    Commands that come before the run are kept until it begins. Those that come after its end are answered as too late.
    """

    requested: bool = False
    """True if steps should stop at the end of their current turn; it stays True for the rest of the run."""
    _open: list[Request] = field(default_factory=list[Request])
    _deliver: Callable[[Request], object] | None = None
    _thread: int = 0
    _loop: anyio.lowlevel.EventLoopToken | None = None
    _is_over: bool = False

    def submit(self, command: Asked, on_verdict: OnVerdict | None = None) -> None:
        """Have the run carry out a command when its turn comes."""
        if isinstance(command, Pause | Cancel):
            self.requested = True
        request = Request(command, on_verdict)
        if self._loop is None or threading.get_ident() == self._thread:
            self._hand_over(request)
        else:
            try:
                anyio.from_thread.run_sync(self._hand_over, request, token=self._loop)
            except anyio.RunFinishedError:
                request.answer(TOO_LATE)  # the loop that ran the plan is gone, and the plan with it

    def attach(self, deliver: Callable[[Request], object]) -> None:
        """Pass every command to ``deliver`` from now on, in the thread of the calling task's event loop."""
        self._thread = threading.get_ident()
        self._loop = anyio.lowlevel.current_token()
        self._deliver = deliver
        for request in tuple(self._open):
            deliver(request)

    def detach(self) -> None:
        """Answer every command from now on, and those not served yet, as too late."""
        self._is_over = True
        for request in self._open:
            request.answer(TOO_LATE)

    def _hand_over(self, request: Request) -> None:
        if self._is_over:
            request.answer(TOO_LATE)
            return
        self._open.append(request)
        if self._deliver is not None:
            self._open = [other for other in self._open if not other.is_answered]
            self._deliver(request)
