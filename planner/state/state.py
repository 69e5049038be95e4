"""The state of a plan: how it and each of its steps stands by all that is recorded."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from ipc import events as e
from planner.plan.status import FINAL_STATUSES as FINAL
from planner.plan.status import PlanStatus, StepStatus
from subagents.step_result import StepResult
from vibe.core.messages import Outcome, Spent

AttemptKey: TypeAlias = tuple[str, int]
"""A step's id and the number of the attempt."""


WAIVED_REASON = "waived"
"""Reason of a SKIPPED step that failed or was cut off and that the user gave up: its dependants run."""
REUSED_REASON = "reused"
ONLY_REASON = "only"
"""Why a step is SKIPPED that a run was not to be about."""
CUT = "cut"
OWN_LIMITS = frozenset({"budget", "turns"})
"""Reasons of attempts that ended for want of tokens or turns."""
END_STATUS = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
}
_NOTHING_SAID = StepResult(outcome=Outcome.INTERRUPTED)
_BAD = frozenset({StepStatus.FAILED, StepStatus.CANCELLED})
COMPLETED: Final = StepStatus.COMPLETED
IN_PROGRESS: Final = StepStatus.IN_PROGRESS
PENDING: Final = StepStatus.PENDING
ACTIVE: Final = PlanStatus.ACTIVE
WORDS: Final = {status: status.value for status in StepStatus}
"""Names for what is asked several times a step: Python 3.11 takes ten times as long to find an enum's member."""


class Left(StrEnum):
    """Way an attempt was left after which its step is not final."""

    STOPPED = "stopped"
    """At a turn's end: it goes on from there."""
    CUT = "cut"
    """In the middle of something: it goes on, unless its step acts outside the workspace."""
    ASKING = "asking"
    """It failed, and a decision about the step is open."""
    REVISING = "revising"
    """It failed, and a better plan is looked for."""
    RETRYING = "retrying"
    """It failed, and after a wait another attempt follows."""


TOLD = frozenset({Left.ASKING, Left.REVISING})
"""The last attempt failed, and counts until a decision about the step is taken."""


class Span(Struct, frozen=True, gc=False):
    """A time in which an attempt ran, in seconds of the plan's own clock.

    ``ended``: an outcome, a status or ``cut``.
    """

    start: float
    end: float
    attempt: int
    ended: str


class AttemptState(Struct, frozen=True, gc=False):
    """An attempt that has ended. ``seconds`` sums all its parts, if it was interrupted; ``ended_at``: unix seconds."""

    number: int
    result: StepResult
    seconds: float
    ended_at: float


class StepState(Struct, kw_only=True):
    """State of a step."""

    outline: e.StepOutline
    status: StepStatus = StepStatus.PENDING
    attempt: int = 1
    """The attempt that runs, has ended or, for a step that is not running, comes next."""
    begun: int = 0
    """The number of the last attempt that was begun."""
    left: Left | None = None
    is_over: bool = False
    """The attempt has ended, and what becomes of the step was not yet said."""
    asked: str | None = None
    """The open decision about its last attempt."""
    reason: str | None = None
    detail: str = ""
    result: StepResult | None = None
    """The last attempt's."""
    tolerated: bool = False
    """If it FAILED or was CANCELLED, the plan goes on as if it had completed."""
    waived: bool = False
    stopping: e.PlanActEvent | None = None
    """It is to be cancelled or skipped, and its attempt has not ended yet."""
    reused_from: str | None = None
    """The plan whose result stands for it."""
    told: tuple[e.PlanToldEvent, ...] = ()
    """What people told its agent since it was last completed."""
    exhausted: int = 0
    """How many attempts had used up what they may."""
    attempts: tuple[AttemptState, ...] = ()
    """Those that have ended, each as it last did."""
    spans: tuple[Span, ...] = ()

    @property
    def id(self) -> str:
        """The step's id."""
        return self.outline.id

    @property
    def said(self) -> StepResult:
        """The last attempt's result; an empty one before the first."""
        return self.result or _NOTHING_SAID

    @property
    def summary(self) -> str:
        """The last attempt's."""
        return self.said.summary

    @property
    def output(self) -> Any:
        """The value that the last attempt handed in; None: none."""
        return self.said.output

    @property
    def spoils(self) -> bool:
        """True if the plan can't be completed because of it."""
        return self.status in _BAD and not self.tolerated


class Unfolding(Struct, frozen=True):
    """The steps made for the items of a list, when the plan had been revised so many times."""

    fact: e.PlanUnfoldedEvent
    revisions: int


class RemovedStep(Struct, frozen=True):
    """A step that a revision took out of the plan, as it stood then. ``by`` revised at ``at``, unix seconds."""

    step: StepState
    by: str
    at: float

    @property
    def id(self) -> str:
        """The step's id."""
        return self.step.id

    @property
    def status(self) -> StepStatus:
        """The step's status; one of which a failure was the last that was known had failed."""
        return StepStatus.FAILED if self.step.left in TOLD else self.step.status


class StepIndex(Protocol):
    """Follows the steps of a state; ``planner.state.schedule.Schedule`` does."""

    def moved(self, state: State, step_id: str, previous: StepStatus) -> None:
        """A step changed status."""
        ...

    def decided(self, state: State, taken: e.PlanDecisionEvent) -> None:
        """A decision was taken."""
        ...

    def look(self, state: State, step_ids: Iterable[str]) -> None:
        """See what is to become of steps now."""
        ...


@dataclass(slots=True, kw_only=True)
class State:
    """State of a plan, by all that is recorded of it.

    It has one owner, who evolves it: a copy for each fact of a plan of 10 000 steps would cost more than all the rest.
    ``schedule`` follows the steps in it where decisions are taken (None: none are); it holds nothing that can't be made
    again from the rest.
    """

    plan_id: str = ""
    status: PlanStatus = PlanStatus.IDLE
    reason: str | None = None
    outcome: Outcome | None = None
    """What the run came to that ended so; None: nothing was recorded."""
    steps: dict[str, StepState] = field(default_factory=dict[str, StepState])
    counts: dict[StepStatus, int] = field(default_factory=lambda: count_steps(()))
    """Steps per status, all of them."""
    running: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """When each step that runs began: in unix seconds and by the plan's own clock."""
    decisions: dict[str, e.PlanDecisionEvent] = field(default_factory=dict[str, e.PlanDecisionEvent])
    """Those that were taken."""
    open: dict[str, e.PlanDecisionEvent] = field(default_factory=dict[str, e.PlanDecisionEvent])
    """Those that wait to be taken."""
    stopping: e.PlanStoppingEvent | None = None
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Why steps failed that count, first to last."""
    failed_now: str | None = None
    """Why the first of them did in this run."""
    refused: set[Outcome] = field(default_factory=set[Outcome])
    """What those attempts and revisions of this run came to that a provider refused."""
    revisions: list[e.PlanRevisedEvent] = field(default_factory=list[e.PlanRevisedEvent])
    removed: list[RemovedStep] = field(default_factory=list[RemovedStep])
    unfolded: dict[str, Unfolding] = field(default_factory=dict[str, Unfolding])
    """By their steps, the lists that were read."""
    is_run: bool = False
    """Whether what is recorded is the doing of a process that runs the plan."""
    attached: int = 0
    """How many processes ran it."""
    began: float = 0.0
    """When the last of them took it up, unix seconds."""
    active_seconds: float = 0.0
    """How long processes had it; its own clock."""
    breaks: list[float] = field(default_factory=list[float])
    """Where on that clock a process took over from another."""
    updated: float = 0.0
    """When the last fact was recorded, unix seconds."""
    left_at: str | None = None
    """The commit at which a process last left the workspace."""
    expected: e.PlanExpectation | None = None
    """What the whole plan was expected to take when it began."""
    schedule: StepIndex | None = field(default=None, compare=False, repr=False)

    @property
    def is_given_up(self) -> bool:
        """True once the plan is to be cancelled, and until it is."""
        return self.stopping is not None and self.stopping.status == PlanStatus.CANCELLED

    @property
    def standing(self) -> PlanStatus:
        """The plan's status; CANCELLED once it is to be, also where its process did not live to give up the rest."""
        return PlanStatus.CANCELLED if self.is_given_up else self.status

    def counted(self) -> dict[str, int]:
        """Steps per status; those no step has are left out."""
        return {status.value: count for status, count in self.counts.items() if count}

    def open_steps(self) -> list[str]:
        """The steps that are not final."""
        return [step_id for step_id, step in self.steps.items() if not step.status.is_final]

    def items_of(self, step_id: str) -> list[StepState]:
        """The steps that there are for the items of a list; none: it was not read, or the step has none."""
        made = self.unfolded.get(step_id)
        return [] if made is None else [self.steps[each.id] for each in made.fact.children if each.id in self.steps]

    def results(self) -> dict[str, StepResult]:
        """The last result of each step that has one."""
        return {step_id: step.result for step_id, step in self.steps.items() if step.result is not None}

    def answers(self) -> dict[str, tuple[str, ...]]:
        """Return what was chosen in each decision that was taken."""
        return {decision_id: taken.selections for decision_id, taken in self.decisions.items()}

    def reused(self) -> dict[str, str]:
        """By step, the plan whose result stands for it."""
        return {step_id: step.reused_from for step_id, step in self.steps.items() if step.reused_from is not None}

    def gone(self) -> list[RemovedStep]:
        """The steps that were removed for good, each as it was when it went the last time."""
        latest: dict[str, RemovedStep] = {}
        for removed in self.removed:
            latest.pop(removed.id, None)
            latest[removed.id] = removed
        return [removed for step_id, removed in latest.items() if step_id not in self.steps]

    def spent(self) -> dict[AttemptKey, Spent]:
        """Return what each attempt took, those at removed steps too."""
        every = [*(gone.step for gone in self.removed), *self.steps.values()]
        return {(step.outline.id, attempt.number): attempt.result for step in every for attempt in step.attempts}


def count_steps(steps: Iterable[StepState]) -> dict[StepStatus, int]:
    """The number of steps of each status."""
    counts = dict.fromkeys(StepStatus, 0)
    for step in steps:
        counts[step.status] += 1
    return counts


def at_rest(step: StepState) -> tuple[StepStatus, int]:
    """The status and attempt of a step once no process runs it."""
    if step.status in FINAL:
        return step.status, step.attempt
    if not step.is_over:
        return StepStatus.PENDING, step.attempt
    if step.left is None and step.result is not None:  # its process died before it said so
        outcome = step.result.outcome
        if step.stopping is None or outcome is Outcome.COMPLETED:
            return END_STATUS.get(outcome, StepStatus.PENDING), step.attempt
    return StepStatus.PENDING, step.attempt + (step.left is Left.RETRYING)


def list_result(status: str, reason: str | None, detail: str, work: e.WorkDone) -> StepResult:
    """The result of a step that was done for each item, by what is recorded of its end."""
    outcome = Outcome.COMPLETED if status == StepStatus.COMPLETED else Outcome.FAILED
    return StepResult(
        outcome=outcome, reason=reason, detail=detail, summary=work.summary, files_changed=work.files_changed
    )


def is_exhausted(result: StepResult) -> bool:
    """Return whether an attempt ended because it had used up what it may."""
    return result.outcome is Outcome.LIMIT and result.reason in OWN_LIMITS


def is_about(decision: e.PlanDecisionEvent, step_ids: Container[str | None]) -> bool:
    """Return whether a decision is about an attempt at one of these steps."""
    return bool(decision.kind) and decision.step_id in step_ids


def removed_by(fact: e.PlanRevisedEvent) -> frozenset[str]:
    """The steps that a revision took out."""
    return _named(fact, "id", "remove_step")


def changed_by(fact: e.PlanRevisedEvent) -> frozenset[str]:
    """The earlier steps whose content or dependencies changed."""
    return _named(fact, "id", "update_step") | _named(fact, "step", "add_edge", "remove_edge")


def _named(fact: e.PlanRevisedEvent, name: str, *kinds: str) -> frozenset[str]:
    """The steps these operations name; invalid operations are skipped here and refused when they are applied."""
    named = (operation.get(name) for operation in fact.operations if operation.get("op") in kinds)
    return frozenset(step_id for step_id in named if isinstance(step_id, str))
