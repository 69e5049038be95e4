"""The state of a plan, in few words however long the plan is."""

from __future__ import annotations

from ipc.events import StepOutline
from planner.plan.status import StepStatus
from planner.state.state import State, StepState, count_steps
from vibe.mcp_server.plan_status import LINE_LENGTH, MOST_STEPS, StatusAnswer


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
