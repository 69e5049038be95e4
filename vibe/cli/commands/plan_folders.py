"""``vibe plan list|status``: the plans that have been run, and how they stand."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

from planner.effective import effective_plan
from planner.model import Plan, PlanStatus, StepStatus
from planner.plan_folder import PlanFolder, PlanSummary, find_plan, list_plans
from planner.replay import RestoredPlan
from planner.standing import standing_of
from planner.status_marks import MARKS, paused_text
from planner.store_errors import BrokenPlanError
from vibe.app.engine.result_record import RemovedRecord
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.decision_hints import decision_documents, decision_lines
from vibe.cli.render.event_text import one_line
from vibe.cli.render.next_command import try_again
from vibe.cli.render.revision_text import removed_lines


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the list, or one plan's standing."""
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
    folder = find_plan(env.home, plan.plan_id)
    try:
        restored = folder.replay()
        loaded = effective_plan(folder, restored)
        standing = standing_of(loaded.plan, restored, decisions=folder.settings().decisions)
    except BrokenPlanError as error:
        return replace(plan, problem=str(error))
    return replace(plan, counts=standing.counts())


def _status(folder: PlanFolder, output: str, env: CliEnvironment) -> None:
    summary, restored = folder.summary(), folder.replay()
    plan = effective_plan(folder, restored).plan
    running = summary.holder is not None
    standing = standing_of(plan, restored, decisions=folder.settings().decisions, running=running)
    if not running:  # the journal is the truth, and nobody writes to it
        summary = replace(summary, status=restored.status, reason=restored.reason, counts=standing.counts())
    removed = _removed(folder, plan, restored)
    if output == "json":
        document = _document(summary)
        begun = restored.attempts()
        document["steps"] = [
            {"id": step_id, "status": status.value, "attempt": begun.get(step_id, 0)}
            for step_id, status in standing.statuses.items()
        ]
        document["removed_steps"] = [step.as_document() for step in removed]
        document["open_decisions"] = decision_documents(folder.plan_id, standing.open_decisions)
        env.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    lines = [_line(summary)]
    for step in plan.steps:
        status = standing.statuses[step.id].value
        why = restored.reasons.get(step.id)
        detail = f"  {one_line(why.detail or why.reason or '')}" if why else ""
        lines.append(f"{MARKS[status]} {step.id}: {one_line(step.title)} ({status}){detail}".rstrip())
    lines += removed_lines(removed)
    lines += decision_lines(folder.plan_id, standing.open_decisions)
    if summary.status is not None and (summary.is_interrupted or summary.status.value == "paused"):
        lines.append(f"continue with: vibe plan resume {summary.plan_id}")
    if summary.status is PlanStatus.FAILED and not running:
        failed = [step_id for step_id, status in standing.statuses.items() if status is StepStatus.FAILED]
        lines += try_again(folder.plan_id, failed, restored.outcome)
    env.stdout.write("\n".join(lines) + "\n")


def _removed(folder: PlanFolder, plan: Plan, restored: RestoredPlan) -> list[RemovedRecord]:
    if not restored.revisions:
        return []
    from vibe.app.plan.usage_history import removed_from  # noqa: PLC0415  conversations are read for few plans

    return [RemovedRecord.of(step) for step in removed_from(plan, restored, folder)]


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
