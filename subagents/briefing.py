"""What a step's subagent is told: goal, context, its own prompt, what the steps before it found, and failed checks."""

from __future__ import annotations

import json

from subagents.executor import StepInput, StepTask
from vibe.core.tools.process import CommandResult

MAX_CONTEXT = 8_000
MAX_INPUT = 6_000
MAX_INPUTS = 24_000
"""Characters; about a quarter of that in tokens. What is cut is said, and is whole in the step's result file."""

REPAIR_HEADING = "The host ran this step's checks and one failed."
MAX_CHECK_OUTPUT = 6_000


def first_message(task: StepTask) -> str:
    """The prompt that opens a step."""
    parts = [f"# Goal of the whole plan\n{task.goal}"]
    if task.context:
        parts.append(f"# Context\n{_cut(task.context, MAX_CONTEXT)}")
    if task.inputs:
        parts.append(_inputs(task.inputs))
    parts.append(f"# Your step: {task.title}\n{task.prompt}")
    if task.writes is not None:
        parts.append("You may write only these files: " + (", ".join(task.writes) or "none") + ".")
    if task.verify:
        checks = "\n".join(f"- `{command}`" for command in task.verify)
        parts.append(f"When you are done, the host runs these checks; each must exit with 0:\n{checks}")
    parts.append("Do this step only. End with a short summary that the steps after you can work from.")
    return "\n\n".join(parts)


def repair_message(command: str, result: CommandResult) -> str:
    """The prompt that hands a failed check back."""
    output = _cut_middle((result.stdout + result.stderr).strip() or "(no output)", MAX_CHECK_OUTPUT)
    ended = "ran out of time" if result.timed_out else f"exited with {result.exit_code}"
    return (
        f"{REPAIR_HEADING} Mend the work, not the check.\n\n`{command}` {ended}:\n\n{output}\n\n"
        "End with a short summary when it is mended."
    )


def _inputs(inputs: tuple[StepInput, ...]) -> str:
    share = min(MAX_INPUT, MAX_INPUTS // len(inputs))
    return "# What the steps before this one report\n" + "\n\n".join(_input(one, share) for one in inputs)


def _input(one: StepInput, share: int) -> str:
    lines = [f"## {one.title} ({one.step_id}, {one.status})", _cut(one.summary or "(no summary)", share)]
    if one.output is not None:
        lines.append("Output: " + _cut(json.dumps(one.output, ensure_ascii=False), share))
    if one.files_changed:
        lines.append("Files changed: " + _cut(", ".join(one.files_changed), 1_000))
    return "\n".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit} characters left out]"


def _cut_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
