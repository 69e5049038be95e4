"""Any plan, killed after any record: done steps stay done, cut-off ones are asked about, and all of it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, PlanStatus, Step, StepStatus
from planner.plan.operations import Operation, RevisionInvalidError, read_operations
from planner.plan.revision import revise
from planner.state.changes import fixed_steps
from planner.state.decide import preview_next_run
from planner.state.decisions import choices_of
from planner.state.state import State
from tests.unit.planner.scripted_run import ScriptedRun, about_step, choice, make_plan
from tests.unit.planner.told import (
    DecisionTaken,
    EndPlan,
    Instruction,
    PauseRequested,
    PlanReplaced,
    RetryDue,
    RevisionRefused,
    SchedulerEvent,
    StartStep,
    StepEnded,
)
from vibe.core.messages import Outcome

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
    """The parts that all processes of one plan share: its journal, and the work done outside."""

    data: st.DataObject
    source: Plan
    journal: list[bytes] = field(default_factory=list[bytes])
    patience: int = 12

    def draw_from(self, choices: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def preview_next_run(self) -> tuple[Plan, State]:
        """Return the plan and its state as its journal has them now."""
        run = ScriptedRun(self.source, journal=self.journal)
        plan = self.source
        for revision in run.state.revisions:
            plan = revise(plan, read_operations(list(revision.operations))).plan
        loaded = LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=b"", where="test")
        return plan, preview_next_run(run.state, loaded)


class Process:
    """Resumes the plan from the journal, and continues until the plan ends or the world runs out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plan, found = world.preview_next_run()
        self.done = {s for s, step in found.steps.items() if step.status is StepStatus.COMPLETED}
        self.forbidden = {decision.step_id for decision in found.open.values() if decision.kind}
        self.revisions = len(found.revisions)
        self.run_ = ScriptedRun(self.plan, max_parallel=2, journal=world.journal, wait_for_decisions=True)
        self.running: dict[str, int] = {}

    def run(self) -> EndPlan:
        self.take(self.run_.start())
        while not self.run_.ends:
            self.take(self.run_.send(self.next_event()))
        self.world.journal = self.run_.journal
        return self.run_.ends[0]

    def take(self, said: Sequence[Instruction]) -> None:
        for instruction in said:
            if isinstance(instruction, StartStep):
                step_id = instruction.step_id
                assert step_id not in self.done, "what is completed was done again"
                assert step_id not in self.forbidden, "what somebody must allow was done without"
                self.running[step_id] = instruction.attempt
        self.forbidden |= {about[1] for name in self.run_.asked if (about := about_step(name)) is not None}

    def next_event(self) -> SchedulerEvent:
        kinds = ["end"] * 3 * bool(self.running) + ["retry"] * bool(self.run_.open_retries)
        kinds += ["answer"] * bool(self.run_.asked) + ["revise"] * bool(self.run_.revising)
        assert kinds, "the scheduler waits for nothing that could come"
        if self.world.patience > 0:
            kinds.append("pause")
        kind = self.world.draw_from(kinds)
        if kind == "end":
            return self.ending(self.world.draw_from(sorted(self.running)))
        if kind == "retry":
            return RetryDue(self.run_.open_retries.pop())
        if kind == "answer":
            return self.answer(self.run_.asked[0])
        if kind == "revise":
            return self.revision(self.run_.revising[0])
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
        del self.running[step_id]
        return ended

    def answer(self, decision_id: str) -> DecisionTaken:
        about = about_step(decision_id)
        if about is None:
            chosen = self.world.draw_from(["x", "y"])
        else:
            chosen = self.world.draw_from(choices_of(about[0])).value
            self.forbidden.discard(about[1])
        return DecisionTaken(decision_id, (chosen,), "user")

    def revision(self, step_id: str) -> PlanReplaced | RevisionRefused:
        kind = self.world.draw_from(["refuse", "mend", "wait", "replace", "elsewhere"])
        if kind == "refuse" or self.revisions >= MOST_REVISIONS:
            return RevisionRefused(step_id, "none")
        self.revisions += 1
        operations = self.operations(kind, step_id, f"n{self.revisions}")
        try:
            loaded = revise(self.plan, operations, fixed=fixed_steps(self.run_.state))
        except RevisionInvalidError:
            return RevisionRefused(step_id, "does not fit")
        replaced = PlanReplaced(loaded.plan, loaded.dag, operations=operations, answers=step_id)
        touched = replaced.touched
        self.plan = loaded.plan
        self.run_.revising = [s for s in self.run_.revising if s not in touched | {step_id}]
        self.run_.asked = [name for name in self.run_.asked if (about_step(name) or ("", "", 0))[1] not in touched]
        self.forbidden -= touched
        return replaced

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

    def step(self, step_id: str) -> Step:
        return next(step for step in self.plan.steps if step.id == step_id)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plan=plans(), data=st.data())
def test_a_plan_that_dies_anywhere_goes_on_where_it_was_and_ends(plan: Plan, data: st.DataObject) -> None:
    world = World(data, plan)
    for _ in range(data.draw(st.integers(0, 4))):
        Process(world).run()
        world.journal = world.journal[: data.draw(st.integers(0, len(world.journal)))]
    last = Process(world)
    while (end := last.run()).status is PlanStatus.PAUSED:
        last = Process(world)
    assert end.status in (PlanStatus.COMPLETED, PlanStatus.FAILED)
    assert end.reason != "stalled"
    _, found = world.preview_next_run()
    assert {s: (step.status, step.attempt) for s, step in found.steps.items()} == {
        s: (step.status, step.attempt) for s, step in last.run_.state.steps.items()
    }
    assert found.counts == last.run_.state.counts
    assert not found.open
