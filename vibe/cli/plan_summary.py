"""What is said of a plan in plain text when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from planner.model import PlanStatus
from planner.replay import REUSED_REASON
from planner.status_marks import MARKS, REUSED_MARK
from vibe.app.result_record import StepRecord
from vibe.app.run_plan import PlanRun
from vibe.cli.describe import counted, one_line
from vibe.cli.open_decisions import decision_lines
from vibe.core.outcome import Outcome

WHY_LENGTH = 800
"""Characters of why a step did not complete."""
OUTPUT_LINES = 6
"""How many of a command's last lines the summary repeats: where test runners say how it went."""

PERMIT = "--approve edits (or --auto-approve)"
"""What lets steps do what nobody was there to allow."""


def write_summary(ended: PlanRun, out: TextIO) -> None:
    """The steps and how they ended, what changed, what it took, and how to go on."""
    record = ended.record
    lines = ["", *_table(record.steps or ())]
    own = [step for step in record.steps or () if step.reason != REUSED_REASON]
    lines += _command_output(own)
    changed = sorted({file for step in own for file in step.files_changed})
    if changed:
        lines += ["", f"Changed in {ended.workspace}:", *(f"  {one_line(file)}" for file in changed)]
    lines += [f"warning: {one_line(warning, 400)}" for warning in record.warnings]
    lines += [f"denied: {one_line(denial.summary)}: {one_line(denial.reason)}" for denial in record.denied]
    lines += ["", _verdict(ended), *_way_on(ended)]
    out.write("\n".join(lines) + "\n")


def _table(steps: Sequence[StepRecord]) -> list[str]:
    width = max((len(step.id) for step in steps), default=0)
    return [_row(step, width) for step in steps]


def _row(step: StepRecord, width: int) -> str:
    took = f"{step.duration_s:6.1f} s" if step.duration_s else "        "
    tokens = f"{step.usage.total_tokens:>7,} tok" if step.usage.calls else " " * 11
    attempts = f"  attempt {step.attempts}" if step.attempts > 1 else ""
    why = step.detail or (step.reason if step.status != "completed" else "") or ""
    mark = REUSED_MARK if step.reason == REUSED_REASON else MARKS[step.status]
    row = f"{mark} {step.id:<{width}}  {step.status:<11} {took} {tokens}{attempts}"
    return (row + (f"  {one_line(why, WHY_LENGTH)}" if why else "")).rstrip()


def _command_output(steps: Sequence[StepRecord]) -> list[str]:
    """The last lines that command steps printed, where a plan's own checks say how they went."""
    lines: list[str] = []
    for step in steps:
        if step.usage.calls == 0 and step.summary:
            tail = [line for line in step.summary.splitlines() if line.strip()][-OUTPUT_LINES:]
            lines += ["", f"{step.id} printed:", *(f"  {one_line(line)}" for line in tail)]
    return lines


def _verdict(ended: PlanRun) -> str:
    record = ended.record
    usage = record.usage
    cost = "" if record.cost_usd is None else f", ${record.cost_usd:.4f}"
    spent = f", {usage.total_tokens:,} tokens in {counted(usage.calls, 'call')}{cost}" if usage.calls else ""
    told = record.detail or record.reason or ""
    why = f" ({one_line(told, WHY_LENGTH)})" if told and told != ended.status.value else ""
    took = f" in {record.duration_s:.1f} s" if record.duration_s else ""
    return f"plan {record.plan_id} {ended.status.value}{why}{took}{spent}"


def _way_on(ended: PlanRun) -> list[str]:
    plan_id = str(ended.record.plan_id)
    if ended.status is PlanStatus.PAUSED:
        return [*decision_lines(plan_id, ended.open_decisions), f"go on with: vibe plan resume {plan_id}"]
    failed = [step.id for step in ended.record.steps or () if step.status == "failed"]
    if ended.status is not PlanStatus.FAILED or not failed:
        return []
    step = failed[0] if len(failed) == 1 else "STEP"
    allowed = f" {PERMIT}" if ended.record.outcome is Outcome.BLOCKED else ""
    return [f"try again with: vibe plan retry {plan_id} {step}, then vibe plan resume {plan_id}{allowed}"]
