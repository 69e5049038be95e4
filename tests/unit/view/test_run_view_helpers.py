from __future__ import annotations

from typing import Any

from ipc import events as e
from vibe.view.view import View, apply


def test_a_helpers_turns_and_budget_are_not_taken_for_its_steps() -> None:
    view = View()
    outline = e.StepOutline(id="one", title="One", mode="code", status="in_progress")
    apply(view, e.PlanStartedEvent(goal="g", steps=(outline,)))
    own: dict[str, Any] = {"subagent_id": "agent", "subagent_step_id": "one"}
    helper: dict[str, Any] = {"subagent_id": "helper", "subagent_step_id": "one"}
    start: dict[str, Any] = {"title": "t", "mode": "code", "model": "m", "tools": (), "max_turns": 3}
    end: dict[str, Any] = {"outcome": "completed", "reason": None, "turns": 1, "duration_s": 0.0}

    apply(view, e.SubAgentStartedEvent(**start, max_tokens=1_000, **own))
    apply(view, e.AssistantEvent(message_id="1", text="hi", **own))
    apply(view, e.SubAgentStartedEvent(**start, max_tokens=99_000, parent_id="agent", **helper))
    apply(view, e.AssistantEvent(message_id="2", text="ho", **helper))
    apply(view, e.SubAgentFinishedEvent(**end, tokens=77, **helper))

    step = view.plans[""].steps["one"]
    assert (step.max_tokens, step.turns) == (1_000, 1)
    assert step.budget_used != 77
