"""Tasks for executors."""

from __future__ import annotations

from typing import Any

from subagents.executor import StepTask
from subagents.step_model import Step

ATTEMPT = frozenset({"max_tokens", "max_turns"})
"""Of a step and of a task: here they are the task's."""


def task_of(step_id: str = "step", **fields: Any) -> StepTask:
    """A task for an agent, in mode code with room enough; ``fields`` are the step's or the task's."""
    its = {name: value for name, value in fields.items() if name in Step.model_fields and name not in ATTEMPT}
    own: dict[str, Any] = {"goal": "a goal", "context": "", **{n: v for n, v in fields.items() if n not in its}}
    common: dict[str, Any] = {"id": step_id, "title": f"Step {step_id}", "mode": "code", "prompt": "Do it."}
    return StepTask(step=Step(**{**common, **its}), **own)
