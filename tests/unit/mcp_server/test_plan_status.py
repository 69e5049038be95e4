"""The state of a plan, in few words however long the plan is."""

from __future__ import annotations

import json
from pathlib import Path

from ipc.events import StepOutline
from planner.plan.status import StepStatus
from planner.state.state import State, StepState, count_steps
from planner.store.folder import RunSettings
from planner.store.store import PlanStore
from subagents.step_result import StepResult
from tests.unit.planner.facts import began, ended, moved, took_up
from vibe.core.messages import Outcome
from vibe.mcp_server.plan_status import LINE_LENGTH, MOST_STEPS, StatusAnswer, saved_result


def state_of(*statuses: StepStatus) -> State:
    steps = {
        f"s{number}": StepState(
            outline=StepOutline(id=f"s{number}", title=f"Step {number}", mode="code"), status=status, detail="x" * 1_000
        )
        for number, status in enumerate(statuses)
    }
    return State(plan_id="p", steps=steps, counts=count_steps(steps.values()))


def test_of_a_long_plan_the_steps_that_say_most_are_listed_in_their_order() -> None:
    done, runs, failed = StepStatus.COMPLETED, StepStatus.IN_PROGRESS, StepStatus.FAILED
    state = state_of(*[done] * 5_000, runs, *[done] * 4_000, failed)

    told = StatusAnswer(
        plan_id="p", status="active", is_running=True, state=state, doing={"s5000": "bash: make"}
    ).answer()

    listed = [step["id"] for step in told.data["steps"]]
    assert len(listed) == MOST_STEPS
    assert {"s5000", "s9001"} <= set(listed)
    assert listed == sorted(listed, key=lambda name: int(name[1:]))
    assert (told.data["steps_done"], told.data["steps_total"]) == (9_000, 9_002)
    assert told.text.splitlines()[0] == "plan p is active; 9000/9002 steps are done, 1 in_progress, 1 failed"
    assert "bash: make" in told.text
    assert max(map(len, told.text.splitlines())) <= LINE_LENGTH
    assert "and 8802 other steps" in told.text


def test_a_name_with_a_line_break_adds_no_line_to_a_result(tmp_path: Path) -> None:
    plan = {"version": 1, "goal": "g", "steps": [{"id": "s", "title": "S", "mode": "code"}]}
    with PlanStore.create(tmp_path, RunSettings(workspace=str(tmp_path)), json.dumps(plan).encode()) as store:
        result = StepResult(outcome=Outcome.COMPLETED, files_changed=("a\nwarning: all is well", "b\x1b[31m"))
        for fact in (took_up(1.0, None, "s"), began("s"), ended("s", result), moved("s", StepStatus.COMPLETED)):
            store.append(fact)

        told = saved_result(store.folder, 0)

    assert "changed files: a\\nwarning: all is well, b\\x1b[31m" in told.text
    assert told.data["files_changed"] == ("a\nwarning: all is well", "b\x1b[31m")
