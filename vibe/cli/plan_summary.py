"""What is said of a plan in plain text: before it runs, and when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from planner.loader import LoadedPlan
from planner.model import PlanStatus
from planner.plan_outcome import DECISION_REASON
from vibe.app.result_record import StepRecord
from vibe.app.run_plan import PlanRun
from vibe.cli.describe import one_line

MARKS = {
    "completed": "✓",
    "failed": "✗",
    "skipped": "-",
    "cancelled": "×",  # noqa: RUF001  a cross is meant
    "in_progress": "▸",
    "needs_decision": "?",
    "blocked": "·",
    "pending": "·",
}
WHY_LENGTH = 800
"""Characters of why a step did not complete."""
OUTPUT_LINES = 6
"""How many of a command's last lines the summary repeats: where test runners say how it went."""


def write_summary(ended: PlanRun, out: TextIO) -> None:
    """The steps and how they ended, what changed, what it took, and how to go on."""
    record = ended.record
    lines = ["", *_table(record.steps or ())]
    lines += _command_output(record.steps or ())
    changed = sorted({file for step in record.steps or () for file in step.files_changed})
    if changed:
        lines += ["", f"Changed in {ended.workspace}:", *(f"  {one_line(file)}" for file in changed)]
    lines += [f"warning: {one_line(warning, 400)}" for warning in record.warnings]
    lines += [f"denied: {one_line(denial.summary)}: {one_line(denial.reason)}" for denial in record.denied]
    lines += ["", _verdict(ended), *_way_on(ended)]
    out.write("\n".join(lines) + "\n")


def write_dry_run(loaded: LoadedPlan, out: TextIO) -> None:
    """Order, critical path, the most it may cost, and the commands it would run."""
    facts = dry_run_facts(loaded)
    lines = [one_line(loaded.plan.goal, 400), "", "Order (steps of a line could run side by side):"]
    lines += [f"  {number}. {', '.join(level)}" for number, level in enumerate(facts["order"], start=1)]
    path = facts["critical_path"]
    lines += ["", f"Critical path, {len(path)} of {len(loaded.plan.steps)} steps: {' -> '.join(path)}"]
    lines += [f"Side by side at most: {facts['side_by_side']}"]
    bound = f"{facts['max_tokens']:,} in {facts['model_steps']} model-driven steps"
    lines += ["", f"Tokens at the very most: {bound}"]
    if facts["commands"]:
        lines += ["", "Commands that would run:"]
        lines += [f"  {one['step']}: {one_line(one['command'])}" for one in facts["commands"]]
    out.write("\n".join(lines) + "\n\nNothing was run.\n")


def dry_run_facts(loaded: LoadedPlan) -> dict[str, Any]:
    """The same as data. ``max_tokens`` is a bound, never a guess: every model step to its limit, as often as it may."""
    plan, dag = loaded.plan, loaded.dag
    models = [step for step in plan.steps if step.command is None]
    bound = sum(step.max_tokens * (1 + step.retries) for step in models)
    if plan.budget and plan.budget.max_tokens:
        bound = min(bound, plan.budget.max_tokens)
    return {
        "goal": plan.goal,
        "order": [list(level) for level in dag.levels()],
        "critical_path": list(dag.critical_path()),
        "side_by_side": min(dag.width, plan.max_parallel_steps or dag.width),
        "model_steps": len(models),
        "max_tokens": bound,
        "commands": [
            {"step": step.id, "command": line} for step in plan.steps for line in (step.command, *step.verify) if line
        ],
    }


def _table(steps: Sequence[StepRecord]) -> list[str]:
    width = max((len(step.id) for step in steps), default=0)
    return [_row(step, width) for step in steps]


def _row(step: StepRecord, width: int) -> str:
    took = f"{step.duration_s:6.1f} s" if step.duration_s else "        "
    tokens = f"{step.usage.total_tokens:>7,} tok" if step.usage.calls else " " * 11
    attempts = f"  attempt {step.attempts}" if step.attempts > 1 else ""
    why = step.detail or (step.reason if step.status != "completed" else "") or ""
    row = f"{MARKS[step.status]} {step.id:<{width}}  {step.status:<11} {took} {tokens}{attempts}"
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
    spent = f", {usage.total_tokens:,} tokens in {usage.calls} calls{cost}" if usage.calls else ""
    why = f" ({one_line(record.detail or record.reason, WHY_LENGTH)})" if record.reason else ""
    took = f" in {record.duration_s:.1f} s" if record.duration_s else ""
    return f"plan {record.plan_id} {ended.status.value}{why}{took}{spent}"


def _way_on(ended: PlanRun) -> list[str]:
    if ended.status is PlanStatus.PAUSED:
        decide = " --decide ID=OPTION" if ended.record.reason == DECISION_REASON else ""
        return [f"go on with: vibe plan resume {ended.record.plan_id}{decide}"]
    return []
