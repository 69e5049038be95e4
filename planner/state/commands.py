"""Commands to a plan, and the effects they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from ipc.commands import Act, Cancel, Decide, Pause, Revise, Steer
from ipc.events import Fact, PlanExpectation
from planner.plan.loader import LoadedPlan
from planner.state.schedule import Schedule
from planner.state.state import State
from subagents.step_result import StepResult
from vibe.core.messages import Outcome

# --- commands: those from outside are in ipc.commands ---------------------------------------------------------------


class Start(Struct, frozen=True, kw_only=True):
    """A process takes the plan up, for the first time or again. Schedule as in ``planner.state.schedule``."""

    loaded: LoadedPlan
    width: int
    fail_fast: bool = False
    attended: bool = False
    decisions: Mapping[str, tuple[str, ...]] = {}
    """Taken by flags."""
    note: str = ""
    reused_from: str | None = None
    expected: PlanExpectation | None = None
    """Of a plan that is new."""
    pid: int = 0
    version: str = ""
    workspace: str = ""


class SortSteps(Struct, frozen=True):
    """Say of some of those steps that must wait for others that they do."""


class AttemptEnded(Struct, frozen=True, kw_only=True):
    """An attempt is over, its processes included. ``raw`` is its result as JSON.

    ``cut``: it was cancelled in the middle. ``left``: the tokens and the USD of the plan's account that are free.
    """

    step_id: str
    result: StepResult
    raw: Raw
    cut: bool = False
    left: tuple[float, float] = (inf, inf)


class AttemptSaved(Struct, frozen=True):
    """The result of an attempt, or what KeepItems asked for, is on disk."""

    step_id: str


class RetryDue(Struct, frozen=True):
    """The wait that WaitForRetry asked for is over."""

    step_id: str


class DecisionTimedOut(Struct, frozen=True):
    """The time that WaitForAnswer named is over."""

    decision_id: str


class Unfold(Struct, frozen=True, kw_only=True):
    """The list was read that ReadItems asked for, and is on disk; it may be none. ``taken``: results, by key.

    They are those of steps that an earlier plan, ``reused_from``, made for the same items.
    """

    step_id: str
    items: object
    taken: Mapping[str, StepResult] = {}
    reused_from: str = ""


class BudgetSpent(Struct, frozen=True):
    """The plan's time is used up: it fails, and what runs is interrupted."""

    reason: str


class Revised(Struct, frozen=True, kw_only=True):
    """A revision was found sound: ``loaded`` is the plan after it. ``step_id``: whose failure led to it."""

    asked: Revise
    loaded: LoadedPlan
    step_id: str | None = None


class RevisionRefused(Struct, frozen=True):
    """AskReviser led to no better plan: the step has failed. ``detail`` says why."""

    step_id: str
    detail: str = ""


class ReviserRefused(Struct, frozen=True):
    """The provider refused the reviser: the key, quota or credit is the matter."""

    outcome: Outcome


class Retry(Struct, frozen=True):
    """Have these steps done again, with whatever depends on them. ``asked`` has words for the agent of one."""

    step_ids: Sequence[str]
    asked: Act | None = None


class Tell(Struct, frozen=True):
    """Record what a person says to a step's agent; ``heard``: it reads that in the attempt that runs."""

    asked: Steer
    heard: bool = False


Asked: TypeAlias = Pause | Cancel | Decide | Revise | Act | Steer
"""Commands to a running plan from outside."""

Command: TypeAlias = (
    Asked
    | Retry
    | Tell
    | Start
    | SortSteps
    | AttemptEnded
    | AttemptSaved
    | RetryDue
    | Unfold
    | DecisionTimedOut
    | BudgetSpent
    | Revised
    | RevisionRefused
    | ReviserRefused
)

# --- effects --------------------------------------------------------------------------------------------------------


class StartAttempt(Struct, frozen=True):
    """Run this attempt; AttemptEnded must follow."""

    step_id: str
    attempt: int


class CancelAttempt(Struct, frozen=True):
    """Cancel the running attempt; AttemptEnded must still follow."""

    step_id: str
    detail: str = "the plan was cancelled"


class InterruptAll(Struct, frozen=True):
    """End the attempts that run in so many seconds, for now; AttemptEnded must still follow."""

    reason: str
    seconds: float = 0.0


class WaitForRetry(Struct, frozen=True):
    """Hand in RetryDue after so many seconds; ``attempt`` is the one that will then run."""

    step_id: str
    attempt: int
    seconds: float


class WaitForAnswer(Struct, frozen=True):
    """Hand in DecisionTimedOut after so many seconds; it means nothing once the decision was taken."""

    decision_id: str
    seconds: float


class ReadItems(Struct, frozen=True):
    """Read the list of a step and hand in Unfold; asked again until that is done."""

    step_id: str


class KeepItems(Struct, frozen=True):
    """The steps for a list's items have ended: keep what they came to and hand in AttemptSaved; asked as ReadItems."""

    step_id: str


class AskReviser(Struct, frozen=True):
    """An attempt failed and a better plan is wanted: hand in Revised, RevisionRefused or ReviserRefused."""

    step_id: str


class StopReviser(Struct, frozen=True):
    """A better plan is no longer wanted: the step was cancelled or skipped."""

    step_id: str


Effect: TypeAlias = (
    StartAttempt
    | CancelAttempt
    | InterruptAll
    | WaitForRetry
    | WaitForAnswer
    | ReadItems
    | KeepItems
    | AskReviser
    | StopReviser
)


class Decided(Struct, frozen=True):
    """Outcome of a command: facts to record, and effects to carry out once they are.

    ``schedule``: makes the state's schedule of the state as the facts leave it.
    """

    facts: Sequence[Fact] = ()
    effects: Sequence[Effect] = ()
    schedule: Callable[[State], Schedule] | None = None


NOTHING: Final = Decided()
