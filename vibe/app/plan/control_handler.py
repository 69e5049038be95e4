"""Wishes that reach a run over its control address: what becomes of them, as a reply to whoever asked."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import assert_never

from ipc.commands import Approve, Cancel, Decide, Pause, Reply, Revise, Wish
from ipc.control import refusal
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.operations import operation_text, read_operations
from planner.run.control import TOO_LATE, PlanControl
from planner.state.commands import Asked
from vibe.app.engine.request_board import RequestBoard

VERDICT_SECONDS = 10.0
"""How long a wish may wait for its turn in the run; askers wait a little longer."""

PAUSING = "pausing: running steps finish their turn first"
NOT_ASKED = "this run asks nobody: what needs approval is denied; --wait has it wait for an answer"
STOPPING = "pausing: running steps are stopped, and continue on resume"


class PlanCommands:
    """Hands wishes to the PlanControl of a plan's run, and answers to its ``board`` (None: nobody is asked).

    Called from the control server's thread.
    """

    def __init__(
        self, control: PlanControl, board: RequestBoard | None = None, *, patience_s: float = VERDICT_SECONDS
    ) -> None:
        self._control = control
        self._board = board
        self._patience_s = patience_s

    def __call__(self, wish: Wish) -> Reply:
        """Carry it out, or say why not."""
        match wish:
            case Pause():
                self._control.submit(wish)
                return Reply(ok=True, message=PAUSING if wish.grace_seconds is None else STOPPING)
            case Cancel():
                self._control.submit(wish)
                return Reply(ok=True, message="cancelling: running steps are stopped now")
            case Decide():
                return self._decide(wish)
            case Revise():
                return self._revise(wish)
            case Approve():
                return refusal("refused", NOT_ASKED) if self._board is None else self._board.answer(wish)
            case _:
                assert_never(wish)

    def _decide(self, wish: Decide) -> Reply:
        chosen = ", ".join(wish.selections)
        done = Reply(
            ok=True,
            message=f"decision {wish.decision_id!r} taken: {chosen}",
            data={"decision_id": wish.decision_id, "selections": list(wish.selections)},
        )
        return self._verdict(done, wish)

    def _revise(self, wish: Revise) -> Reply:
        try:
            operations = read_operations(list(wish.operations))
        except PlanInvalidError as error:
            return refusal("refused", str(error))
        done = Reply(
            ok=True, message="the plan was changed", data={"operations": [operation_text(op) for op in operations]}
        )
        return self._verdict(done, wish)

    def _verdict(self, done: Reply, wish: Asked) -> Reply:
        """Wait for what the run says."""
        verdicts: SimpleQueue[str | None] = SimpleQueue()
        self._control.submit(wish, verdicts.put)
        try:
            problem = verdicts.get(timeout=self._patience_s)
        except Empty:
            return refusal("late", f"the run has said nothing for {self._patience_s:g} s: look whether it does it yet")
        if problem is None:
            return done
        return refusal("ended" if problem == TOO_LATE else "refused", problem)
