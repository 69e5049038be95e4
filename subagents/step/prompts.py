"""The prompts of a step's subagent: goal, context, its own prompt, earlier results, and failed checks.

Everything but the step's own prompt is limited, by a share of the step's tokens and by a number of characters. A text
that is cut says so. The result file of the step it comes from has all of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ipc.events import PlanToldEvent, ReviewComment
from subagents.executor import StepInput, StepTask
from subagents.step.command_runner import ending_of
from subagents.step.config_files import ConfigChange
from vibe.core.tools.hand_in import HAND_IN
from vibe.shell.process.port import CommandResult
from vibe.system.plain_text import beginning, both_ends, printable

CHARACTERS_PER_TOKEN = 4
"""Characters that a token is estimated to have."""
GOAL_SHARE, MAX_GOAL = 0.02, 4_000
CONTEXT_SHARE, MAX_CONTEXT = 0.04, 8_000
INPUTS_SHARE, MAX_INPUTS = 0.12, 24_000
"""Each part's share of the step's ``max_tokens``, and its limit in characters. The smaller one applies."""
SMALLEST_SHARE = 1_000
"""The fewest characters that a part is cut to. An input that would get less is only named."""
OVERHEAD = 600
"""Characters of an input's share that are reserved for its heading and for naming the file with all of it."""
MAX_TITLE = 120
"""Characters of an input's title that are shown."""
NAMES_SHARE = 0.2
"""The share of the room for inputs that goes to the names of those that are only named."""

REPAIR_HEADING = "The host ran this step's checks and one failed."
CONFIG_HEADING = "The host found files changed that steer this step's checks."
"""The heading of prompts about changed config files. Saved conversations are searched for it."""
REPAIR_HEADINGS = (REPAIR_HEADING, CONFIG_HEADING)
"""The headings of prompts that ask for a repair."""
REVIEW_HEADING = "These are the comments of a review of your changes."
MAX_CODE = 2_000
"""Characters of the code that a comment quotes."""
SHOWN_CHANGES = 20
"""Changed config files that a prompt lists."""
MAX_CHECK_OUTPUT = 6_000
"""Characters of a failed check's output that a prompt quotes."""


def first_message(task: StepTask) -> str:
    """Return the prompt that opens a step."""
    parts = [f"# Goal of the whole plan\n{beginning(task.goal, _room(task, GOAL_SHARE, MAX_GOAL))}"]
    if task.context:
        parts.append(f"# Context\n{beginning(task.context, _room(task, CONTEXT_SHARE, MAX_CONTEXT))}")
    if task.inputs:
        reports = _inputs(task.inputs, _room(task, INPUTS_SHARE, MAX_INPUTS))
        parts.append(f"# What the steps before this one report\n{reports}")
    if task.before:
        parts.append(f"# An attempt before this one did not get this step done\n{task.before}")
    parts.append(f"# Your step: {task.step.title}\n{task.step.instructions}")
    if task.item is not None and task.item.file is not None:
        parts.append(f"Your step is about one item of a list. What of it is cut here is whole in {task.item.file}.")
    if task.step.writes is not None:
        parts.append("You may write only these files: " + (", ".join(task.step.writes) or "none") + ".")
    if task.step.verify:
        checks = "\n".join(f"- `{command}`" for command in task.step.verify)
        parts.append(
            f"When you are done, the host runs these checks; each must exit with 0:\n{checks}\n"
            "Leave the files they name as they are, unless you are told to write them. Neither add nor change files "
            "that configure them (conftest.py, pyproject.toml, package.json, Makefile and the like), unless the files "
            "you may write name them."
        )
    parts.append(f"Do this step only. {_ending(task)}")
    return "\n\n".join(parts)


def repair_message(task: StepTask, command: str, result: CommandResult) -> str:
    """Return the prompt that asks for a repair after a failed check."""
    output = both_ends(result.printed.strip() or "(no output)", MAX_CHECK_OUTPUT)
    return (
        f"{REPAIR_HEADING} Fix the code, not the check.\n\n`{command}` {ending_of(result)}:\n\n{output}\n\n"
        f"{_ending_again(task)}"
    )


def config_message(task: StepTask, found: Sequence[ConfigChange]) -> str:
    """Return the prompt that asks to restore config files of the checks."""
    files = "\n".join(f"- {one.name} {one.how}" for one in found[:SHOWN_CHANGES])
    more = f"\n- and {len(found) - SHOWN_CHANGES} more" if found[SHOWN_CHANGES:] else ""
    return (
        f"{CONFIG_HEADING} No check counts until each is as it was when the step first started:\n\n{files}{more}\n\n"
        "Remove what is new, put back what changed or is gone, and do the work without. If it can't be done without, "
        f"say so and why: a person has to name the file in the step's `writes`.\n\n{_ending_again(task)}"
    )


def told_message(event: PlanToldEvent) -> str:
    """Return a person's message or review comments as the step's agent reads them."""
    if not event.comments:
        return event.text
    parts = [event.text, f"{REVIEW_HEADING} Change what they ask for; leave the rest of the work as it is."]
    return "\n\n".join(part for part in (*parts, *map(_comment, event.comments)) if part)


def _comment(comment: ReviewComment) -> str:
    lines = f"line {comment.first}" if comment.first == comment.last else f"lines {comment.first} to {comment.last}"
    gone = " (changed since)" if comment.stale else ""
    code = "\n".join(f"> {line}" for line in beginning(comment.code, MAX_CODE).splitlines())
    return f"{printable(comment.file)}, {lines}{gone}:\n{code}\n{comment.text}"


def result_files(task: StepTask) -> tuple[str, ...]:
    """Return the files outside the workspace that ``first_message`` may refer to."""
    own = () if task.item is None else (task.item.file,)
    return tuple(file for file in (*own, *(one.result_file for one in task.inputs)) if file is not None)


def _ending(task: StepTask) -> str:
    if task.step.output_schema is None:
        return "End with a short summary that the steps after you can work from."
    return (
        f"End by calling `{HAND_IN}` with your result as `value`, which must fit its schema, and with a short "
        "`summary`: the steps after you get both."
    )


def _ending_again(task: StepTask) -> str:
    return "When it is mended, hand in the result again." if task.step.output_schema is not None else _ending(task)


def _room(task: StepTask, share: float, most: int) -> int:
    """Return how many characters a part may have, from its share of the tokens and its limit."""
    return max(SMALLEST_SHARE, min(most, int(task.max_tokens * share) * CHARACTERS_PER_TOKEN))


def _inputs(inputs: Sequence[StepInput], room: int) -> str:
    """Return as many inputs as there is room for, each with an equal share of it; the others are only named."""
    full = inputs if room >= SMALLEST_SHARE * len(inputs) else inputs[: int(room * (1 - NAMES_SHARE)) // SMALLEST_SHARE]
    parts = [_input(one, room // len(full) - OVERHEAD) for one in full]
    if others := inputs[len(full) :]:
        parts.append(_only_named(others, int(room * NAMES_SHARE)))
    return "\n\n".join(parts)


def _input(one: StepInput, room: int) -> str:
    """Return one result in ``room`` characters. Its output is shown in full or not at all: half of it is not JSON."""
    files = beginning(", ".join(map(printable, one.files_changed)), room // 4, _where_all_is(one, "files_changed"))
    output = "" if one.output is None else json.dumps(one.output, ensure_ascii=False)
    whole = output if len(output) <= room // 2 else ""
    summary = beginning(
        one.summary or "(no summary)", room - len(whole) - min(len(files), room // 4), _where_all_is(one, "summary")
    )
    lines = [f"## {beginning(one.title, MAX_TITLE)} ({one.step_id}, {one.status})", summary]
    if output:
        lines.append(f"Output: {whole or f'{len(output)} characters of JSON' + _where_all_is(one, 'output')}")
    if files:
        lines.append(f"Files changed: {files}")
    return "\n".join(lines)


def _only_named(others: Sequence[StepInput], room: int) -> str:
    names = beginning(", ".join(f"{one.step_id} ({one.status})" for one in others), room)
    place = next((one.result_file for one in others if one.result_file is not None), None)
    whole = f" What each reports is in a file such as {place}." if place is not None else ""
    return f"## {len(others)} more steps\n{names}{whole}"


def _where_all_is(one: StepInput, field: str) -> str:
    return f", whole as `{field}` in {one.result_file}" if one.result_file is not None else ""
