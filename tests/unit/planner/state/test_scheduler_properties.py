"""Any plan with any runner: nothing starts early, nothing is left over, everything ends, and always in the same way."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from ipc.commands import StepAction
from planner.plan.diagnostics import PlanEndedError
from planner.plan.model import Plan, PlanStatus, Step, StepStatus
from planner.plan.write_claims import claim_of, claims_overlap
from planner.state.changes import StepActError
from planner.state.decisions import StepChoice, choices_of
from tests.unit.planner.scripted_run import ScriptedRun, about_step, choice, make_plan
from tests.unit.planner.told import (
    Act,
    CancelRequested,
    DecisionTaken,
    Instruction,
    MoveStep,
    PauseRequested,
    PlanReplaced,
    RetryDue,
    RevisionRefused,
    SchedulerEvent,
    StartStep,
    StepEnded,
)
from vibe.core.messages import Outcome

DECISIONS = ("p", "q")
OPTIONS = ("x", "y")
BAD = (StepStatus.FAILED, StepStatus.CANCELLED)
WRITES: tuple[list[str] | None, ...] = (
    None,
    [],
    ["src/a"],
    ["src/**"],
    ["docs/*.md"],
    ["src/b", "docs/x.md"],
    ["**/*.md"],
)
END_KINDS = (
    *("completed", "completed", "completed", "failed", "failed", "limit", "blocked", "interrupted", "cut", "refused"),
)


@st.composite
def raw_steps(draw: st.DrawFn, number: int) -> dict[str, Any]:
    needs = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3)) if number else []
    raw: dict[str, Any] = {
        "id": f"s{number}",
        "title": "a step",
        "mode": draw(st.sampled_from(["code", "research", "run", "docs"])),
        "depends_on": [
            {"step": f"s{n}", "on": draw(st.sampled_from(["completed", "completed", "finished", "failed"]))}
            for n in needs
        ],
        "writes": draw(st.sampled_from(WRITES)),
        "on_failure": draw(st.sampled_from(["stop", "continue", "stop", "continue", "ask", "replan"])),
        "retries": draw(st.sampled_from([0, 0, 1, 2])),
        "side_effects": draw(st.sampled_from([False, False, False, True])),
        "priority": draw(st.sampled_from([0, 0, 0, 3, -3])),
    }
    if draw(st.integers(0, 4)) == 0:
        raw["decision"] = draw(st.sampled_from(DECISIONS))
    if draw(st.integers(0, 4)) == 0:
        raw["when"] = {draw(st.sampled_from(DECISIONS)): [draw(st.sampled_from(OPTIONS))]}
    return raw


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    size = draw(st.integers(1, 9))
    return make_plan([draw(raw_steps(n)) for n in range(size)], [choice(d, *OPTIONS) for d in DECISIONS])


@dataclass
class RandomRunner:
    """Answers the scheduler at random, and checks each of its instructions."""

    run: ScriptedRun
    data: st.DataObject
    fail_fast: bool
    may_stop: bool
    patience: int = 6
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    events: list[SchedulerEvent] = field(default_factory=list[SchedulerEvent])
    stopping: bool = False
    granted: Counter[str] = field(default_factory=Counter[str])
    """Attempts that somebody allowed beyond a step's retries."""
    waived: set[str] = field(default_factory=set[str])
    wanted: dict[str, StepStatus] = field(default_factory=dict[str, StepStatus])
    """The status that running steps should get once they are stopped."""

    def go(self) -> None:
        self.check(self.run.start())
        while not self.run.ends:
            event = self.next_event()
            self.events.append(event)
            self.check(self.act(event) if isinstance(event, Act) else self.run.send(event))

    def next_event(self) -> SchedulerEvent:
        undecided = [d for d in DECISIONS if d not in self.taken]
        kinds = ["end"] * 4 * bool(self.run.running) + ["retry"] * 3 * bool(self.run.open_retries)
        asked = [d for d in undecided if d in self.run.asked]
        about = [d for d in self.run.asked if about_step(d) is not None]
        kinds += ["answer"] * 3 * bool(about) + ["revise"] * 3 * bool(self.run.revising)
        kinds += ["decide"] * bool(undecided and (kinds or asked))
        assert kinds, "the scheduler waits for nothing that could come"
        if self.may_stop:
            kinds += ["pause", "cancel"]
        if self.patience > 0:
            kinds += ["act"]
        kind = self.data.draw(st.sampled_from(kinds))
        if kind == "end":
            return self.ending(self.data.draw(st.sampled_from(self.run.running)))
        if kind == "retry":
            return RetryDue(self.data.draw(st.sampled_from(self.run.open_retries)))
        if kind == "answer":
            return self.answer(self.data.draw(st.sampled_from(about)))
        if kind == "revise":
            return self.revision(self.data.draw(st.sampled_from(self.run.revising)))
        if kind == "act":
            self.patience -= 1
            step_id = self.data.draw(st.sampled_from([step.id for step in self.run.plan.steps]))
            return Act(step_id=step_id, action=self.data.draw(st.sampled_from(StepAction)))
        if kind == "decide":
            decision = self.data.draw(st.sampled_from(asked if asked and not self.run.running else undecided))
            self.taken[decision] = (self.data.draw(st.sampled_from(OPTIONS)),)
            return DecisionTaken(decision, self.taken[decision], "user")
        self.stopping = True
        return PauseRequested("asked") if kind == "pause" else CancelRequested("asked")

    def act(self, event: Act) -> list[Instruction]:
        """Act on a step, and check that it happens at once, or when the step has stopped, or is refused."""
        before, was_asked = self.run.status(event.step_id), self.run.state.steps[event.step_id].asked
        attempt = self.run.attempt(event.step_id)
        is_given_up = self.run.state.standing is PlanStatus.CANCELLED
        try:
            said = self.run.send(event)
        except StepActError:
            assert event.action is StepAction.RETRY or before.is_final
            return []
        if is_given_up:
            assert said == [], "a plan that is being cancelled takes no more of it"
            return said
        wanted = {StepAction.CANCEL: StepStatus.CANCELLED, StepAction.SKIP: StepStatus.SKIPPED}.get(event.action)
        if event.action is StepAction.SKIP and before is not StepStatus.SKIPPED:
            self.waived.add(event.step_id)
        if event.action is StepAction.RETRY:
            self.granted[event.step_id] += before.is_final or was_asked is not None
            again = [i.step_id for i in said if isinstance(i, MoveStep) and i.previous.is_final]
            self.granted.update(step_id for step_id in again if step_id != event.step_id)
            self.waived.discard(event.step_id)
            assert self.run.attempt(event.step_id) >= attempt
        elif before is StepStatus.IN_PROGRESS:
            assert wanted is not None
            self.wanted[event.step_id] = wanted
        else:
            moved = [i.status for i in said if isinstance(i, MoveStep) and i.step_id == event.step_id]
            assert moved[:1] in ([wanted], [] if before is wanted else [StepStatus.FAILED if was_asked else wanted])
        return said

    def answer(self, decision_id: str) -> DecisionTaken:
        about = about_step(decision_id)
        assert about is not None
        self.patience -= 1
        chosen = self.data.draw(st.sampled_from(choices_of(about[0]))) if self.patience > 0 else StepChoice.STOP
        self.granted[about[1]] += chosen is StepChoice.RETRY
        if chosen is StepChoice.SKIP:
            self.waived.add(about[1])
        return DecisionTaken(decision_id, (chosen.value,), "user")

    def revision(self, step_id: str) -> PlanReplaced | RevisionRefused:
        self.patience -= 1
        if self.patience <= 0 or self.data.draw(st.booleans()):
            return RevisionRefused(step_id)
        self.granted[step_id] += 1
        return PlanReplaced(self.run.plan, self.run.dag, frozenset({step_id}), answers=step_id)

    def ending(self, step_id: str) -> StepEnded:
        kind = self.data.draw(st.sampled_from(END_KINDS))
        if kind in ("interrupted", "cut", "refused"):
            self.patience -= 1
            kind = kind if self.patience > 0 and (self.may_stop or kind != "refused") else "completed"
        if kind == "cut":
            return StepEnded(step_id, Outcome.INTERRUPTED, cut=True)
        if kind == "refused":
            self.stopping = True
            return StepEnded(step_id, Outcome.FAILED, provider_refused=True)
        return StepEnded(step_id, Outcome(kind))

    # --- invariants -----------------------------------------------------------------------------------------

    def check(self, said: list[Instruction]) -> None:
        steps = {step.id: step for step in self.run.plan.steps}
        for instruction in said:
            if isinstance(instruction, StartStep):
                assert not self.stopping
                step = steps[instruction.step_id]
                retries = 0 if step.side_effects else step.retries
                assert instruction.attempt <= retries + 1 + self.granted[step.id]
                assert self.may_start(steps[instruction.step_id])
            if isinstance(instruction, MoveStep) and instruction.previous is StepStatus.IN_PROGRESS:
                wanted = self.wanted.pop(instruction.step_id, StepStatus.COMPLETED)
                given_up = self.stopping and instruction.status is StepStatus.CANCELLED  # with the whole plan
                assert given_up or StepStatus.COMPLETED in (wanted, instruction.status) or instruction.status is wanted
            if isinstance(instruction, MoveStep) and instruction.status is StepStatus.SKIPPED:
                assert instruction.step_id in self.waived or self.must_skip(steps[instruction.step_id])
        if not (self.run.ends or self.stopping or self.fail_fast):
            self.check_nothing_idles()

    def check_nothing_idles(self) -> None:
        claims = {step.id: claim_of(step) for step in self.run.plan.steps}
        for step in self.run.plan.steps:
            status = self.run.status(step.id)
            about = {found[1] for d in self.run.asked if (found := about_step(d)) is not None}
            waits = step.id in about or step.id in self.run.open_retries or step.id in self.run.revising
            if status.is_final or step.id in self.run.running or waits:
                continue
            assert not self.must_skip(step)
            if self.may_start(step) and len(self.run.running) < self.run.max_parallel:
                assert any(claims_overlap(claims[step.id], claims[other]) for other in self.run.running)

    def status(self, step_id: str) -> StepStatus:
        return self.run.status(step_id)

    def may_start(self, step: Step) -> bool:
        edges = [(self.run.status(e.step), e.on, e.step) for e in step.dependencies]
        needed = {*(step.when or {}), *([step.decision] if step.decision else [])}
        return (
            all(self.holds(status, on, other) for status, on, other in edges)
            and (not edges or any(self.ran(status, other) for status, _, other in edges))
            and needed <= set(self.taken)
            and not self.when_is_broken(step)
        )

    def ran(self, status: StepStatus, step_id: str) -> bool:
        return status is not StepStatus.SKIPPED or step_id in self.waived

    def holds(self, status: StepStatus, on: str, step_id: str) -> bool:
        continues = next(s for s in self.run.plan.steps if s.id == step_id).on_failure == "continue"
        failed = status in (StepStatus.FAILED, StepStatus.CANCELLED)
        return {
            "completed": status is StepStatus.COMPLETED or (failed and continues),
            "finished": status.is_final,
            "failed": failed,
        }[on] or status is StepStatus.SKIPPED

    def when_is_broken(self, step: Step) -> bool:
        return any(d in self.taken and not set(self.taken[d]) & set(o) for d, o in (step.when or {}).items())

    def must_skip(self, step: Step) -> bool:
        ends = [(self.status(e.step), e.on, e.step) for e in step.dependencies]
        never = any(on == "failed" and status is StepStatus.COMPLETED for status, on, _ in ends)
        all_skipped = bool(ends) and not any(self.ran(status, other) for status, _, other in ends)
        return never or all_skipped or self.when_is_broken(step)

    def check_end(self) -> None:
        plan_status, reason = self.run.ends[0].status, self.run.ends[0].reason
        assert self.run.state.status is plan_status
        open_steps = self.run.state.open_steps()
        if plan_status is PlanStatus.CANCELLED:
            assert not open_steps
        good = {StepStatus.COMPLETED, StepStatus.SKIPPED}
        bad = [
            step.id
            for step in self.run.plan.steps
            if self.status(step.id) not in good and not (self.status(step.id) in BAD and step.on_failure == "continue")
        ]
        if plan_status is PlanStatus.CANCELLED:
            assert StepStatus.CANCELLED in self.run.statuses().values()
            return
        assert (plan_status is PlanStatus.COMPLETED) == (not bad)
        assert reason != "stalled"
        assert open_steps == [s.id for s in self.run.plan.steps if not self.status(s.id).is_final]
        if plan_status is PlanStatus.PAUSED:
            assert any(self.status(step_id) is not StepStatus.BLOCKED for step_id in open_steps)
        if plan_status is PlanStatus.FAILED and not self.fail_fast:
            assert all(self.status(step_id) is StepStatus.BLOCKED for step_id in open_steps)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(plan=plans(), data=st.data(), max_parallel=st.integers(1, 4), fail_fast=st.booleans(), may_stop=st.booleans())
def test_any_plan_runs_by_the_rules_ends_once_and_can_be_resumed(
    *, plan: Plan, data: st.DataObject, max_parallel: int, fail_fast: bool, may_stop: bool
) -> None:
    options: dict[str, Any] = {"max_parallel": max_parallel, "fail_fast": fail_fast, "wait_for_decisions": True}
    first = RandomRunner(ScriptedRun(plan, **options), data, fail_fast=fail_fast, may_stop=may_stop)
    first.go()
    first.check_end()
    again = ScriptedRun(plan, **options)
    again.start()
    for event in first.events:
        with suppress(StepActError, PlanEndedError):
            again.send(event)
    assert again.said == first.run.said

    if first.run.ends[0].status not in (PlanStatus.PAUSED, PlanStatus.FAILED):
        return
    resumed = ScriptedRun(plan, max_parallel=max_parallel, journal=first.run.journal, wait_for_decisions=True)
    second = RandomRunner(resumed, data, fail_fast=False, may_stop=False, taken=dict(first.taken))
    second.granted, second.waived, second.patience = Counter(first.granted), set(first.waived), 0
    second.go()
    second.check_end()
    assert resumed.ends[0].status in (PlanStatus.COMPLETED, PlanStatus.FAILED)
    was_final = {step.id for step in plan.steps if first.status(step.id).is_final}
    assert not was_final & {i.step_id for i in resumed.said if isinstance(i, (MoveStep, StartStep))}


@settings(max_examples=60, deadline=None)
@given(plan=plans(), data=st.data())
def test_a_plan_nobody_answers_is_paused_for_its_decisions_or_ends(plan: Plan, data: st.DataObject) -> None:
    run = ScriptedRun(plan, max_parallel=3)
    run.start()
    while not run.ends:
        if run.running:
            run.send(StepEnded(data.draw(st.sampled_from(run.running)), Outcome.COMPLETED))
    waits = "needs_decision" in run.state.counted()
    assert run.ended == ((PlanStatus.PAUSED, "decision") if waits else (PlanStatus.COMPLETED, None))
