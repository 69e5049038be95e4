"""From a step of the plan to the StepTask its executor gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from planner.plan.model import Plan, Step, StepStatus
from planner.plan.step_limits import StepLimits
from planner.state.state import StepState
from subagents.executor import StepInput, StepTask


def build_task(plan: Plan, step: Step, attempt: int, inputs: tuple[StepInput, ...], limits: StepLimits) -> StepTask:
    """Everything one attempt at ``step`` needs to know."""
    return StepTask(
        step=step,
        goal=plan.goal,
        context=plan.context,
        max_tokens=limits.max_tokens,
        max_turns=limits.max_turns,
        attempt=attempt,
        inputs=inputs,
    )


def gather_inputs(
    step: Step, steps: Mapping[str, StepState], file_of: Callable[[str], Path] | None = None
) -> tuple[StepInput, ...]:
    """Return what the direct dependencies came to, in the order the step names them; one that failed says why.

    ``file_of`` a step's id is where the whole of its result is; None: nowhere but here.
    """
    return tuple(
        _input(steps[dependency.step], None if file_of is None else str(file_of(dependency.step)))
        for dependency in step.dependencies
    )


def _input(step: StepState, file: str | None) -> StepInput:
    step_id, title, result = step.outline.id, step.outline.title, step.result
    if result is None:
        return StepInput(step_id=step_id, title=title, status=step.status.value, summary="")
    told = step.status is not StepStatus.COMPLETED
    return StepInput(
        step_id=step_id,
        title=title,
        status=step.status.value,
        summary=result.summary or (result.detail if told else ""),
        output=result.output,
        files_changed=result.files_changed,
        result_file=file,
    )
