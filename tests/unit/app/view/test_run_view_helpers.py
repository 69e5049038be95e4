from __future__ import annotations

from typing import Any

from ipc import events as e
from vibe.app.view.run_view import RunView


def test_a_helpers_turns_and_budget_are_not_taken_for_its_steps() -> None:
    state = RunView()
    outline = e.StepOutline(id="one", title="One", mode="code", status="in_progress")
    state.apply(e.PlanStartedEvent(goal="g", steps=(outline,)))
    own: dict[str, Any] = {"subagent_id": "agent", "subagent_step_id": "one"}
    helper: dict[str, Any] = {"subagent_id": "helper", "subagent_step_id": "one"}
    start: dict[str, Any] = {"title": "t", "mode": "code", "model": "m", "tools": (), "max_turns": 3}
    end: dict[str, Any] = {"outcome": "completed", "reason": None, "turns": 1, "duration_s": 0.0}

    state.apply(e.SubAgentStartedEvent(**start, max_tokens=1_000, **own))
    state.apply(e.AssistantEvent(message_id="1", text="hi", **own))
    state.apply(e.SubAgentStartedEvent(**start, max_tokens=99_000, parent_id="agent", **helper))
    state.apply(e.AssistantEvent(message_id="2", text="ho", **helper))
    state.apply(e.SubAgentFinishedEvent(**end, tokens=77, **helper))

    step = state.steps["one"]
    assert (step.max_tokens, step.turns) == (1_000, 1)
    assert step.budget_used != 77
