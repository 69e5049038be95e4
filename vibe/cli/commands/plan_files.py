"""``vibe plan validate|show|graph|schema``: look at a plan without running it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from planner.graph_text import dot, mermaid, tree
from planner.loader import LoadedPlan, load_plan, plan_json_schema
from planner.model import Step, StepStatus
from planner.plan_folder import find_plan
from planner.problems import PlanInvalidError
from planner.store_errors import UnknownPlanError
from vibe.cli.commands.plan_run import read_plan
from vibe.cli.describe import harmless, one_line
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.plan_summary import MARKS


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print what was asked for."""
    match args.plan_command:
        case "schema":
            env.stdout.write(json.dumps(plan_json_schema(), indent=2) + "\n")
        case "validate":
            return _validate(args, env)
        case "graph":
            loaded, statuses = _find(args.plan, env)
            env.stdout.write(harmless(_draw(args.format, loaded, statuses)).rstrip("\n") + "\n")
        case _:
            loaded, statuses = _find(args.plan, env)
            _show(loaded, statuses, args.output, env)
    return ExitCode.DONE


def _draw(form: str, loaded: LoadedPlan, known: dict[str, StepStatus]) -> str:
    statuses = known or None
    if form == "mermaid":
        return mermaid(loaded.plan, statuses)
    if form == "dot":
        return dot(loaded.plan, statuses)
    return tree(loaded.plan, loaded.dag, statuses)


def _validate(args: argparse.Namespace, env: CliEnvironment) -> int:
    try:
        loaded = read_plan(args.plan, env)
    except PlanInvalidError as error:
        if args.output == "text":
            raise
        problems = [{"path": p.path, "message": p.message, "fix": p.fix} for p in error.problems]
        env.stdout.write(json.dumps({"valid": False, "problems": problems}, indent=2) + "\n")
        return ExitCode.USAGE
    if args.output == "json":
        env.stdout.write(json.dumps({"valid": True, "problems": []}) + "\n")
    else:
        path = loaded.dag.critical_path()
        env.stdout.write(
            f"{loaded.where} is a valid plan: {len(loaded.plan.steps)} steps, "
            f"{loaded.dag.width} side by side at most, critical path {len(path)}\n"
        )
    return ExitCode.DONE


def _find(reference: str, env: CliEnvironment) -> tuple[LoadedPlan, dict[str, StepStatus]]:
    """A plan file, or a plan that has been run, by its id."""
    if reference == "-" or (env.cwd / Path(reference).expanduser()).exists():
        return read_plan(reference, env), {}
    try:
        folder = find_plan(env.home, reference)
    except UnknownPlanError:
        if "/" in reference or reference.endswith(".json"):
            return read_plan(reference, env), {}
        raise
    restored = folder.replay()
    loaded = load_plan(folder.source(), where=str(folder.path))
    return loaded, {step_id: step.status for step_id, step in restored.steps.items()}


def _show(loaded: LoadedPlan, statuses: dict[str, StepStatus], output: str, env: CliEnvironment) -> None:
    plan = loaded.plan
    if output == "json":
        document: dict[str, Any] = plan.model_dump(mode="json", exclude_defaults=True) | {"version": plan.version}
        for step in document["steps"]:
            step["status"] = statuses.get(step["id"], StepStatus.PENDING).value
        env.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    lines = [one_line(plan.goal, 400), ""]
    for step in plan.steps:
        status = statuses.get(step.id, StepStatus.PENDING)
        after = ", ".join(f"{d.step} {d.on}" if d.on != "completed" else d.step for d in step.dependencies)
        lines.append(f"{MARKS[status.value]} {step.id}: {one_line(step.title)} [{step.mode.value}]")
        lines += [f"    {name}: {one_line(value, 400)}" for name, value in _details(step, after)]
    env.stdout.write("\n".join(lines) + "\n")


def _details(step: Step, after: str) -> list[tuple[str, str]]:
    details = [
        ("after", after),
        ("command", step.command or ""),
        ("writes", ", ".join(step.writes or ())),
        ("verify", "; ".join(step.verify)),
    ]
    return [(name, value) for name, value in details if value]
