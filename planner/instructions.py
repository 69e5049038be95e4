"""What the scheduler is told and what it tells the dispatcher: plain immutable data, no behaviour."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from planner.dag import Dag
from planner.model import Plan, PlanStatus, StepStatus
from vibe.core.outcome import Outcome

WAIVED_REASON = "waived"
"""Why a step is SKIPPED that failed, or was cut off, and that somebody chose to do without: its dependants run."""


class Unfinished(StrEnum):
    """How an attempt was left that was begun and after which its step is not final."""

    STOPPED = "stopped"
    """At a turn's end: it goes on from there."""
    CUT = "cut"
    """In the middle of something: it goes on, unless its step acts outside the workspace."""
    ASKING = "asking"
    """It failed, and somebody must say what becomes of the step."""
    REVISING = "revising"
    """It failed, and a better plan is looked for."""


class RestoredStep(Struct, frozen=True):
    """How a step stood when the plan was last open.

    A final status is taken over as it is; ``waived``: SKIPPED by choice, so that its dependants run. Anything else
    comes back as PENDING; ``attempt`` is then the attempt to run next (an interrupted attempt goes on under its own
    number), or the one that was left as ``unfinished`` says. ``reason`` tells why one FAILED or was CANCELLED, with
    ``detail`` why one that is ASKING or REVISING failed.
    """

    status: StepStatus
    attempt: int = 1
    unfinished: Unfinished | None = None
    waived: bool = False
    reason: str | None = None
    detail: str = ""


# --- events in ------------------------------------------------------------------------------------------------


class StepEnded(Struct, frozen=True):
    """An attempt that StartStep asked for is over, its processes included.

    COMPLETED, FAILED, BLOCKED and LIMIT end the attempt; INTERRUPTED puts the step back to wait for the rest of it.
    ``provider_refused``: the key, quota or credit was the matter, so no other step would fare better. ``cut``: it was
    cancelled in the middle of something.
    """

    step_id: str
    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    provider_refused: bool = False
    cut: bool = False


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


class PlanReplaced(Struct, frozen=True):
    """The plan was revised: this one holds from now on. Steps that run or are final but for FAILED are in it unchanged.

    ``changed`` names those that are not what they were: what an attempt at one of them had begun is begun anew.
    ``answers``: the step for whose failure AskReviser asked; if the revision leaves it as it is, it has failed.
    """

    plan: Plan
    dag: Dag
    changed: frozenset[str] = frozenset()
    answers: str | None = None


class RevisionRefused(Struct, frozen=True):
    """AskReviser brought nothing that can be carried out: the step has failed. ``detail`` says why there is none."""

    step_id: str
    detail: str = ""


SchedulerEvent: TypeAlias = (
    StepEnded | RetryDue | DecisionTaken | PauseRequested | CancelRequested | PlanReplaced | RevisionRefused
)


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
    """Steps need this decision and nobody has taken it yet; said once per decision.

    Besides the plan's own there is one for each attempt that failed or was cut off, see ``planner.decisions``.
    """

    decision_id: str


class AskReviser(Struct, frozen=True):
    """This attempt failed and a better plan is wanted: hand in PlanReplaced or RevisionRefused."""

    step_id: str
    attempt: int


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


Instruction: TypeAlias = StartStep | MoveStep | WaitForRetry | OpenDecision | AskReviser | CancelStep | EndPlan
