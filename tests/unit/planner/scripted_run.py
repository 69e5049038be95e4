"""Builds small plans and drives a scheduler by hand, checking the invariants of every run on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ipc.events import Fact, PlanDecisionEvent, PlanEditedEvent
from planner.plan.dag import Dag
from planner.plan.diagnostics import PlanEndedError
from planner.plan.for_each import items_of
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan
from planner.plan.status import STEP_TRANSITIONS, PlanStatus, StepStatus
from planner.plan.write_claims import ANYTHING, claim_of, claims_overlap
from planner.state.changes import TooLateError
from planner.state.commands import AttemptSaved, Command, Effect, KeepItems, MarkBlocked, ReadItems, Start, Unfold
from planner.state.decide import carry_out, decide
from planner.state.evolve import evolve, fold
from planner.state.schedule import schedule_of
from planner.state.state import State
from tests.unit.planner.told import (
    AskReviser,
    EndPlan,
    Instruction,
    MoveStep,
    OpenDecision,
    PlanReplaced,
    SchedulerEvent,
    StartStep,
    StepEnded,
    WaitForRetry,
    Was,
    commands_of,
    earlier_run,
    said_by,
)
from vibe.core.messages import Outcome
from vibe.system.errors import VibeError

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)

RawStep = Mapping[str, Any]


def step(step_id: str, *needs: str | dict[str, str], **fields: object) -> dict[str, Any]:
    """Return a step that changes nothing, unless ``fields`` say otherwise."""
    return {"id": step_id, "title": step_id, "mode": "research", "depends_on": list(needs), **fields}


def choice(decision_id: str, *options: str, **fields: object) -> dict[str, Any]:
    """Return a decision between options."""
    return {
        "id": decision_id,
        "question": "Which?",
        "options": [{"id": option, "label": option} for option in options],
        **fields,
    }


def make_plan(steps: Sequence[RawStep], decisions: Sequence[RawStep] = ()) -> Plan:
    """Return a plan of these steps."""
    return Plan.model_validate({"version": 1, "goal": "test", "steps": list(steps), "decisions": list(decisions)})


def about_step(decision_id: str) -> tuple[str, str, int] | None:
    """Return the kind, step and attempt that a decision is about, or None if it is one of the plan's own."""
    kind, _, rest = decision_id.partition(":")
    step_id, _, attempt = rest.partition(":")
    return (kind, step_id, int(attempt)) if rest else None


def spelled_out(state: State, command: Command, at: float) -> object:
    """Return a comparable form of what is decided about a command."""
    try:
        decided = decide(state, command, at)
    except VibeError as error:
        return str(error)
    return [_encoder.encode(fact) for fact in decided.facts], list(decided.effects)


def as_rebuilt(state: State) -> bool:
    """Return True if the schedule that followed a state equals one that is made of the state now."""
    if state.status is not PlanStatus.ACTIVE or (state.stopping and state.stopping.status == PlanStatus.CANCELLED):
        return True
    followed = schedule_of(state)
    rebuilt = followed.rebuilt(state, followed.loaded)
    return followed.ready == rebuilt.ready and followed.queue.best() == rebuilt.queue.best()


class ScriptedRun:
    """A run of a plan and everything it has published. It waits for ``open_retries``, ``asked`` and ``revising``.

    After every fact, folding the records gives exactly the state that the run is in.
    """

    def __init__(  # noqa: PLR0913  all but the first are keywords with a default
        self,
        plan: Plan,
        *,
        max_parallel: int = 100,
        fail_fast: bool = False,
        wait_for_decisions: bool = False,
        restored: Mapping[str, Was] | None = None,
        decisions: Mapping[str, tuple[str, ...]] | None = None,
        journal: Sequence[bytes] = (),
    ) -> None:
        self.plan = plan
        self.dag = Dag.build(plan.steps)
        earlier = earlier_run(plan, restored or {}, decisions or {}) if restored or decisions else []
        self.journal = [*journal, *(_encoder.encode(fact) for fact in earlier)]
        self.read_back = self._fold()
        self.state = self._fold()
        self._start = Start(
            loaded=LoadedPlan(plan=plan, dag=self.dag, source_bytes=b"", where="test"),
            width=max_parallel,
            fail_fast=fail_fast,
            attended=wait_for_decisions,
        )
        self.max_parallel = max_parallel
        self.clock = 1_000.0
        self.facts: list[Fact] = []
        self.said: list[Instruction] = []
        self.running: list[str] = []
        self.open_retries: list[str] = []
        self.asked: list[str] = []
        self.revising: list[str] = []
        self.ends: list[EndPlan] = []
        self._claims = {s.id: claim_of(s) for s in plan.steps}
        self._seen: dict[str, StepStatus] = {}

    def _fold(self) -> State:
        return fold(_decoder.decode(line) for line in self.journal)

    def start(self) -> list[Instruction]:
        """Start the plan."""
        evolve(self.read_back, PlanEditedEvent())
        self._seen = {name: step.status for name, step in self.read_back.steps.items() if step.status.is_final}
        self.read_back = self._fold()
        return self._take([self._start])

    def send(self, event: SchedulerEvent) -> list[Instruction]:
        """Send an event to the scheduler, and return its instructions."""
        commands = commands_of(event, self.plan)
        if isinstance(event, StepEnded) and event.step_id in self.running:
            self.running.remove(event.step_id)
        if isinstance(event, PlanReplaced):
            self.plan, self.dag = event.plan, event.dag
            self._claims = {s.id: claim_of(s) for s in event.plan.steps}
            self.revising = [s for s in self.revising if s not in event.changed | event.touched and s in self._claims]
            self._seen = {s: status for s, status in self._seen.items() if s in self._claims}
        return self._take(commands)

    def end(self, *step_ids: str, outcome: Outcome = Outcome.COMPLETED, **fields: Any) -> list[Instruction]:
        """End running steps one after the other, and return the instructions after the last one."""
        out: list[Instruction] = []
        for step_id in step_ids:
            out = self.send(StepEnded(step_id, outcome, **fields))
        return out

    def fail(self, *step_ids: str, **fields: Any) -> list[Instruction]:
        """Fail running steps."""
        return self.end(*step_ids, outcome=Outcome.FAILED, **fields)

    def statuses(self) -> dict[str, str]:
        """Return the status of every step."""
        return {s.id: self.state.steps[s.id].status.value for s in self.plan.steps}

    def status(self, step_id: str) -> StepStatus:
        """Return the status of a step."""
        return self.state.steps[step_id].status

    def attempt(self, step_id: str) -> int:
        """Return the number of a step's present or next attempt."""
        return self.state.steps[step_id].attempt

    @property
    def ended(self) -> tuple[PlanStatus, str | None] | None:
        """Return the status and reason with which the plan ended, or None."""
        return (self.ends[0].status, self.ends[0].reason) if self.ends else None

    def _take(self, commands: Sequence[Command]) -> list[Instruction]:
        said: list[Instruction] = []
        for command in commands:
            said += self._carry_out(command)
            while self.state.status is PlanStatus.ACTIVE and schedule_of(self.state).to_mark_blocked:
                said += self._carry_out(MarkBlocked())
        for instruction in said:
            assert not self.ends, "nothing may follow the end"
            self.said.append(instruction)
            self._check(instruction)
        assert set(self.state.running) == set(self.running)
        assert sum(self.state.counted().values()) == len(self.plan.steps)
        return said

    def _carry_out(self, command: Command) -> list[Instruction]:
        self.clock += 1.0
        decided = spelled_out(self.state, command, self.clock)
        assert self.read_back == self.state, "deciding changed the state"
        assert spelled_out(self.state, command, self.clock) == decided
        facts: list[Fact] = []
        try:
            effects = carry_out(self.state, command, self.clock, lambda fact: self._record(fact, facts))
        except (TooLateError, PlanEndedError):
            return []
        assert self.read_back == self.state, "what is recorded comes to another state"
        assert as_rebuilt(self.state), "the schedule is not what the state comes to"
        self.facts += facts
        said = said_by(facts, effects, self.state)
        for effect in effects:
            said += self._see_to_list(effect)
        return said

    def _see_to_list(self, effect: Effect) -> list[Instruction]:
        """Read a list that the plan itself contains immediately, and confirm that its results are kept."""
        said: list[Instruction] = []
        if isinstance(effect, ReadItems):
            items = items_of(schedule_of(self.state).steps[effect.step_id], None, {})
            said = self._carry_out(Unfold(step_id=effect.step_id, items=items))
            self.plan = schedule_of(self.state).plan
            self._claims = {s.id: claim_of(s) for s in self.plan.steps}
        elif isinstance(effect, KeepItems):
            said = self._carry_out(AttemptSaved(effect.step_id))
        return said

    def _record(self, fact: Fact, facts: list[Fact]) -> None:
        assert self.read_back == self.state, "what is recorded comes to another state"
        line = _encoder.encode(fact)
        self.journal.append(line)
        evolve(self.read_back, _decoder.decode(line))
        facts.append(fact)
        if isinstance(fact, PlanDecisionEvent) and fact.selections and fact.decision_id in self.asked:
            self.asked.remove(fact.decision_id)

    def _check(self, instruction: Instruction) -> None:
        match instruction:
            case MoveStep(step_id, previous, status):
                assert previous is self._seen.get(step_id, StepStatus.PENDING)
                assert status in STEP_TRANSITIONS[previous]
                self._seen[step_id] = status
                if status.is_final:
                    self.asked = [d for d in self.asked if (about_step(d) or ("", "", 0))[1] != step_id]
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
                assert attempt == self.attempt(step_id)
                assert step_id not in self.revising
                self.revising.append(step_id)
            case EndPlan():
                assert not self.running
                self.ends.append(instruction)
            case _:
                assert instruction.step_id in self.running

    def _check_start(self, step_id: str, attempt: int) -> None:
        assert self._seen[step_id] is StepStatus.IN_PROGRESS
        assert attempt == self.attempt(step_id)
        assert len(self.running) < self.max_parallel
        mine = self._claims[step_id]
        for other in self.running:
            assert not claims_overlap(mine, self._claims[other]), f"{step_id} writes beside {other}"
        if mine == ANYTHING:
            assert not any(self._claims[other] for other in self.running)


def started(instructions: Sequence[Instruction]) -> list[str]:
    """Return the steps that these instructions start."""
    return [i.step_id for i in instructions if isinstance(i, StartStep)]
