"""What the scheduler is told and what it tells the dispatcher: plain immutable data, no behaviour."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from planner.model import PlanStatus, StepStatus
from vibe.core.outcome import Outcome


class RestoredStep(Struct, frozen=True):
    """How a step stood when the plan was last open.

    A final status is taken over as it is. Anything else comes back as PENDING; ``attempt`` is then the attempt to run
    next (an interrupted attempt goes on under its own number).
    """

    status: StepStatus
    attempt: int = 1


# --- events in ------------------------------------------------------------------------------------------------


class StepEnded(Struct, frozen=True):
    """An attempt that StartStep asked for is over, its processes included.

    COMPLETED, FAILED, BLOCKED and LIMIT end the attempt; INTERRUPTED puts the step back to wait for the rest of it.
    ``provider_refused``: the key, quota or credit was the matter, so no other step would fare better.
    """

    step_id: str
    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    provider_refused: bool = False


class RetryDue(Struct, frozen=True):
    """The wait that WaitForRetry asked for is over."""

    step_id: str


class DecisionTaken(Struct, frozen=True):
    """A decision fell. ``by``: ``user``, ``flag``, ``default`` or ``timeout``. A second answer changes nothing."""

    decision_id: str
    selections: tuple[str, ...]
    by: str


class PauseRequested(Struct, frozen=True):
    """Start nothing more; running steps end or come back INTERRUPTED."""

    reason: str


class CancelRequested(Struct, frozen=True):
    """Cancel what runs and give up what is open."""

    reason: str


SchedulerEvent: TypeAlias = StepEnded | RetryDue | DecisionTaken | PauseRequested | CancelRequested


# --- instructions out -----------------------------------------------------------------------------------------


class StartStep(Struct, frozen=True):
    """Run this attempt; its MoveStep to IN_PROGRESS came just before."""

    step_id: str
    attempt: int


class MoveStep(Struct, frozen=True):
    """A step changed status: write it to the journal and announce it.

    ``attempt`` is the attempt that runs, has ended or, for a step that is not running, comes next: restoring needs
    only the last one recorded.
    """

    step_id: str
    previous: StepStatus
    status: StepStatus
    reason: str | None
    detail: str
    attempt: int


class WaitForRetry(Struct, frozen=True):
    """Hand in RetryDue after so many seconds; ``attempt`` is the one that will then run."""

    step_id: str
    attempt: int
    delay_seconds: float


class OpenDecision(Struct, frozen=True):
    """Steps need this decision and nobody has taken it yet; said once per decision."""

    decision_id: str


class CancelStep(Struct, frozen=True):
    """Cancel the running attempt; StepEnded must still follow."""

    step_id: str


class EndPlan(Struct, frozen=True):
    """Nothing runs any more: COMPLETED, FAILED, PAUSED or CANCELLED. The last instruction, exactly once.

    ``reason`` is None if completed; ``decision`` or the request's own if paused; the cancel request's own if
    cancelled; the reason of the first step that failed, or ``stalled`` (a defect of the scheduler), if failed.
    Retry timers that are still running mean nothing after it.
    """

    status: PlanStatus
    reason: str | None


Instruction: TypeAlias = StartStep | MoveStep | WaitForRetry | OpenDecision | CancelStep | EndPlan
