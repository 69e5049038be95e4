"""``vibe plan list|status``: the plans that have been run, and their state."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from planner.store.folder import PlanSummary, find_plan
from vibe.app.engine.result_record import removed_document
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.next_command import decision_documents
from vibe.front.plan_listing import PlanRead, plan_line, plans_that_ran


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the list, or one plan's status."""
    if args.plan_command == "list":
        _list(args.output, env)
    else:
        _status(PlanRead.of(find_plan(env.home, args.plan)), args.output, env)
    return ExitCode.DONE


def _list(output: str, env: CliEnvironment) -> None:
    plans = plans_that_ran(env.home)
    if output == "json":
        env.write_json([_document(plan) for plan in plans])
        return
    if not plans:
        env.stdout.write("no plan has run yet; start one with `vibe plan run FILE`\n")
    for plan in plans:
        env.stdout.write(plan_line(plan) + "\n")


def _status(read: PlanRead, output: str, env: CliEnvironment) -> None:
    if output == "json":
        document = _document(read.summary)
        document["steps"] = [
            {"id": step_id, "status": step.status.value, "attempt": step.begun}
            for step_id, step in read.state.steps.items()
        ]
        document["removed_steps"] = [removed_document(step, spent) for step, spent in read.removed]
        document["open_decisions"] = decision_documents(read.summary.plan_id, read.waiting)
        env.write_json(document)
        return
    env.stdout.write("\n".join(read.lines()) + "\n")


def _document(plan: PlanSummary) -> dict[str, object]:
    fields: dict[str, object] = {**asdict(plan), "pid": plan.holder, "interrupted": plan.is_interrupted}
    del fields["holder"]
    return fields
