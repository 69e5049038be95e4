"""Any plan in virtual time, with wishes at any moment, killed and resumed: it ends, and its reports are true."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from hypothesis import HealthCheck, given, settings, strategies as st

from ipc.commands import Act, Cancel, Decide, Pause, Revise, StepAction
from ipc.events import (
    Fact,
    PlanAttemptEvent,
    PlanCompletedEvent,
    PlanPausedEvent,
    PlanResumedEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
)
from planner.plan.status import PlanStatus, StepStatus
from planner.run.control import PlanControl
from planner.run.step_runner import DispatchOptions
from planner.state.decide import preview_next_run
from planner.state.decisions import StepChoice
from planner.state.evolve import fold
from planner.state.outcome import RunResult
from planner.state.state import State, StepState
from planner.store.folder import PlanFolder
from planner.store.journal import read_journal
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.clock import ManualClock
from tests.unit.planner.plan_bench import Bench, plan_of
from tests.unit.planner.scripted_run import choice
from vibe.core.messages import Outcome

DECISIONS = ("p", "q")
OPTIONS = ("x", "y")
RESUMABLE = (PlanStatus.ACTIVE, PlanStatus.PAUSED)
TURNS_BETWEEN = 30
"""The number of turns that every task gets before time passes."""


class PassingClock(ManualClock):
    """A clock that knows when the next sleeper is due."""

    def __init__(self) -> None:
        super().__init__()
        self._until: Counter[float] = Counter()

    def begin(self) -> None:
        """Prepare for another event loop."""
        self._moved = anyio.Event()

    @property
    def next_wake(self) -> float | None:
        """Return the time at which the next sleeper is due, or None if nobody sleeps."""
        return min((until for until, sleepers in self._until.items() if sleepers), default=None)

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        self._until[until] += 1
        try:
            await super().sleep(seconds)
        finally:
            self._until[until] -= 1


@dataclass(frozen=True)
class Wish:
    """Something asked of the run, at a time in virtual seconds from its start."""

    at: float
    kind: str
    what: str = ""
    option: str = ""


@dataclass
class TimedExecutor:
    """Attempts take their time and end as drawn. ``done`` holds the steps that ever completed."""

    clock: PassingClock
    ends: dict[str, list[tuple[Outcome, float]]]
    done: set[str] = field(default_factory=set[str])
    running: set[str] = field(default_factory=set[str])

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Work a second at a time, and look at the stop signal in between."""
        assert task.step_id not in self.done, "what is completed was done again"
        assert task.step_id not in self.running
        script = self.ends.get(task.step_id, [])
        outcome, seconds = script.pop(0) if script else (Outcome.COMPLETED, 1.0)
        self.running.add(task.step_id)
        try:
            while seconds > 0:
                if stop.requested:
                    return StepResult(outcome=Outcome.INTERRUPTED)
                await self.clock.sleep(min(1.0, seconds))
                seconds -= 1.0
        finally:
            self.running.discard(task.step_id)
        if outcome is Outcome.COMPLETED:
            self.done.add(task.step_id)
        return StepResult(outcome=outcome, reason=None if outcome is Outcome.COMPLETED else "drawn")


@dataclass
class Session:
    """One process with the plan: makes the wishes when their time comes, and lets time pass when nobody can work."""

    bench: Bench
    clock: PassingClock
    wishes: list[Wish]
    verdicts: list[str | None] = field(default_factory=list[str | None])
    asked: int = 0

    async def drive(self, control: PlanControl) -> None:
        started = self.clock.now
        while not self.is_over:
            for _ in range(TURNS_BETWEEN):
                await anyio.lowlevel.checkpoint()
            wake = self.clock.next_wake
            if self.wishes and (wake is None or started + self.wishes[0].at <= wake):
                wish = self.wishes.pop(0)
                self.clock.advance(max(0.0, started + wish.at - self.clock.now))
                self.ask(wish, control)
            elif wake is not None:
                self.clock.advance(max(0.0, wake - self.clock.now))
            else:
                await anyio.sleep(0.0005)  # a thread is at work; a run that waits for nothing at all ends in a timeout

    @property
    def is_over(self) -> bool:
        return any(isinstance(event, PlanPausedEvent | PlanCompletedEvent) for event in self.bench.memory.events)

    def ask(self, wish: Wish, control: PlanControl) -> None:
        match wish.kind:
            case "pause":
                control.submit(Pause())
            case "stop":
                control.submit(Pause(grace_seconds=1.5))
            case "cancel":
                control.submit(Cancel())
            case "act":
                self.asked += 1
                act = Act(step_id=wish.what, action=StepAction(wish.option))
                control.submit(act, self.verdicts.append)
            case "revise":
                self.asked += 1
                operations = [{"op": "update_step", "id": wish.what, "changes": {"title": "Other"}}]
                control.submit(Revise(operations=tuple(operations)), self.verdicts.append)
            case _:
                self.asked += 1
                control.submit(Decide(decision_id=self.meant(wish), selections=(wish.option,)), self.verdicts.append)

    def meant(self, wish: Wish) -> str:
        """Return the id of the plan's own decision, or of the last one opened about an attempt at a step."""
        put = [decision for decision in self.bench.decisions() if not decision.selections]
        about = [decision.decision_id for decision in put if decision.kind]
        return about[-1] if wish.what == "step" and about else wish.what


@st.composite
def raw_plans(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    steps: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 6))):
        needs = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=2)) if number else []
        effects = draw(st.sampled_from([False, False, True]))
        raw: dict[str, Any] = {
            "depends_on": [
                {"step": f"s{n}", "on": draw(st.sampled_from(["completed", "completed", "finished", "failed"]))}
                for n in needs
            ],
            "on_failure": draw(st.sampled_from(["stop", "continue", "ask", "ask"])),
            "side_effects": effects,
            "retries": 0 if effects else draw(st.sampled_from([0, 1])),
            "writes": draw(st.sampled_from([[], ["**"], ["a"]])),
        }
        if draw(st.booleans()):
            raw["decision"] = draw(st.sampled_from(DECISIONS))
        if draw(st.booleans()):
            raw["when"] = {draw(st.sampled_from(DECISIONS)): [draw(st.sampled_from(OPTIONS))]}
        steps[f"s{number}"] = raw
    decisions = [
        choice(
            name,
            *OPTIONS,
            timeout_seconds=draw(st.sampled_from([0, 0, 2, 7])),
            default=draw(st.sampled_from([None, "x", "y"])),
        )
        for name in DECISIONS
    ]
    return steps, decisions


ENDS = st.dictionaries(
    st.sampled_from([f"s{n}" for n in range(6)]),
    st.lists(
        st.tuples(
            st.sampled_from([Outcome.COMPLETED, Outcome.FAILED, Outcome.FAILED, Outcome.LIMIT, Outcome.BLOCKED]),
            st.sampled_from([0.0, 1.0, 3.0]),
        ),
        max_size=3,
    ),
)


@st.composite
def wishes(draw: st.DrawFn) -> list[Wish]:
    """Draw at most four wishes, in the order of their times."""
    asked: list[Wish] = []
    for at in sorted(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0, 9.0]), max_size=4))):
        kind = draw(st.sampled_from([*["decide"] * 6, *["act"] * 6, "revise", "revise", "pause", "stop", "cancel"]))
        what, option = f"s{draw(st.integers(0, 5))}", ""
        if kind == "act":
            option = draw(st.sampled_from([action.value for action in StepAction]))
        elif kind == "decide" and draw(st.booleans()):
            what, option = "step", draw(st.sampled_from([choice.value for choice in StepChoice]))
        elif kind == "decide":
            what = draw(st.sampled_from([*DECISIONS, *DECISIONS, "nobody"]))
            option = draw(st.sampled_from([*OPTIONS, *OPTIONS, "z"]))
        asked.append(Wish(at, kind, what, option))
    return asked


async def run_once(bench: Bench, executor: TimedExecutor, asked: Sequence[Wish]) -> RunResult:
    executor.clock.begin()
    session = Session(bench, executor.clock, list(asked))
    outcome = await bench.run(executor, session.drive, clock=executor.clock)
    assert not executor.running
    assert len(session.verdicts) == session.asked
    return outcome


def readers_part(state: State) -> tuple[object, ...]:
    """Return the part of a plan's state that a reader knows who has watched the run from its beginning.

    The log also has the results of earlier runs.
    """

    def shown(step: StepState) -> tuple[object, ...]:
        return step.outline.id, step.outline.title, step.status, step.attempt

    steps = {step_id: shown(step) for step_id, step in state.steps.items()}
    stopping = {step_id: step.stopping for step_id, step in state.steps.items()}
    return state.status, state.reason, state.outcome, steps, stopping, state.counts, state.open, state.stopping


def as_recorded(fact: Fact) -> Fact:
    """Return a fact as it is recorded, where the result of an attempt has a fact of its own."""
    return msgspec.structs.replace(fact, work=None) if isinstance(fact, PlanStepUpdateEvent) else fact


def check(bench: Bench, outcome: RunResult) -> None:
    """Check that the run's result, its journal and its published events agree."""
    facts = read_journal(bench.home / "plans" / bench.plan_id / "journal.jsonl").facts
    begun = max(i for i, fact in enumerate(facts) if isinstance(fact, PlanStartedEvent | PlanResumedEvent))
    told = [event for event in bench.memory.events if isinstance(event, Fact)]
    announced = [fact for fact in facts[begun:] if not isinstance(fact, PlanAttemptEvent)]
    assert sorted(map(msgspec.json.encode, announced)) == sorted(map(msgspec.json.encode, map(as_recorded, told))), (
        "what was announced is not what was recorded"
    )
    attempts = {(fact.step_id, fact.attempt): fact.result for fact in facts if isinstance(fact, PlanAttemptEvent)}
    for fact in told:
        if isinstance(fact, PlanStepUpdateEvent) and fact.work is not None:
            ended = [attempts.get((fact.step_id, number)) for number in (fact.attempt, fact.attempt - 1)]
            summaries = [msgspec.json.decode(raw).get("summary", "") for raw in ended if raw is not None]
            assert fact.work.summary in summaries
    from_log, from_bus = fold(facts, bench.plan_id), fold(told, bench.plan_id)
    assert readers_part(from_bus) == readers_part(from_log)
    assert (from_log.status, from_log.reason) == (outcome.status, outcome.reason)
    assert outcome.reason != "stalled"
    statuses = {report.id: report.status for report in outcome.steps}
    open_steps = {step_id for step_id, status in statuses.items() if not status.is_final}
    bad = (StepStatus.FAILED, StepStatus.CANCELLED)
    spoilt = [r for r in outcome.steps if r.status in bad and not r.tolerated]
    match outcome.status:
        case PlanStatus.COMPLETED:
            assert not open_steps
            assert not spoilt
        case PlanStatus.CANCELLED:
            assert not open_steps
            assert StepStatus.CANCELLED in statuses.values()
        case PlanStatus.FAILED:
            assert spoilt
            assert all(statuses[step_id] is StepStatus.BLOCKED for step_id in open_steps)
        case _:
            assert outcome.status is PlanStatus.PAUSED
            assert any(statuses[step_id] is not StepStatus.BLOCKED for step_id in open_steps)


def stands(bench: Bench, outcome: RunResult) -> None:
    """Check that the plan's folder agrees with the result of the run."""
    state = look_at(bench)
    told = {report.id: report.status for report in outcome.steps}
    assert {step_id: step.status for step_id, step in state.steps.items()} == told
    waits = StepStatus.NEEDS_DECISION in told.values()
    assert bool(state.open) == waits


def look_at(bench: Bench) -> State:
    folder = PlanFolder(bench.home / "plans" / bench.plan_id)
    with bench.open() as store:
        return preview_next_run(folder.state(), store.effective())


def answer_all(bench: Bench) -> None:
    """Answer all open decisions, as a person does who wants the plan done."""
    for decision in list(look_at(bench).open.values()):
        chosen = decision.options[-1] if decision.kind else decision.options[0]
        with bench.open() as store:
            store.take(Decide(decision_id=decision.decision_id, selections=(chosen,)))


def kill_at(bench: Bench, cut: int) -> set[str]:
    """Cut off the end of the journal, and return the steps that are still recorded as completed."""
    path = bench.home / "plans" / bench.plan_id / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: max(2, len(lines) - cut)]))
    for result in path.parent.glob("steps/*/result.json"):
        result.unlink()  # results beside a cut journal are another test's matter
    with bench.open() as store:
        state = preview_next_run(store.folder.state(), store.effective())
    return {name for name, step in state.steps.items() if step.status is StepStatus.COMPLETED}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    raw=raw_plans(),
    ends=ENDS,
    sessions=st.lists(st.tuples(wishes(), st.sampled_from([0, 0, 1, 2, 5, 9])), min_size=1, max_size=3),
    width=st.integers(1, 3),
)
def test_any_plan_in_any_hands_ends_and_its_record_says_how(
    raw: tuple[dict[str, Any], list[dict[str, Any]]],
    ends: dict[str, list[tuple[Outcome, float]]],
    sessions: list[tuple[list[Wish], int]],
    width: int,
) -> None:
    steps, decisions = raw
    with tempfile.TemporaryDirectory() as home:
        clock = PassingClock()
        executor = TimedExecutor(clock, {name: list(acts) for name, acts in ends.items()})
        options = DispatchOptions(now=clock, write_results=False)
        bench = Bench(Path(home), plan_of(steps, decisions=decisions), options=options, max_parallel=width)
        for asked, cut in sessions:
            outcome = anyio.run(run_once, bench, executor, asked)
            check(bench, outcome)
            stands(bench, outcome)
            if cut:
                executor.done = kill_at(bench, cut)
            elif outcome.status not in RESUMABLE:
                return
        for _ in range(12):
            executor.ends.clear()
            with bench.open() as store:
                if store.state().status not in RESUMABLE:
                    return
            answer_all(bench)
            outcome = anyio.run(run_once, bench, executor, ())
            check(bench, outcome)
            stands(bench, outcome)
        raise AssertionError("it is asked for ever")
