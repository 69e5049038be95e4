"""From a step of the plan to the StepTask its executor gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from planner.model import Plan, Step, StepStatus
from planner.step_limits import StepLimits
from subagents.executor import StepInput, StepResult, StepTask


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
    step: Step,
    titles: Mapping[str, str],
    status_of: Callable[[str], StepStatus],
    results: Mapping[str, StepResult],
    file_of: Callable[[str], Path] | None = None,
) -> tuple[StepInput, ...]:
    """What the direct dependencies came to, in the order the step names them; one that failed says why.

    ``file_of`` a step's id is where the whole of its result is; None: nowhere but here.
    """
    inputs: list[StepInput] = []
    for dependency in step.dependencies:
        step_id = dependency.step
        file = None if file_of is None else str(file_of(step_id))
        inputs.append(_input(titles[step_id], status_of(step_id), results.get(step_id), (step_id, file)))
    return tuple(inputs)


def _input(title: str, status: StepStatus, result: StepResult | None, place: tuple[str, str | None]) -> StepInput:
    step_id, file = place
    if result is None:
        return StepInput(step_id=step_id, title=title, status=status.value, summary="")
    summary = result.summary or (result.detail if status in (StepStatus.FAILED, StepStatus.SKIPPED) else "")
    return StepInput(
        step_id=step_id,
        title=title,
        status=status.value,
        summary=summary,
        output=result.output,
        files_changed=result.files_changed,
        result_file=file,
    )
