"""Tasks for step executors."""

from __future__ import annotations

from typing import Any

from subagents.executor import StepTask
from subagents.step_model import Step

ATTEMPT = frozenset({"max_tokens", "max_turns"})
"""Fields that both a step and a task have. Here they are the task's."""


def task_of(step_id: str = "step", **fields: Any) -> StepTask:
    """Return a task for an agent in mode code. ``fields`` are fields of the step or of the task."""
    its = {name: value for name, value in fields.items() if name in Step.model_fields and name not in ATTEMPT}
    own: dict[str, Any] = {"goal": "a goal", "context": "", **{n: v for n, v in fields.items() if n not in its}}
    common: dict[str, Any] = {"id": step_id, "title": f"Step {step_id}", "mode": "code", "prompt": "Do it."}
    return StepTask(step=Step(**{**common, **its}), **own)
