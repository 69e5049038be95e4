"""PlanState: a plan under way for a program that runs the steps itself; the scheduler decides, this only words it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

from planner.dag import Dag
from planner.instructions import (
    AskReviser,
    DecisionTaken,
    Instruction,
    RetryDue,
    RevisionRefused,
    SchedulerEvent,
    StartStep,
    StepEnded,
    WaitForRetry,
)
from planner.model import Decision, Plan, PlanStatus, Step, StepStatus
from planner.problems import IllegalTransitionError, UnknownStepError
from planner.scheduler import Scheduler
from vibe.core.outcome import Outcome

PlanRunStatus: TypeAlias = PlanStatus
PlanStepStatus: TypeAlias = StepStatus

_OUTCOMES = {StepStatus.COMPLETED: Outcome.COMPLETED, StepStatus.FAILED: Outcome.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step as it stands now."""

    step_id: str
    title: str
    status: StepStatus
    mode: str
    depends_on: tuple[str, ...]
    decision_id: str | None
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecision:
    """One decision as it stands now; ``selections`` is empty until it is taken."""

    decision_id: str
    question: str
    options: tuple[str, ...]
    selections: tuple[str, ...]


class PlanState:
    """A plan whose steps somebody else carries out and reports.

    A step that failed is offered again at once while it has ``retries`` left: there is no clock here. Nobody is there
    to revise the plan, so ``on_failure: replan`` is a failure.
    """

    def __init__(self, plan: Plan, *, max_parallel: int | None = None, plan_id: str = "") -> None:
        self.plan = plan.resolved()
        self.plan_id = plan_id or uuid4().hex
        self._scheduler = Scheduler(
            self.plan,
            Dag.build(self.plan.steps),
            max_parallel=max_parallel or self.plan.max_parallel_steps or len(self.plan.steps),
            wait_for_decisions=True,
        )
        self._steps = {step.id: step for step in self.plan.steps}
        self._offered: dict[str, None] = {}
        self._taken: dict[str, tuple[str, ...]] = {}
        self._follow(self._scheduler.start())

    @property
    def goal(self) -> str:
        """What the plan is for."""
        return self.plan.goal

    @property
    def status(self) -> PlanStatus:
        """Where the whole plan stands."""
        return self._scheduler.status

    @property
    def steps(self) -> list[PlanStep]:
        """Every step, in the plan's order."""
        return [self._shown(step) for step in self.plan.steps]

    @property
    def decisions(self) -> dict[str, PlanDecision]:
        """The plan's decisions by id."""
        return {decision.id: self._shown_decision(decision) for decision in self.plan.decisions}

    def get_runnable_steps(self) -> list[PlanStep]:
        """The steps to begin now: all they wait for is there, and nothing that runs is in their way."""
        return [self._shown(self._steps[step_id]) for step_id in self._offered]

    def update_step_status(self, step_id: str, status: StepStatus | str) -> None:
        """Report that a step has begun (IN_PROGRESS) or ended (COMPLETED, FAILED).

        Raises:
            UnknownStepError: the plan has no such step.
            IllegalTransitionError: the step can't go there from where it stands.
        """
        wanted, previous = StepStatus(status), self._status(step_id)
        if wanted is StepStatus.IN_PROGRESS and step_id in self._offered:
            del self._offered[step_id]
        elif wanted in _OUTCOMES and previous is StepStatus.IN_PROGRESS:
            self._feed(StepEnded(step_id, _OUTCOMES[wanted]))
        else:
            raise IllegalTransitionError(f"step {step_id!r}", previous.value, wanted.value)

    def decide(self, decision_id: str, selections: Sequence[str]) -> None:
        """Take a decision; steps that waited for it become runnable, or are skipped.

        Raises:
            DecisionInvalidError: the plan does not offer that.
        """
        chosen = tuple(selections)
        self._feed(DecisionTaken(decision_id, chosen, "user"))
        self._taken[decision_id] = chosen

    def _feed(self, event: SchedulerEvent) -> None:
        self._follow(self._scheduler.handle(event))

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case StartStep(step_id=step_id):
                    self._offered[step_id] = None
                case WaitForRetry(step_id=step_id):
                    self._feed(RetryDue(step_id))
                case AskReviser(step_id=step_id):
                    self._feed(RevisionRefused(step_id, "nobody is there to revise the plan"))
                case _:
                    continue

    def _status(self, step_id: str) -> StepStatus:
        if step_id not in self._steps:
            raise UnknownStepError(step_id, self._steps)
        status = self._scheduler.step_status(step_id)
        return StepStatus.PENDING if step_id in self._offered else status

    def _shown(self, step: Step) -> PlanStep:
        return PlanStep(
            step_id=step.id,
            title=step.title,
            status=self._status(step.id),
            mode=step.mode.value,
            depends_on=tuple(edge.step for edge in step.dependencies),
            decision_id=step.decision,
            prompt=step.prompt or step.title,
        )

    def _shown_decision(self, decision: Decision) -> PlanDecision:
        return PlanDecision(
            decision_id=decision.id,
            question=decision.question,
            options=tuple(option.id for option in decision.options),
            selections=self._taken.get(decision.id, ()),
        )
