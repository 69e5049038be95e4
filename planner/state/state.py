"""The state of a plan and of each of its steps: the data that ``evolve`` builds up from recorded facts."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from ipc import events as e
from planner.plan.status import FINAL_STATUSES as FINAL, PlanStatus, StepStatus
from subagents.step_result import StepResult
from vibe.core.messages import Outcome, Spent

AttemptKey: TypeAlias = tuple[str, int]
"""A step's id and the number of the attempt."""


WAIVED_REASON = "waived"
"""Reason of a SKIPPED step that the user gave up after it failed or was cut off; its dependants still run."""
REUSED_REASON = "reused"
"""Reason of a COMPLETED step whose result comes from an earlier plan."""
ONLY_REASON = "only"
"""Reason of a SKIPPED step that ``--only`` excluded from the run."""
CUT = "cut"
"""The end of a span whose process died."""
BUDGET_REASON = "budget"
"""Reason of steps and plans whose tokens, money or time are used up."""
OWN_LIMITS = frozenset({BUDGET_REASON, "turns"})
"""Reasons of attempts that used up their own tokens or turns."""
END_STATUS = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
}
_NO_RESULT = StepResult(outcome=Outcome.INTERRUPTED)
SPOILING = frozenset({StepStatus.FAILED, StepStatus.CANCELLED})
"""The statuses of steps that keep the plan from completing, unless they are tolerated."""
COMPLETED: Final = StepStatus.COMPLETED
IN_PROGRESS: Final = StepStatus.IN_PROGRESS
PENDING: Final = StepStatus.PENDING
ACTIVE: Final = PlanStatus.ACTIVE
WORDS: Final = {status: status.value for status in StepStatus}
"""The value of each status. Like the constants above, it saves enum look-ups, which are slow in Python 3.11."""


class Left(StrEnum):
    """The way an attempt was left that did not make its step final."""

    STOPPED = "stopped"
    """It stopped at the end of a turn and goes on from there."""
    CUT = "cut"
    """It was cut off in the middle of a turn; it goes on by itself unless its step acts outside the workspace."""
    ASKING = "asking"
    """It failed, and a decision about the step is open."""
    REVISING = "revising"
    """It failed, and a planner is looking for a better plan."""
    RETRYING = "retrying"
    """It failed, and another attempt follows after a wait."""


LEFT_FAILED = frozenset({Left.ASKING, Left.REVISING})
"""The last attempt failed, and its failure stands until the decision or the revision about the step comes."""


class Span(Struct, frozen=True, gc=False):
    """A stretch of time in which an attempt ran, in seconds of the plan's own clock.

    ``ended`` is an outcome, a status or ``cut``.
    """

    start: float
    end: float
    attempt: int
    ended: str


class AttemptState(Struct, frozen=True, gc=False):
    """An attempt that has ended. ``seconds`` adds up its parts if it was interrupted; ``ended_at``: unix seconds."""

    number: int
    result: StepResult
    seconds: float
    ended_at: float


class StepState(Struct, kw_only=True):
    """The state of a step."""

    outline: e.StepOutline
    status: StepStatus = StepStatus.PENDING
    attempt: int = 1
    """The attempt that is running, that ended the step or, for an open step that is not running, comes next."""
    begun: int = 0
    """The number of the last attempt that was begun."""
    left: Left | None = None
    attempt_over: bool = False
    """True from the end of an attempt until the fact that says what becomes of the step."""
    asked: str | None = None
    """The id of the open decision about its last attempt."""
    reason: str | None = None
    detail: str = ""
    result: StepResult | None = None
    """The result of the last attempt."""
    tolerated: bool = False
    """True if the plan goes on as if the step had completed, should it be FAILED or CANCELLED."""
    waived: bool = False
    """True if it is SKIPPED because the user gave it up."""
    stopping: e.PlanActEvent | None = None
    """The request to cancel or skip it, until its attempt has ended."""
    reused_from: str | None = None
    """The id of the earlier plan whose result it took over."""
    told: tuple[e.PlanToldEvent, ...] = ()
    """Messages from people to its agent since the step last completed."""
    any_model: bool = False
    """True if any model would have ended its last attempt like that; see ``WorkDone``."""
    exhausted: int = 0
    """The number of attempts that used up their own tokens or turns."""
    attempts: tuple[AttemptState, ...] = ()
    """The attempts that have ended, each with its latest result."""
    spans: tuple[Span, ...] = ()

    @property
    def id(self) -> str:
        """The step's id."""
        return self.outline.id

    @property
    def pattern(self) -> str:
        """The step whose list it does an item of; blank if it does none."""
        return self.outline.order.pattern if self.outline.order else ""

    @property
    def last_result(self) -> StepResult:
        """The result of the last attempt, or an empty one if there is none."""
        return self.result or _NO_RESULT

    @property
    def summary(self) -> str:
        """The summary of the last attempt."""
        return self.last_result.summary

    @property
    def output(self) -> Any:
        """The value that the last attempt handed in, or None."""
        return self.last_result.output

    @property
    def spoils(self) -> bool:
        """True if this step keeps the plan from completing."""
        return self.status in SPOILING and not self.tolerated


class Unfolding(Struct, frozen=True):
    """The steps made for the items of a list, and how many revisions the plan had had by then."""

    fact: e.PlanUnfoldedEvent
    revisions: int


class RemovedStep(Struct, frozen=True):
    """A step that a revision removed, in its last state. ``by`` revised the plan at ``at``, in unix seconds."""

    step: StepState
    by: str
    at: float

    @property
    def id(self) -> str:
        """The step's id."""
        return self.step.id

    @property
    def status(self) -> StepStatus:
        """The step's status; FAILED if its last attempt failed and nothing was decided about it."""
        return StepStatus.FAILED if self.step.left in LEFT_FAILED else self.step.status


class StepIndex(Protocol):
    """Follows the steps of a state; implemented by ``planner.state.schedule.Schedule``."""

    def moved(self, state: State, step_id: str, previous: StepStatus) -> None:
        """Note that a step changed status."""

    def decided(self, state: State, taken: e.PlanDecisionEvent) -> None:
        """Note that a decision was taken."""

    def judge(self, state: State, step_ids: Iterable[str]) -> None:
        """Judge anew what should happen to these steps."""


@dataclass(slots=True, kw_only=True)
class State:
    """The state of a plan, built up from its recorded facts.

    It is changed in place by its one owner: with 10 000 steps, a copy for each fact would cost more than all the rest.
    ``schedule`` follows the steps wherever commands are decided and is None elsewhere; it can always be rebuilt from
    the rest of the state.
    """

    plan_id: str = ""
    status: PlanStatus = PlanStatus.IDLE
    reason: str | None = None
    outcome: Outcome | None = None
    """The outcome of the run that ended last, or None if none was recorded."""
    steps: dict[str, StepState] = field(default_factory=dict[str, StepState])
    counts: dict[StepStatus, int] = field(default_factory=lambda: count_steps(()))
    """Steps per status, with every status as a key."""
    running: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """The start of each running step, in unix seconds and in seconds of the plan's own clock."""
    decisions: dict[str, e.PlanDecisionEvent] = field(default_factory=dict[str, e.PlanDecisionEvent])
    """The decisions that were taken, by id."""
    open: dict[str, e.PlanDecisionEvent] = field(default_factory=dict[str, e.PlanDecisionEvent])
    """The decisions that wait to be taken, by id."""
    stopping: e.PlanStoppingEvent | None = None
    """The request to pause, cancel or fail the plan, while it is being carried out."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """The reasons of failures that keep the plan from completing, by step, first to last."""
    failed_now: str | None = None
    """The reason of the first such failure in this run."""
    refused: set[Outcome] = field(default_factory=set[Outcome])
    """The outcomes of this run's attempts and revisions that a provider refused."""
    revisions: list[e.PlanRevisedEvent] = field(default_factory=list[e.PlanRevisedEvent])
    removed: list[RemovedStep] = field(default_factory=list[RemovedStep])
    unfolded: dict[str, Unfolding] = field(default_factory=dict[str, Unfolding])
    """The lists that were read, by the id of their step."""
    is_run: bool = False
    """True if the last facts come from a process that runs the plan, False if from a command while none does."""
    attached: int = 0
    """The number of processes that have run the plan."""
    began: float = 0.0
    """The time at which the last process took the plan up, in unix seconds."""
    active_seconds: float = 0.0
    """The time for which processes have had the plan, in seconds; this is the plan's own clock."""
    breaks: list[float] = field(default_factory=list[float])
    """The times on that clock at which one process took over from another."""
    updated: float = 0.0
    """The time of the last fact, in unix seconds."""
    left_at: str | None = None
    """The commit at which a process last left the workspace's repository."""
    expected: e.PlanExpectation | None = None
    """The time, tokens and money the whole plan was expected to take when it began."""
    schedule: StepIndex | None = field(default=None, compare=False, repr=False)

    @property
    def is_given_up(self) -> bool:
        """True while the plan is being cancelled."""
        return self.stopping is not None and self.stopping.status == PlanStatus.CANCELLED

    @property
    def standing(self) -> PlanStatus:
        """The plan's status; CANCELLED as soon as that was asked for, even if the process died before it finished."""
        return PlanStatus.CANCELLED if self.is_given_up else self.status

    def counted(self) -> dict[str, int]:
        """Return the steps per status, without statuses that no step has."""
        return {status.value: count for status, count in self.counts.items() if count}

    def open_steps(self) -> list[str]:
        """Return the ids of the steps that are not final."""
        return [step_id for step_id, step in self.steps.items() if not step.status.is_final]

    def items_of(self, step_id: str) -> list[StepState]:
        """Return the steps for the items of a step's list; empty if it has no list or the list was not read yet."""
        made = self.unfolded.get(step_id)
        return [] if made is None else [self.steps[each.id] for each in made.fact.children if each.id in self.steps]

    def results(self) -> dict[str, StepResult]:
        """Return the last result of each step that has one, by step id."""
        return {step_id: step.result for step_id, step in self.steps.items() if step.result is not None}

    def answers(self) -> dict[str, tuple[str, ...]]:
        """Return the options chosen in each decision that was taken, by decision id."""
        return {decision_id: taken.selections for decision_id, taken in self.decisions.items()}

    def reused(self) -> dict[str, str]:
        """Return the ids of the earlier plans whose results were taken over, by step id."""
        return {step_id: step.reused_from for step_id, step in self.steps.items() if step.reused_from is not None}

    def removed_for_good(self) -> list[RemovedStep]:
        """Return the steps that were removed and not added again, each as it was when it was last removed."""
        latest: dict[str, RemovedStep] = {}
        for removed in self.removed:
            latest.pop(removed.id, None)
            latest[removed.id] = removed
        return [removed for step_id, removed in latest.items() if step_id not in self.steps]

    def spent(self) -> dict[AttemptKey, Spent]:
        """Return what each attempt used and cost, attempts at removed steps included."""
        every = [*(gone.step for gone in self.removed), *self.steps.values()]
        return {(step.outline.id, attempt.number): attempt.result for step in every for attempt in step.attempts}


def count_steps(steps: Iterable[StepState]) -> dict[StepStatus, int]:
    """Return the number of steps of each status."""
    counts = dict.fromkeys(StepStatus, 0)
    for step in steps:
        counts[step.status] += 1
    return counts


def at_rest(step: StepState) -> tuple[StepStatus, int]:
    """Return the status and attempt number that a step has once no process runs the plan."""
    if step.status in FINAL:
        return step.status, step.attempt
    if not step.attempt_over:
        return StepStatus.PENDING, step.attempt
    if step.left is None and step.result is not None:  # the process died before it recorded the step's end
        outcome = step.result.outcome
        if step.stopping is None or outcome is Outcome.COMPLETED:
            return END_STATUS.get(outcome, StepStatus.PENDING), step.attempt
    return StepStatus.PENDING, step.attempt + (step.left is Left.RETRYING)


def list_result(status: str, reason: str | None, detail: str, work: e.WorkDone) -> StepResult:
    """Build the result of a step that was done for each item of a list, from the record of its end."""
    outcome = Outcome.COMPLETED if status == StepStatus.COMPLETED else Outcome.FAILED
    return StepResult(
        outcome=outcome, reason=reason, detail=detail, summary=work.summary, files_changed=work.files_changed
    )


def is_exhausted(result: StepResult) -> bool:
    """Return whether an attempt ended because it used up its own tokens or turns."""
    return result.outcome is Outcome.LIMIT and result.reason in OWN_LIMITS


def is_about(decision: e.PlanDecisionEvent, step_ids: Container[str | None]) -> bool:
    """Return whether a decision is about an attempt at one of these steps."""
    return bool(decision.kind) and decision.step_id in step_ids


def removed_by(fact: e.PlanRevisedEvent) -> frozenset[str]:
    """Return the steps that a revision removed."""
    return _named(fact, "id", "remove_step")


def changed_by(fact: e.PlanRevisedEvent) -> frozenset[str]:
    """Return the existing steps whose content or dependencies a revision changed."""
    return _named(fact, "id", "update_step") | _named(fact, "step", "add_edge", "remove_edge")


def _named(fact: e.PlanRevisedEvent, name: str, *kinds: str) -> frozenset[str]:
    """Return the steps that operations of these kinds name; invalid ones are skipped here, and refused when applied."""
    named = (operation.get(name) for operation in fact.operations if operation.get("op") in kinds)
    return frozenset(step_id for step_id in named if isinstance(step_id, str))
