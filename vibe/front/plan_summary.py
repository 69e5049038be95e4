"""Summarizes a plan that has ended, in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from planner.plan.status import MARKS, REUSED_MARK, PlanStatus, StepStatus, items_text, status_text
from planner.state.state import REUSED_REASON, StepState
from vibe.app.plan.run import PlanRun
from vibe.core.messages import Outcome, total_of
from vibe.front.next_command import decision_lines, try_again
from vibe.front.plan_listing import removed_lines
from vibe.system.grouping import by_key
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import CHECK
from vibe.view.figures import dollars, short, took

WHY_LENGTH = 800
"""Characters of the reason why a step did not complete."""
OUTPUT_LINES = 6
"""The last lines of a command that the summary repeats, because test runners print their result there."""
FAILED_LINES = 15
"""The first lines of a failed command or check that the summary shows."""
MAX_INDENT = 12
LEAST_SECONDS = 0.001
"""The shortest time shown for a step; anything shorter means that it was left out."""


def summary_text(ended: PlanRun, *, in_chat: bool = False) -> str:
    """Return the steps with their results, the changed files, the usage, and what to do next, as ``try_again``."""
    record = ended.record
    lines = ["", *_table(list(_shown(record.steps or ()))), *removed_lines(step for step, _ in record.removed_steps)]
    own = [step for step in record.steps or () if step.reason != REUSED_REASON]
    printed = [step for step in own if not step.pattern or step.status is StepStatus.FAILED]
    lines += _command_output(printed, str(record.plan_id))
    changed = sorted({file for step in own for file in step.last_result.files_changed})
    if changed:
        lines += ["", f"Changed in {ended.workspace}:", *(f"  {one_line(file)}" for file in changed)]
    lines += [*_troubles(ended), "", _verdict(ended), *_next_commands(ended, in_chat), *_sample(ended)]
    return "\n".join(lines) + "\n"


def below_card(ended: PlanRun) -> list[str]:
    """Return the lines for a chat that neither the plan's card nor the panel of a failed or paused plan shows."""
    lines = [*_troubles(ended), *_sample(ended)]
    if ended.status is PlanStatus.PAUSED:
        steps = ended.record.steps or ()
        done = sum(step.status is StepStatus.COMPLETED for step in steps)
        why = f": {one_line(ended.record.detail, WHY_LENGTH)}" if ended.record.detail else ""
        return [f"paused at {done}/{len(steps)}{why}", *lines]
    is_bounded = ended.record.outcome in {Outcome.LIMIT, Outcome.BLOCKED}
    return [*lines, *(_next_commands(ended, in_chat=True) if is_bounded else ())]


def _troubles(ended: PlanRun) -> list[str]:
    record = ended.record
    warnings = [f"warning: {one_line(warning, 400)}" for warning in record.warnings]
    return warnings + [f"denied: {one_line(denial.summary)}: {one_line(denial.reason)}" for denial in record.denied]


def _table(steps: Sequence[StepState]) -> list[str]:
    """Return a row per step, over all its attempts. Columns are as wide as their widest cell; empty ones go."""
    times = [sum(attempt.seconds for attempt in step.attempts) for step in steps]
    usages = [total_of(attempt.result for attempt in step.attempts).usage for step in steps]
    columns = [
        _column([f"{_mark(step)} {step.id}" for step in steps]),
        _column([step.status.value for step in steps]),
        _column([took(seconds) if seconds >= LEAST_SECONDS else "" for seconds in times], right=True),
        _column([f"{usage.total_tokens:,} tok" if usage.calls else "" for usage in usages], right=True),
        _column([f"try {step.begun}" if step.begun > 1 else "" for step in steps]),
        [_why(step) for step in steps],
    ]
    return ["  ".join(cells).rstrip() for cells in zip(*(cells for cells in columns if any(cells)), strict=True)]


def _shown(steps: Sequence[StepState]) -> Iterator[StepState]:
    """Yield the steps to show; of a list's items only the failed ones, while the list's own row counts them all."""
    lists = by_key((step.pattern, step.status.value) for step in steps)
    for step in steps:
        if step.id in lists:
            yield replace(step, detail="; ".join(filter(None, (items_text(lists[step.id]), step.detail))))
        elif not step.pattern or step.status is StepStatus.FAILED:
            yield step


def _column(cells: list[str], *, right: bool = False) -> list[str]:
    """Return the cells padded to the width of the widest."""
    width = max(map(len, cells), default=0)
    return [f"{cell:>{width}}" if right else f"{cell:<{width}}" for cell in cells]


def _mark(step: StepState) -> str:
    return REUSED_MARK if step.reason == REUSED_REASON else MARKS[step.status.value]


def _why(step: StepState) -> str:
    why = step.detail or (step.reason if step.status is not StepStatus.COMPLETED else "") or ""
    return one_line(why, WHY_LENGTH) if why else ""


def _command_output(steps: Sequence[StepState], plan_id: str) -> Iterator[str]:
    """Yield the output of failed commands and checks, and the last lines of the other commands."""
    for step in steps:
        result = step.last_result
        failed = result.printed.splitlines()
        printed = failed or (result.summary.splitlines() if result.usage.calls == 0 else [])
        shown = [line for line in printed if line.strip()]
        if shown:
            cut = shown[:FAILED_LINES] if failed else shown[-OUTPUT_LINES:]
            whose = "check output" if step.reason == CHECK else "output"
            yield from ("", f"{step.id}, {whose}:", *(f"  {_line(line)}" for line in cut))
        if failed:
            yield f"  (all of it: vibe plan logs {plan_id} {step.id})"


def _line(text: str) -> str:
    """Return a line of output, keeping its indentation."""
    return " " * min(len(text) - len(text.lstrip(" ")), MAX_INDENT) + one_line(text)


def _verdict(ended: PlanRun) -> str:
    """Return ``done: 6 of 6 steps, 38 s, 55k tokens, $0.11 (plan ID)``, or the same for another status."""
    record = ended.record
    steps = record.steps or ()
    done = sum(step.status is StepStatus.COMPLETED for step in steps)
    spent = [took(record.duration_s)] if record.duration_s else []
    if record.usage.calls:
        spent.append(f"{short(record.usage.total_tokens)} tokens")
        spent += [] if record.cost_usd is None else [dollars(record.cost_usd)]
    why = record.detail or record.reason or ""
    outcome = "done" if ended.status is PlanStatus.COMPLETED else ended.status.value
    if ended.status is PlanStatus.PAUSED and not record.detail:
        outcome = status_text(ended.status, record.reason)
    elif why and why not in {ended.status.value, CHECK, "exit_code"}:
        outcome += f" ({why})"
    figures = ", ".join([f"{done:,} of {counted(len(steps), 'step')}", *spent])
    return f"{one_line(outcome, WHY_LENGTH)}: {figures} (plan {record.plan_id})"


def _next_commands(ended: PlanRun, in_chat: bool) -> list[str]:  # noqa: FBT001  passed on unchanged
    plan_id = str(ended.record.plan_id)
    if ended.status is PlanStatus.PAUSED:
        goes_on = "/plan resume" if in_chat else f"vibe plan resume {plan_id}"
        return [*decision_lines(plan_id, ended.open_decisions, in_chat=in_chat), f"continue with: {goes_on}"]
    if ended.status is not PlanStatus.FAILED:
        return []
    return try_again(plan_id, ended.record.steps or (), ended.record.outcome, in_chat=in_chat)


def _sample(ended: PlanRun) -> list[str]:
    """Return a line that names the way to a demonstration's folder, which the user would not find otherwise."""
    if not ended.is_sample or ended.status is PlanStatus.PAUSED:
        return []
    return [f"look at its copy of the project, then remove it with `vibe plan clean {ended.record.plan_id}`"]
