"""``vibe plan list|status|library``: lists the plans that have run, their status, and plans that run by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict

from planner.plan.placeholders import as_text
from planner.store.folder import PlanSummary, find_plan
from vibe.app.engine.result_record import removed_document
from vibe.app.plan.library import named_plans
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.front.next_command import decision_documents
from vibe.front.plan_listing import PlanRead, plan_line, plans_that_ran
from vibe.system.plain_text import one_line

GOAL_LENGTH = 200


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """Print the plans that have run."""
    plans = plans_that_ran(env.home)
    none = ["no plan has run yet; start one with `vibe plan run FILE`"]
    env.answer(args, [_document(plan) for plan in plans], map(plan_line, plans) if plans else none)


def run_status(args: Arguments, env: CliEnvironment) -> None:
    """Print a plan's status."""
    read = PlanRead.of(find_plan(env.home, args.plan))
    document = _document(read.summary)
    steps = read.state.steps.items()
    document["steps"] = [{"id": name, "status": step.status.value, "attempt": step.begun} for name, step in steps]
    document["removed_steps"] = [removed_document(step, spent) for step, spent in read.removed]
    document["open_decisions"] = decision_documents(read.summary.plan_id, read.waiting)
    env.answer(args, document, read.item_lines(args.step, args.page) if args.step else read.lines())


def _document(plan: PlanSummary) -> dict[str, object]:
    fields: dict[str, object] = {**asdict(plan), "pid": plan.holder, "interrupted": plan.is_interrupted}
    del fields["holder"]
    return fields


def run_library(args: Arguments, env: CliEnvironment) -> None:
    """Print the plans that can be run by name."""
    plans = [plan.as_document() for plan in named_plans(env, args.workdir, trust=args.trust).values()]
    env.answer(args, plans, (line for plan in plans for line in _lines(plan)))


def _lines(plan: Mapping[str, Any]) -> Iterator[str]:
    refused = "not loaded: the folder is not trusted; run with --trust, or vibe trust add"
    summary = plan["problem"] or plan["goal"] if plan["trusted"] else refused
    yield f"{plan['name']}  ({plan['source']})  {one_line(summary, GOAL_LENGTH)}"
    for one in plan["inputs"]:
        default = "" if one["default"] is None else f", {one_line(as_text(one['default']), GOAL_LENGTH)} if not given"
        about = f": {one_line(one['description'], GOAL_LENGTH)}" if one["description"] else ""
        yield f"  --with {one['name']}=VALUE  ({one['type']}{default}){about}"
