"""Bounds what a model may revise in a running plan: the failed step first, and no check or limit is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from planner.plan.dag import topological_order
from planner.plan.diagnostics import Problem, listed, quoted
from planner.plan.model import Plan, Step
from planner.plan.operations import AddEdge, AddStep, Operation, RemoveEdge, RemoveStep, SetBudget, UpdateStep
from planner.plan.write_claims import may_write, parse_glob

INHERITED = (
    *("agent", "model", "denied_tools", "allowed_tools", "workspace", "network", "max_price", "on_failure"),
    "side_effects",
)
"""Fields that an added step takes from the failed one it replaces, whatever the model says."""


def with_inheritance(operations: Sequence[Operation], failed: Step) -> tuple[Operation, ...]:
    """Return the operations, with the limits of the failed step on the steps they add."""
    inherited: dict[str, Any] = {name: getattr(failed, name) for name in INHERITED if name in failed.model_fields_set}
    if failed.writes is not None:
        inherited["writes"] = failed.writes
    return tuple(
        AddStep(step=_inheriting(operation.step, inherited)) if isinstance(operation, AddStep) else operation
        for operation in operations
    )


def _inheriting(step: Step, inherited: dict[str, Any]) -> Step:
    own = ("writes",) if step.writes is not None else ()
    return step.model_copy(update={name: value for name, value in inherited.items() if name not in own})


def policy_problems(
    plan: Plan, revised: Plan, operations: Sequence[Operation], failed_id: str, *, in_place: bool, new_commands: bool
) -> tuple[Problem, ...]:
    """Return why a model may not carry out these operations, though they are valid.

    ``in_place`` allows changes only to the failed step and the steps that wait for it. ``new_commands`` allows command
    lines that the user has not read.
    """
    failed = next(step for step in plan.steps if step.id == failed_id)
    return (
        *(_place_problems(operations, plan, failed_id) if in_place else ()),
        *_authority_problems(plan, revised, operations, failed),
        *_command_problems(plan, revised, new_commands=new_commands),
        *_work_problems(operations, failed_id),
    )


def _place_problems(operations: Sequence[Operation], plan: Plan, failed_id: str) -> Iterator[Problem]:
    """Refuse operations on steps other than the failed one, those added, and edges to them."""
    known = {step.id for step in plan.steps}
    added = {operation.step.id for operation in operations if isinstance(operation, AddStep)}
    near = {failed_id, *added}
    for index, operation in enumerate(operations):
        match operation:
            case AddStep():
                continue
            case RemoveStep(id=step_id) | UpdateStep(id=step_id):
                touched = {step_id}
            case AddEdge(step=step_id, depends_on=edge):
                touched = {step_id, edge.step}
            case RemoveEdge(step=step_id, depends_on=needed):
                touched = {step_id, needed}
            case SetBudget():
                continue  # ``_authority_problems`` refuses it
        if touched.isdisjoint(near) and touched & known:
            yield Problem(
                f"operations[{index}]",
                f"touches {listed(sorted(touched))}, which did not fail",
                f"mend or split {failed_id!r} first; the rest may be changed if that fails as well",
            )


def _authority_problems(plan: Plan, revised: Plan, operations: Sequence[Operation], failed: Step) -> Iterator[Problem]:
    """Refuse operations that give a step more than it had, or an added one more than the failed one had.

    They may not change the plan's budget either.
    """
    before, after = {step.id: step for step in plan.steps}, {step.id: step for step in revised.steps}
    for index, operation in enumerate(operations):
        match operation:
            case UpdateStep(id=step_id, changes=changes):
                bound, place = before.get(step_id, failed), f"operations[{index}].changes"
                writes, network = changes.get("writes", []), changes.get("network", "loopback")
            case AddStep(step=step):
                bound, place, step_id = failed, f"operations[{index}].step", step.id
                writes, network = step.writes, step.network or "loopback"
            case SetBudget():
                fix = "leave it out: only a person gives a plan more"
                yield Problem(f"operations[{index}]", "changes the plan's budget", fix)
                continue
            case _:
                continue
        whose = "the failing step" if bound.id == failed.id else f"step {bound.id!r}"
        yield from _writes(f"{place}.writes", writes, bound, whose)
        # Unsetting the field counts as access: a default may open it.
        if network not in {"loopback", bound.network}:
            yield Problem(f"{place}.network", f"opens the network, and step {bound.id!r} does not", "leave it out")
        if step_id in after and may_write(after[step_id]) and not may_write(bound):
            yield Problem(f"{place}.mode", f"gives it tools that change files, and {whose} has none", "keep the mode")


def _writes(path: str, wanted: Any, bound: Step, whose: str) -> Iterator[Problem]:
    if bound.writes is None:
        return
    if wanted is None:
        yield Problem(path, f"must stay within what {whose} may write", listed(bound.writes))
        return
    for glob in cast("list[str]", wanted):
        if not any(_covers(outer, glob) for outer in bound.writes):
            message = f"{quoted(glob)} lies outside what {whose} may write"
            yield Problem(path, message, f"stay within {listed(bound.writes)}")


def _covers(bound: str, glob: str) -> bool:
    """Return whether everything that ``glob`` matches is certain to lie within ``bound``."""
    outer, inner = parse_glob(bound), parse_glob(glob)
    while outer and outer[-1] == "**":
        outer = outer[:-1]
    if any(character in name for name in outer for character in "*?["):
        return outer == inner
    return inner[: len(outer)] == outer


def _command_problems(plan: Plan, revised: Plan, *, new_commands: bool) -> Iterator[Problem]:
    """Refuse operations that take a command or a check from a step without giving it to another one.

    Lines that the user has not read are refused too, unless ``new_commands`` allows them.
    """
    before, after = _steps_by_line(plan), _steps_by_line(revised)
    skipped, skipped_now = _may_be_skipped(plan), _may_be_skipped(revised)
    for line, steps in before.items():
        now = after.get(line, set())
        if now < steps:
            lost = f"{listed(sorted(steps - now))} would not run {quoted(line, 200)} any more"
            yield Problem(
                "operations", lost, "checks and commands stay: give it to a step that takes the place of its own"
            )
        elif now - skipped_now < steps - skipped:
            sure = listed(sorted(steps - skipped - (now - skipped_now)))
            lost = f"{quoted(line, 200)} may be skipped, which {sure} would have run"
            yield Problem("operations", lost, "let no step that runs it wait for a failure")
    for line in after:
        if line not in before and not new_commands:
            fix = "use the lines the plan has: no user is there to accept another"
            yield Problem("operations", f"{quoted(line, 200)} is not a command of the plan", fix)


def _steps_by_line(plan: Plan) -> dict[str, set[str]]:
    """Return the ids of the steps that run each line, as their command or as a check."""
    steps: dict[str, set[str]] = {}
    for step in plan.steps:
        for line in (step.command, *step.verify):
            if line:
                steps.setdefault(line, set()).add(step.id)
    return steps


def _may_be_skipped(plan: Plan) -> set[str]:
    """Return the steps that a choice, or the end of another step, may rule out."""
    steps = {step.id: step for step in plan.steps}
    found = set[str]()
    for step_id in topological_order({step.id: [edge.step for edge in step.dependencies] for step in plan.steps}):
        step = steps[step_id]
        before = {edge.step for edge in step.dependencies}
        if step.when or any(edge.on == "failed" for edge in step.dependencies) or (before and before <= found):
            found.add(step_id)
    return found


def _work_problems(operations: Sequence[Operation], failed_id: str) -> Iterator[Problem]:
    """Refuse to remove the failed step without a replacement."""
    removed = any(isinstance(operation, RemoveStep) and operation.id == failed_id for operation in operations)
    if removed and not any(isinstance(operation, AddStep) for operation in operations):
        fix = "add the steps that do its work instead, or hand in no operations and say why"
        yield Problem("operations", f"step {failed_id!r} goes and nothing takes its place", fix)
