"""``vibe plan diff A B``: compare the steps of two plans, and say why they differ."""

from __future__ import annotations

import argparse

from planner.plan.loader import LoadedPlan
from planner.reuse.plan_diff import PlanDiff, diff
from vibe.app.plan.reuse import Side, comparable
from vibe.cli.commands.plan_files import folder_of
from vibe.cli.commands.plan_run import read_plan
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print what differs."""
    sides = [_side(reference, env) for reference in (args.one, args.other)]
    found = diff(*comparable(sides[0], sides[1], env.environ))
    if args.output == "json":
        env.write_json(found.as_document())
    else:
        env.stdout.write("\n".join(_lines(found)) + "\n")
    return ExitCode.DONE


def _side(reference: str, env: CliEnvironment) -> Side:
    folder = folder_of(reference, env)
    loaded: LoadedPlan | None = read_plan(reference, env) if folder is None else None
    return Side(folder=folder, loaded=loaded)


def _lines(found: PlanDiff) -> list[str]:
    lines = [f"= {step_id}{_limits(found, step_id)}" for step_id in found.unchanged]
    lines += [f"~ {step_id}: {change.text}" for step_id, change in found.changed.items()]
    lines += [f"+ {step_id}" for step_id in found.added]
    lines += [f"- {step_id}" for step_id in found.removed]
    counts = (
        f"{len(found.unchanged)} unchanged, {len(found.changed)} changed, {len(found.added)} added, "
        f"{len(found.removed)} removed"
    )
    return [*lines, counts]


def _limits(found: PlanDiff, step_id: str) -> str:
    names = found.limits.get(step_id)
    return f" (only limits differ: {', '.join(names)})" if names else ""
