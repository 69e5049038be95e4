"""PlanState tracks a plan whose steps a program runs itself; a thin layer over ``planner.state.decide``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias
from uuid import uuid4

from msgspec import Raw, Struct, json

from ipc.commands import Decide
from ipc.events import Fact, PlanStepUpdateEvent
from ipc.sink import EventSink, MemorySink
from planner.plan.dag import Dag
from planner.plan.diagnostics import IllegalTransitionError, UnknownStepError
from planner.plan.for_each import items_of
from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, PlanStatus, Step, StepStatus
from planner.state import commands as c
from planner.state.decide import carry_out
from planner.state.schedule import schedule_of
from planner.state.state import State
from subagents.step_result import StepResult
from vibe.core.messages import Outcome

PlanStepStatus: TypeAlias = StepStatus

_OUTCOMES = {StepStatus.COMPLETED: Outcome.COMPLETED, StepStatus.FAILED: Outcome.FAILED}


class PlanStep(Struct, frozen=True, kw_only=True):
    """One step and its present status."""

    step_id: str
    title: str
    status: StepStatus
    mode: str
    depends_on: tuple[str, ...]
    decision_id: str | None
    prompt: str


class PlanDecision(Struct, frozen=True, kw_only=True):
    """One decision; ``selections`` is empty until it is taken."""

    decision_id: str
    question: str
    options: tuple[str, ...]
    selections: tuple[str, ...]


class PlanState:
    """A plan whose steps a program of the user's runs and reports. ``sink`` gets its events.

    A failed step with ``retries`` left is offered again at once, without a wait. Without a reviser, ``on_failure:
    replan`` means failure.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        max_parallel: int | None = None,
        plan_id: str = "",
        sink: EventSink | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.plan = plan.resolved()
        self.plan_id = plan_id or uuid4().hex
        self._state = State(plan_id=self.plan_id)
        self._sink = sink or MemorySink()
        self._now = now
        self._steps = {step.id: step for step in self.plan.steps}
        self._offered: dict[str, PlanStepUpdateEvent | None] = {}
        """Steps that may begin, with the event that is published once they have."""
        dag = Dag.build(self.plan.steps)
        start = c.Start(
            loaded=LoadedPlan(plan=self.plan, dag=dag, source_bytes=b"", where="plan"),
            width=max_parallel or self.plan.max_parallel_steps or len(self.plan.steps),
            attended=True,
        )
        self._take(start)

    @property
    def goal(self) -> str:
        """Goal of the plan."""
        return self.plan.goal

    @property
    def status(self) -> PlanStatus:
        """Status of the whole plan."""
        return self._state.status

    @property
    def steps(self) -> list[PlanStep]:
        """Every step, in the plan's order, including those for the items of a list once it was read."""
        return [self._shown(step) for step in schedule_of(self._state).plan.steps]

    @property
    def decisions(self) -> dict[str, PlanDecision]:
        """The plan's decisions by id."""
        return {decision.id: self._shown_decision(decision) for decision in self.plan.decisions}

    def get_runnable_steps(self) -> list[PlanStep]:
        """Return the steps that can begin now: all they wait for is there, and no running step is in their way."""
        return [self._shown(self._steps[step_id]) for step_id in self._offered]

    def update_step_status(self, step_id: str, status: StepStatus | str) -> None:
        """Report that a step has begun (IN_PROGRESS) or ended (COMPLETED, FAILED).

        Raises:
            UnknownStepError: the plan has no such step.
            IllegalTransitionError: the step can't get that status from its present one.
        """
        wanted, previous = StepStatus(status), self._status(step_id)
        if wanted is StepStatus.IN_PROGRESS and step_id in self._offered:
            began = self._offered.pop(step_id)
            if began is not None:
                self._sink.publish(began)
        elif wanted in _OUTCOMES and previous is StepStatus.IN_PROGRESS:
            result = StepResult(outcome=_OUTCOMES[wanted])
            self._take(c.AttemptEnded(step_id=step_id, result=result, raw=Raw(json.encode(result))))
            self._take(c.AttemptSaved(step_id))
        else:
            raise IllegalTransitionError(f"step {step_id!r}", previous.value, wanted.value)

    def decide(self, decision_id: str, selections: Sequence[str]) -> None:
        """Take a decision; steps that waited for it become runnable, or are skipped.

        Raises:
            DecisionInvalidError: the plan does not offer this.
        """
        self._take(Decide(decision_id=decision_id, selections=tuple(selections)))

    def _take(self, command: c.Command) -> None:
        """Carry out a command, and do at once the effects that a run would take time for."""
        for effect in carry_out(self._state, command, self._now(), self._record):
            match effect:
                case c.StartAttempt(step_id=step_id):
                    self._offered.setdefault(step_id)
                case c.ReadItems(step_id=step_id):
                    items = items_of(self._steps[step_id], None, self.plan.values())
                    self._take(c.Unfold(step_id=step_id, items=items))
                    self._steps |= schedule_of(self._state).steps
                case c.KeepItems(step_id=step_id):
                    self._take(c.AttemptSaved(step_id))
                case c.WaitForRetry(step_id=step_id):
                    self._take(c.RetryDue(step_id))
                case c.AskReviser(step_id=step_id):
                    self._take(c.RevisionRefused(step_id, "no planner to revise the plan"))
                case _:
                    continue
        if self._state.status is PlanStatus.ACTIVE and schedule_of(self._state).to_mark_blocked:
            self._take(c.MarkBlocked())

    def _record(self, fact: Fact) -> None:
        """Publish a fact; that a step begins is held back until the program says so."""
        if isinstance(fact, PlanStepUpdateEvent) and fact.status == StepStatus.IN_PROGRESS:
            self._offered[fact.step_id] = fact
        else:
            self._sink.publish(fact)

    def _status(self, step_id: str) -> StepStatus:
        if step_id not in self._steps:
            raise UnknownStepError(step_id, self._steps)
        return StepStatus.PENDING if step_id in self._offered else self._state.steps[step_id].status

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
        taken = self._state.decisions.get(decision.id)
        return PlanDecision(
            decision_id=decision.id,
            question=decision.question,
            options=tuple(option.id for option in decision.options),
            selections=taken.selections if taken else (),
        )
