"""``vibe plan list|status``: the plans that have been run, and their state."""

from __future__ import annotations

from msgspec.structs import asdict

from planner.store.folder import PlanSummary, find_plan
from vibe.app.engine.result_record import removed_document
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.front.next_command import decision_documents
from vibe.front.plan_listing import PlanRead, plan_line, plans_that_ran


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """Print the list."""
    plans = plans_that_ran(env.home)
    none = ["no plan has run yet; start one with `vibe plan run FILE`"]
    env.answer(args, [_document(plan) for plan in plans], map(plan_line, plans) if plans else none)


def run_status(args: Arguments, env: CliEnvironment) -> None:
    """Print one plan's status."""
    read = PlanRead.of(find_plan(env.home, args.plan))
    document = _document(read.summary)
    steps = read.state.steps.items()
    document["steps"] = [{"id": name, "status": step.status.value, "attempt": step.begun} for name, step in steps]
    document["removed_steps"] = [removed_document(step, spent) for step, spent in read.removed]
    document["open_decisions"] = decision_documents(read.summary.plan_id, read.waiting)
    env.answer(args, document, read.lines())


def _document(plan: PlanSummary) -> dict[str, object]:
    fields: dict[str, object] = {**asdict(plan), "pid": plan.holder, "interrupted": plan.is_interrupted}
    del fields["holder"]
    return fields
