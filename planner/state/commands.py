"""The commands to a plan, the effects they ask for, and ``Decided``, which holds what follows from a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from ipc.commands import Act, Cancel, Decide, Pause, Revise, Steer
from ipc.events import Fact, PlanExpectation
from planner.plan.loader import LoadedPlan
from planner.state.schedule import Schedule
from planner.state.state import State
from subagents.step_result import StepResult
from vibe.core.messages import Outcome

# --- commands (those that other processes send are in ipc.commands) -------------------------------------------------


class Start(Struct, frozen=True, kw_only=True):
    """A process begins or resumes the plan. ``width``, ``fail_fast`` and ``attended`` are described at ``Schedule``."""

    loaded: LoadedPlan
    width: int
    fail_fast: bool = False
    attended: bool = False
    decisions: Mapping[str, tuple[str, ...]] = {}
    """The decisions taken by flags."""
    note: str = ""
    reused_from: str | None = None
    expected: PlanExpectation | None = None
    """The time, tokens and money that a new plan is expected to take."""
    pid: int = 0
    version: str = ""
    workspace: str = ""


class MarkBlocked(Struct, frozen=True):
    """Mark some of the steps that wait for dependencies as blocked."""


class AttemptEnded(Struct, frozen=True, kw_only=True):
    """An attempt is over, and its processes have ended. ``raw`` is its result as JSON.

    ``cut`` says that it was cancelled in the middle of a turn.
    """

    step_id: str
    result: StepResult
    raw: Raw
    cut: bool = False


class AttemptSaved(Struct, frozen=True):
    """The result of an attempt, or the results that KeepItems asked to keep, are on disk."""

    step_id: str


class RetryDue(Struct, frozen=True):
    """The wait that WaitForRetry asked for is over."""

    step_id: str


class DecisionTimedOut(Struct, frozen=True):
    """The time that WaitForAnswer allowed is over."""

    decision_id: str


class Unfold(Struct, frozen=True, kw_only=True):
    """The list that ReadItems asked for was read and is on disk; ``items`` may turn out not to be a list.

    ``taken`` holds, by item key, the results that the earlier plan ``reused_from`` reached for the same items.
    """

    step_id: str
    items: object
    taken: Mapping[str, StepResult] = {}
    reused_from: str = ""


class BudgetSpent(Struct, frozen=True):
    """The plan's time is used up: its running steps are interrupted and it fails."""


class Revised(Struct, frozen=True, kw_only=True):
    """A revision passed its checks: ``loaded`` is the plan after it, ``step_id`` the step whose failure led to it."""

    asked: Revise
    loaded: LoadedPlan
    step_id: str | None = None


class RevisionRefused(Struct, frozen=True):
    """AskReviser brought no better plan, so the step fails. ``detail`` says why."""

    step_id: str
    detail: str = ""


class ReviserRefused(Struct, frozen=True):
    """The provider refused the reviser's calls, because of the key, the quota or the credit."""

    outcome: Outcome


class Retry(Struct, frozen=True):
    """Redo a step of a plan at rest from the start, and all that depend on it. ``asked`` may have a message for it."""

    asked: Act


class Tell(Struct, frozen=True):
    """Record a person's message to a step's agent; ``heard`` says that the running attempt will read it."""

    asked: Steer
    heard: bool = False


Asked: TypeAlias = Pause | Cancel | Decide | Revise | Act | Steer
"""Commands to a running plan from outside."""

Command: TypeAlias = (
    Asked
    | Retry
    | Tell
    | Start
    | MarkBlocked
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
    """Run this attempt, then hand in AttemptEnded."""

    step_id: str
    attempt: int


class CancelAttempt(Struct, frozen=True):
    """Cancel the running attempt, then hand in AttemptEnded as usual."""

    step_id: str
    detail: str = "the plan was cancelled"


class InterruptAll(Struct, frozen=True):
    """Interrupt all running attempts after so many seconds, then hand in AttemptEnded for each as usual."""

    reason: str
    seconds: float = 0.0


class WaitForRetry(Struct, frozen=True):
    """Hand in RetryDue after so many seconds; ``attempt`` is the number of the attempt that then runs."""

    step_id: str
    attempt: int
    seconds: float


class WaitForAnswer(Struct, frozen=True):
    """Hand in DecisionTimedOut after so many seconds; it is ignored if the decision was taken by then."""

    decision_id: str
    seconds: float


class ReadItems(Struct, frozen=True):
    """Read the list of a step and hand in Unfold; the effect is repeated until that is done."""

    step_id: str


class KeepItems(Struct, frozen=True):
    """Keep the results of a list's items, which have all ended, and hand in AttemptSaved; repeated like ReadItems."""

    step_id: str


class AskReviser(Struct, frozen=True):
    """Ask for a better plan after a failed attempt, then hand in Revised, RevisionRefused or ReviserRefused."""

    step_id: str


class StopReviser(Struct, frozen=True):
    """Stop looking for a better plan, because the step was cancelled or skipped."""

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
    """The outcome of a command: facts to record, and effects to carry out once they are recorded.

    ``schedule``, if given, makes a new schedule from the state after these facts.
    """

    facts: Sequence[Fact] = ()
    effects: Sequence[Effect] = ()
    schedule: Callable[[State], Schedule] | None = None


NOTHING: Final = Decided()
