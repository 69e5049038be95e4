"""Any plan whose process dies after any record: what is done stays done, what was cut off is asked about, all ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.dag import Dag
from planner.decisions import attempt_of, choices_of
from planner.edits import fixed_steps
from planner.failure_policy import Follows, follows, unfinished_after
from planner.instructions import (
    DecisionTaken,
    EndPlan,
    Instruction,
    MoveStep,
    OpenDecision,
    PauseRequested,
    PlanReplaced,
    RetryDue,
    RevisionRefused,
    SchedulerEvent,
    StartStep,
    StepEnded,
    WaitForRetry,
)
from planner.journal import JournalContent
from planner.model import Plan, PlanStatus, Step, StepStatus
from planner.operations import Operation, RevisionInvalidError, plain_operations, read_operations
from planner.records import AttemptEnded, DecisionMade, JournalRecord, PlanRevised, StepMoved
from planner.replay import restore
from planner.revision import revise
from planner.scheduler import Scheduler
from planner.standing import standing_of
from subagents.executor import StepResult
from tests.unit.planner.scripted_run import choice, make_plan
from vibe.core.outcome import Outcome

MOST_REVISIONS = 3


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 6))):
        needs = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=2)) if number else []
        effects = draw(st.sampled_from([False, False, True]))
        steps.append({
            "id": f"s{number}",
            "title": "a step",
            "mode": draw(st.sampled_from(["code", "research"])),
            "depends_on": [
                {"step": f"s{n}", "on": draw(st.sampled_from(["completed", "completed", "finished", "failed"]))}
                for n in needs
            ],
            "side_effects": effects,
            "on_failure": draw(st.sampled_from(["stop", "continue", "ask"] + ["replan"] * (not effects))),
            "retries": 0 if effects else draw(st.sampled_from([0, 0, 1])),
            **({"decision": "p"} if draw(st.integers(0, 5)) == 0 else {}),
        })
    return make_plan(steps, [choice("p", "x", "y")])


@dataclass
class World:
    """What the processes of one plan have in common: its journal, and what was done outside."""

    data: st.DataObject
    source: Plan
    records: list[JournalRecord] = field(default_factory=list[JournalRecord])
    patience: int = 12

    def draw_from(self, choices: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(choices))


class Process:
    """Takes the plan up from the journal, as the dispatcher does, and goes on until it ends or the world runs out."""

    def __init__(self, world: World) -> None:
        self.world = world
        restored = restore(JournalContent(records=world.records, dropped=(), length=0, unfinished=False))
        self.plan = world.source
        for revision in restored.revisions:
            self.plan = revise(self.plan, read_operations(list(revision.operations))).plan
        self.done = {s for s, was in restored.steps.items() if was.status is StepStatus.COMPLETED}
        asking = standing_of(self.plan, restored).open_decisions
        self.forbidden = {about[1] for decision in asking if (about := attempt_of(decision.id)) is not None}
        self.revisions = len(restored.revisions)
        self.scheduler = Scheduler(
            self.plan,
            Dag.build(self.plan.steps),
            max_parallel=2,
            restored=restored.steps,
            decisions=restored.decisions,
            wait_for_decisions=True,
        )
        self.running: dict[str, int] = {}
        self.retries: list[str] = []
        self.asked: list[str] = []
        self.revising: list[str] = []
        self.end: EndPlan | None = None

    def run(self) -> EndPlan:
        self.take(self.scheduler.start())
        while self.end is None:
            self.send(self.next_event())
        return self.end

    def take(self, said: Sequence[Instruction]) -> None:
        assert self.end is None or not said
        for instruction in said:
            match instruction:
                case MoveStep(step_id, previous, status, reason, detail, attempt):
                    if status is not StepStatus.PENDING and step_id in self.revising:
                        self.revising.remove(step_id)
                    self.record(
                        StepMoved(
                            at=1.0,
                            step_id=step_id,
                            previous=previous,
                            status=status,
                            reason=reason,
                            detail=detail,
                            attempt=attempt,
                        )
                    )
                case StartStep(step_id, attempt):
                    assert step_id not in self.done, "what is completed was done again"
                    assert step_id not in self.forbidden, "what somebody must allow was done without"
                    self.done -= {step_id}
                    self.running[step_id] = attempt
                case WaitForRetry(step_id):
                    self.retries.append(step_id)
                case OpenDecision(decision_id):
                    self.asked.append(decision_id)
                    about = attempt_of(decision_id)
                    if about is not None:
                        self.forbidden.add(about[1])
                case EndPlan():
                    self.end = instruction
                case _:
                    self.revising.append(instruction.step_id)

    def record(self, record: JournalRecord) -> None:
        self.world.records.append(record)

    def send(self, event: SchedulerEvent) -> None:
        self.take(self.scheduler.handle(event))

    def next_event(self) -> SchedulerEvent:
        kinds = ["end"] * 3 * bool(self.running) + ["retry"] * bool(self.retries)
        kinds += ["answer"] * bool(self.asked) + ["revise"] * bool(self.revising)
        assert kinds, "the scheduler waits for nothing that could come"
        if self.world.patience > 0:
            kinds.append("pause")
        kind = self.world.draw_from(kinds)
        if kind == "end":
            return self.ending(self.world.draw_from(sorted(self.running)))
        if kind == "retry":
            return RetryDue(self.retries.pop())
        if kind == "answer":
            return self.answer(self.asked.pop(0))
        if kind == "revise":
            return self.revision(self.revising[0])
        self.world.patience -= 1
        return PauseRequested("asked")

    def ending(self, step_id: str) -> StepEnded:
        step = self.step(step_id)
        kinds = [Outcome.COMPLETED]
        if self.world.patience > 0:
            kinds += [Outcome.FAILED, Outcome.FAILED, Outcome.INTERRUPTED, Outcome.LIMIT]
        outcome = self.world.draw_from(kinds)
        self.world.patience -= outcome is not Outcome.COMPLETED
        cut = outcome is Outcome.INTERRUPTED and self.world.draw_from([True, False])
        ended = StepEnded(step_id, outcome, "word", "words", cut=cut)
        if cut and step.side_effects:
            self.forbidden.add(step_id)
        attempt = self.running.pop(step_id)
        what = follows(step, attempt, ended)
        result = StepResult(outcome=outcome, reason="word", detail="words")
        self.record(
            AttemptEnded(
                at=1.0,
                step_id=step_id,
                attempt=attempt,
                result=result,
                retry=what is Follows.RETRY,
                unfinished=unfinished_after(what, ended),
            )
        )
        return ended

    def answer(self, decision_id: str) -> DecisionTaken:
        about = attempt_of(decision_id)
        if about is None:
            chosen = self.world.draw_from(["x", "y"])
        else:
            chosen = self.world.draw_from(choices_of(about[0])).value
            self.forbidden.discard(about[1])
        taken = DecisionTaken(decision_id, (chosen,), "user")
        self.record(DecisionMade(at=1.0, decision_id=decision_id, selections=(chosen,), by="user"))
        return taken

    def revision(self, step_id: str) -> PlanReplaced | RevisionRefused:
        kind = self.world.draw_from(["refuse", "mend", "wait", "replace", "elsewhere"])
        if kind == "refuse" or self.revisions >= MOST_REVISIONS:
            return RevisionRefused(step_id, "none")
        self.revisions += 1
        operations = self.operations(kind, step_id, f"n{self.revisions}")
        fixed = fixed_steps(self.scheduler.statuses())
        try:
            loaded = revise(self.plan, operations, fixed=fixed)
        except RevisionInvalidError:
            return RevisionRefused(step_id, "does not fit")
        self.record(PlanRevised(at=1.0, operations=plain_operations(operations), by="replan", step_id=step_id))
        record = self.world.records[-1]
        assert isinstance(record, PlanRevised)
        known = {step.id for step in self.plan.steps}
        self.plan = loaded.plan
        self.revising = [s for s in self.revising if s not in record.changed() | record.removed() | {step_id}]
        self.asked = [a for a in self.asked if not self.is_about(a, record.changed() | record.removed())]
        self.forbidden -= record.changed() | record.removed()
        return PlanReplaced(loaded.plan, loaded.dag, record.changed() & known, answers=step_id)

    def operations(self, kind: str, step_id: str, new_id: str) -> tuple[Operation, ...]:
        new = {"id": new_id, "title": "new", "mode": "research"}
        if kind == "mend":
            return read_operations([{"op": "update_step", "id": step_id, "changes": {"title": "mended"}}])
        if kind == "wait":
            edge = {"op": "add_edge", "step": step_id, "depends_on": {"step": new_id}}
            return read_operations([{"op": "add_step", "step": new}, edge])
        if kind == "elsewhere":
            return read_operations([{"op": "add_step", "step": new}])
        edges = [
            operation
            for step in self.plan.steps
            for edge in step.dependencies
            if edge.step == step_id
            for operation in (
                {"op": "remove_edge", "step": step.id, "depends_on": step_id},
                {"op": "add_edge", "step": step.id, "depends_on": {"step": new_id}},
            )
        ]
        return read_operations([{"op": "add_step", "step": new}, *edges, {"op": "remove_step", "id": step_id}])

    @staticmethod
    def is_about(decision_id: str, step_ids: frozenset[str]) -> bool:
        about = attempt_of(decision_id)
        return about is not None and about[1] in step_ids

    def step(self, step_id: str) -> Step:
        return next(step for step in self.plan.steps if step.id == step_id)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plan=plans(), data=st.data())
def test_a_plan_that_dies_anywhere_goes_on_where_it_was_and_ends(plan: Plan, data: st.DataObject) -> None:
    world = World(data, plan)
    for _ in range(data.draw(st.integers(0, 4))):
        Process(world).run()
        world.records = world.records[: data.draw(st.integers(0, len(world.records)))]
    last = Process(world)
    while (end := last.run()).status is PlanStatus.PAUSED:
        last = Process(world)
    assert end.status in (PlanStatus.COMPLETED, PlanStatus.FAILED)
    assert end.reason != "stalled"
    restored = restore(JournalContent(records=world.records, dropped=(), length=0, unfinished=False))
    standing = standing_of(last.plan, restored)
    assert standing.statuses == {step.id: last.scheduler.step_status(step.id) for step in last.plan.steps}
    attempts = {step_id: max(1, was.attempt) for step_id, was in restored.steps.items()}
    assert attempts == {step_id: last.scheduler.attempt(step_id) for step_id in attempts}
    assert standing.counts() == last.scheduler.counts()
    assert not standing.open_decisions
