"""Builds small plans and drives a scheduler by hand, checking on the way what must hold in any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.claims import ANYTHING, claim_of, claims_overlap
from planner.dag import Dag
from planner.decisions import attempt_of
from planner.instructions import (
    AskReviser,
    DecisionTaken,
    EndPlan,
    Instruction,
    MoveStep,
    OpenDecision,
    PlanReplaced,
    RestoredStep,
    SchedulerEvent,
    StartStep,
    StepEnded,
    WaitForRetry,
)
from planner.model import STEP_TRANSITIONS, Plan, PlanStatus, StepStatus
from planner.scheduler import Scheduler
from vibe.core.outcome import Outcome

RawStep = Mapping[str, Any]


def step(step_id: str, *needs: str | dict[str, str], **fields: object) -> dict[str, Any]:
    """A step that changes nothing, unless ``fields`` say otherwise."""
    return {"id": step_id, "title": step_id, "mode": "research", "depends_on": list(needs), **fields}


def choice(decision_id: str, *options: str, **fields: object) -> dict[str, Any]:
    """A decision between options."""
    return {
        "id": decision_id,
        "question": "Which?",
        "options": [{"id": option, "label": option} for option in options],
        **fields,
    }


def make_plan(steps: Sequence[RawStep], decisions: Sequence[RawStep] = ()) -> Plan:
    """A plan of these steps."""
    return Plan.model_validate({"version": 1, "goal": "test", "steps": list(steps), "decisions": list(decisions)})


class ScriptedRun:
    """A scheduler and everything it has said; ``open_retries``, ``asked`` and ``revising`` are what it waits for."""

    def __init__(self, plan: Plan, *, max_parallel: int = 100, **options: Any) -> None:
        self.plan = plan
        self.dag = Dag.build(plan.steps)
        self.scheduler = Scheduler(plan, self.dag, max_parallel=max_parallel, **options)
        self.max_parallel = max_parallel
        self.said: list[Instruction] = []
        self.running: list[str] = []
        self.open_retries: list[str] = []
        self.asked: list[str] = []
        self.revising: list[str] = []
        self.ends: list[EndPlan] = []
        self._claims = {s.id: claim_of(s) for s in plan.steps}
        restored: dict[str, RestoredStep] = options.get("restored") or {}
        self._seen: dict[str, StepStatus] = {
            step_id: was.status for step_id, was in restored.items() if was.status.is_final
        }

    def start(self) -> list[Instruction]:
        """Start it."""
        return self._take(self.scheduler.start())

    def send(self, event: SchedulerEvent) -> list[Instruction]:
        """Hand in an event."""
        if isinstance(event, StepEnded):
            self.running.remove(event.step_id)
        if isinstance(event, DecisionTaken) and attempt_of(event.decision_id) is not None:
            self.asked.remove(event.decision_id)
        if isinstance(event, PlanReplaced):
            self.plan, self.dag = event.plan, event.dag
            self._claims = {s.id: claim_of(s) for s in event.plan.steps}
            self.revising = [s for s in self.revising if s not in event.changed and s in self._claims]
            self._seen = {s: status for s, status in self._seen.items() if s in self._claims}
        return self._take(self.scheduler.handle(event))

    def end(self, *step_ids: str, outcome: Outcome = Outcome.COMPLETED, **fields: Any) -> list[Instruction]:
        """End running steps, one after the other; returns what the last one caused."""
        out: list[Instruction] = []
        for step_id in step_ids:
            out = self.send(StepEnded(step_id, outcome, **fields))
        return out

    def fail(self, *step_ids: str, **fields: Any) -> list[Instruction]:
        """Fail running steps."""
        return self.end(*step_ids, outcome=Outcome.FAILED, **fields)

    def statuses(self) -> dict[str, str]:
        """Where every step stands."""
        return {s.id: self.scheduler.step_status(s.id).value for s in self.plan.steps}

    @property
    def ended(self) -> tuple[PlanStatus, str | None] | None:
        """How it ended, if it did."""
        return (self.ends[0].status, self.ends[0].reason) if self.ends else None

    def _take(self, instructions: list[Instruction]) -> list[Instruction]:
        for instruction in instructions:
            assert not self.ends, "nothing may follow EndPlan"
            self.said.append(instruction)
            self._check(instruction)
        assert self.scheduler.running == frozenset(self.running)
        assert sum(self.scheduler.counts().values()) == len(self.plan.steps)
        return instructions

    def _check(self, instruction: Instruction) -> None:
        match instruction:
            case MoveStep(step_id, previous, status):
                assert previous is self._seen.get(step_id, StepStatus.PENDING)
                assert status in STEP_TRANSITIONS[previous]
                self._seen[step_id] = status
                if status is not StepStatus.PENDING:
                    self.revising = [other for other in self.revising if other != step_id]
            case StartStep(step_id, attempt):
                self._check_start(step_id, attempt)
                self.running.append(step_id)
                self.open_retries = [other for other in self.open_retries if other != step_id]
            case WaitForRetry(step_id):
                self.open_retries.append(step_id)
            case OpenDecision(decision_id):
                assert decision_id not in self.asked
                self.asked.append(decision_id)
            case AskReviser(step_id, attempt):
                assert attempt == self.scheduler.attempt(step_id)
                assert step_id not in self.revising
                self.revising.append(step_id)
            case EndPlan():
                assert not self.running
                self.ends.append(instruction)
            case _:
                assert instruction.step_id in self.running

    def _check_start(self, step_id: str, attempt: int) -> None:
        assert self._seen[step_id] is StepStatus.IN_PROGRESS
        assert attempt == self.scheduler.attempt(step_id)
        assert len(self.running) < self.max_parallel
        mine = self._claims[step_id]
        for other in self.running:
            assert not claims_overlap(mine, self._claims[other]), f"{step_id} writes beside {other}"
        if mine == ANYTHING:
            assert not any(self._claims[other] for other in self.running)


def started(instructions: Sequence[Instruction]) -> list[str]:
    """The steps these instructions start."""
    return [i.step_id for i in instructions if isinstance(i, StartStep)]
