"""``vibe plan list|status``: the plans that have been run, and their state."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

from planner.plan.icons import MARKS, paused_text
from planner.plan.model import Plan, PlanStatus, StepStatus
from planner.state.state import State
from planner.store.current_plan import current_state, open_decisions
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, PlanSummary, find_plan, list_plans
from vibe.app.engine.result_record import RemovedRecord
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.event_text import one_line
from vibe.cli.render.next_command import decision_documents, decision_lines, try_again
from vibe.cli.render.revision_text import removed_lines


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the list, or one plan's status."""
    if args.plan_command == "list":
        _list(args.output, env)
    else:
        _status(find_plan(env.home, args.plan), args.output, env)
    return ExitCode.DONE


def _list(output: str, env: CliEnvironment) -> None:
    plans = [_counted(plan, env) for plan in list_plans(env.home)]
    if output == "json":
        env.stdout.write(json.dumps([_document(plan) for plan in plans], indent=2, ensure_ascii=False) + "\n")
        return
    if not plans:
        env.stdout.write("no plan has been run yet; `vibe plan run FILE` runs one\n")
    for plan in plans:
        env.stdout.write(_line(plan) + "\n")


def _counted(plan: PlanSummary, env: CliEnvironment) -> PlanSummary:
    """With how every step stands, also those that a process that died had not come to."""
    if not plan.is_interrupted:
        return plan
    try:
        _, state = current_state(find_plan(env.home, plan.plan_id))
    except BrokenPlanError as error:
        return replace(plan, problem=str(error))
    return replace(plan, counts=state.counted())


def _status(folder: PlanFolder, output: str, env: CliEnvironment) -> None:
    summary = folder.summary()
    loaded, state = current_state(folder)
    plan, running = loaded.plan, summary.holder is not None
    waiting = open_decisions(plan, state)
    if not running:  # the journal is the truth, and no process writes to it
        summary = replace(summary, status=state.status, reason=state.reason, counts=state.counted())
    removed = _removed(folder, plan, state)
    if output == "json":
        document = _document(summary)
        document["steps"] = [
            {"id": step_id, "status": step.status.value, "attempt": step.begun} for step_id, step in state.steps.items()
        ]
        document["removed_steps"] = [step.as_document() for step in removed]
        document["open_decisions"] = decision_documents(folder.plan_id, waiting)
        env.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    lines = [_line(summary)]
    for step in plan.steps:
        was = state.steps[step.id]
        status = was.status.value
        detail = f"  {one_line(was.detail or was.reason or '')}"
        lines.append(f"{MARKS[status]} {step.id}: {one_line(step.title)} ({status}){detail}".rstrip())
    lines += removed_lines(removed)
    lines += decision_lines(folder.plan_id, waiting)
    if summary.status is not None and (summary.is_interrupted or summary.status.value == "paused"):
        lines.append(f"continue with: vibe plan resume {summary.plan_id}")
    if summary.status is PlanStatus.FAILED and not running:
        failed = [step_id for step_id, step in state.steps.items() if step.status is StepStatus.FAILED]
        lines += try_again(folder.plan_id, failed, state.outcome)
    env.stdout.write("\n".join(lines) + "\n")


def _removed(folder: PlanFolder, plan: Plan, state: State) -> list[RemovedRecord]:
    if not state.revisions:
        return []
    from vibe.app.plan.usage_history import removed_from  # noqa: PLC0415  conversations are read for few plans

    return [RemovedRecord.of(step, spent) for step, spent in removed_from(plan, state, folder)]


def _line(plan: PlanSummary) -> str:
    if plan.problem:
        return f"{plan.plan_id}  unreadable: {one_line(plan.problem, 300)}"
    counts = ", ".join(f"{count} {status}" for status, count in plan.counts.items() if count)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(plan.created))
    return f"{plan.plan_id}  {when}  {_standing(plan)}  {counts}  {one_line(plan.goal, 80)}"


def _standing(plan: PlanSummary) -> str:
    if plan.is_interrupted:
        return "interrupted"
    if plan.status is PlanStatus.PAUSED and not plan.holder:
        return one_line(paused_text(plan.reason))
    status = plan.status.value if plan.status else "unknown"
    if plan.holder:
        return f"{status} (process {plan.holder})"
    return f"{status} ({one_line(plan.reason)})" if plan.reason and plan.reason != status else status


def _document(plan: PlanSummary) -> dict[str, object]:
    return {
        "plan_id": plan.plan_id,
        "goal": plan.goal,
        "status": plan.status.value if plan.status else None,
        "interrupted": plan.is_interrupted,
        "reason": plan.reason,
        "counts": dict(plan.counts),
        "created": plan.created,
        "updated": plan.updated,
        "pid": plan.holder,
        "problem": plan.problem,
    }
