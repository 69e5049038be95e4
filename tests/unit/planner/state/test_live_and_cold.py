"""One table of commands, carried out by a run and for a plan that nobody runs, with the same result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipc.commands import Act, Cancel, Decide, Revise, StepAction
from ipc.events import Fact
from planner.plan.status import PlanStatus, StepStatus
from planner.state.commands import Command, Start
from planner.state.decide import carry_out, preview_next_run
from planner.state.state import State
from planner.store.current_plan import effective_plan
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from tests.fakes.executor import failed
from tests.unit.planner.facts import began, ended, moved, took_up
from tests.unit.planner.scripted_run import choice, make_plan, step
from vibe.system.errors import UsageError, VibeError

BUSY = "busy"
"""The step that a run has at work, so that no other starts."""
PLAN = make_plan(
    [
        step(BUSY),
        step("broken", on_failure="ask"),
        step("then", "broken"),
        step("outside", side_effects=True),
        step("chosen", decision="way"),
        step("other", when={"way": ["right"]}),
        step("bad"),
        step("behind", "bad"),
        step("around", {"step": "bad", "on": "failed"}, "other"),
        step("after", "other"),
    ],
    [choice("way", "left", "right")],
)
BEGUN: tuple[Fact, ...] = (
    took_up(1.0, PLAN),
    *(began("broken"), ended("broken", failed(detail="no luck"), left="asking")),
    moved("broken", StepStatus.NEEDS_DECISION, reason="verify", detail="no luck"),
    *(began("bad"), ended("bad", failed(detail="no chance"))),
    moved("bad", StepStatus.FAILED, reason="verify", detail="no chance"),
    began("outside"),
)
"""The records of a process that died: a decision about one step is open, and one step was cut off."""


@dataclass(frozen=True)
class Case:
    name: str
    commands: tuple[Command, ...]
    refused: str = ""


def decide(decision_id: str, *chosen: str) -> Decide:
    return Decide(decision_id=decision_id, selections=chosen)


def revise(*operations: dict[str, Any]) -> Revise:
    return Revise(operations=operations, reason="so")


def act(action: str, step_id: str) -> Act:
    return Act(step_id=step_id, action=StepAction(action), by="me")


CASES = [
    Case("a step that has not run is cancelled", (act("cancel", "other"),)),
    Case("what waits is skipped", (act("skip", "after"),)),
    Case("what waits for a decision is skipped", (act("skip", "chosen"),)),
    Case("a failed step is skipped", (act("skip", "bad"),)),
    Case("a failed step is done again", (act("retry", "bad"),)),
    Case("a failed step is skipped, and done after all", (act("skip", "bad"), act("retry", "bad"))),
    Case("a cancelled step is skipped", (act("cancel", "other"), act("skip", "other"))),
    Case("a cancelled step is done after all", (act("cancel", "other"), act("retry", "other"))),
    Case("cancelled twice", (act("cancel", "after"), act("cancel", "after"))),
    Case("a step that is asked about is skipped", (act("skip", "broken"),)),
    Case("a step that is asked about is done again", (act("retry", "broken"),)),
    Case("a step that is asked about has failed", (act("cancel", "broken"),)),
    Case("what was cut off is cancelled", (act("cancel", "outside"),)),
    Case("what was cut off goes on, as it was asked", (act("retry", "outside"),)),
    Case("a failure is not cancelled", (act("cancel", "bad"),), "can't cancel step 'bad': it is already failed"),
    Case("a skipped step is not cancelled", (act("skip", "bad"), act("cancel", "bad")), "it is already skipped"),
    Case("no step of that name", (act("skip", "beta"),), "'beta'"),
    Case("of a cancelled plan", (Cancel(by="me"), act("skip", "other")), "ended"),
    Case("one of the plan's own", (decide("way", "left"),)),
    Case("two, one after the other", (decide("way", "right"), decide("failed:broken:1", "retry"))),
    Case("a failed step again", (decide("failed:broken:1", "retry"),)),
    Case("without a failed step", (decide("failed:broken:1", "skip"),)),
    Case("a failure stands", (decide("failed:broken:1", "stop"),)),
    Case("what was cut off goes on", (decide("interrupted:outside:1", "again"),)),
    Case("twice", (decide("way", "left"), decide("way", "right")), "decision 'way': already decided: left, by user"),
    Case("no such decision", (decide("wya", "left"),), "open decisions: failed:broken:1, interrupted:outside:1, way"),
    Case("no such option", (decide("way", "up"),), "unknown option 'up'; choose from: left, right"),
    Case("not for a failure", (decide("failed:broken:1", "again"),), "unknown option 'again'"),
    Case("cancelled", (Cancel(by="me"),)),
    Case("another title", (revise({"op": "update_step", "id": "other", "changes": {"title": "Other"}}),)),
    Case("a mended step", (revise({"op": "update_step", "id": "broken", "changes": {"title": "Mended"}}),)),
    Case("what was cut off is another", (revise({"op": "update_step", "id": "outside", "changes": {"title": "O"}}),)),
    Case("one more", (revise({"op": "add_step", "step": step("new", "then")}),)),
    Case("one less", (revise({"op": "remove_step", "id": "then"}),)),
    Case("no such step", (revise({"op": "remove_step", "id": "nobody"}),), "unknown step 'nobody'"),
    Case("no operation", (revise({"op": "fly"}),), "is not one of"),
]


def store_of(home: Path) -> PlanStore:
    source = PLAN.model_dump_json(exclude_unset=True).encode()
    store = PlanStore.create(home, RunSettings(workspace="/w"), source)
    for fact in BEGUN:
        store.append(fact)
    return store


def live(store: PlanStore, commands: tuple[Command, ...]) -> str:
    """Carry the commands out in a run, and return the reason of the first refusal, or ""."""
    state = store.folder.state()
    start = Start(loaded=effective_plan(store.folder, state), width=1, attended=True)
    for command in (start, *commands):
        try:
            carry_out(state, command, 10.0, store.append)
        except VibeError as error:
            return str(error)
    return ""


def cold(store: PlanStore, commands: tuple[Command, ...]) -> str:
    """Carry each command out in the folder, and return the reason of the first refusal, or ""."""
    for command in commands:
        try:
            store.take(command)
        except UsageError as error:
            return str(error)
    return ""


def next_run(store: PlanStore) -> State:
    """Return the plan's state once the next process has taken it up, leaving the step at work aside."""
    state = store.folder.state()
    loaded = effective_plan(store.folder, state)
    if state.status is not PlanStatus.CANCELLED and state.stopping is None:
        carry_out(state, Start(loaded=loaded, width=1, attended=True), 20.0, lambda _: None)
    return preview_next_run(state, loaded)


def shown(state: State) -> dict[str, Any]:
    steps = {
        step_id: (each.status, each.attempt, each.left, each.reason, each.outline.title)
        for step_id, each in state.steps.items()
        if step_id != BUSY
    }
    return {
        "steps": steps,
        "answers": state.answers(),
        "open": sorted(state.open),
        "gone": len(state.removed_for_good()),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_command_comes_to_the_same_live_and_cold(case: Case, tmp_path: Path) -> None:
    with store_of(tmp_path / "live") as running, store_of(tmp_path / "cold") as folder:
        said = live(running, case.commands), cold(folder, case.commands)
        assert said[0] == said[1]
        assert (case.refused in said[0]) if case.refused else not said[0]
        assert shown(next_run(running)) == shown(next_run(folder))


def test_a_refused_command_leaves_no_trace(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        before = (store.folder.path / "journal.jsonl").read_bytes()
        assert cold(store, (decide("way", "up"),))
        assert (store.folder.path / "journal.jsonl").read_bytes() == before
