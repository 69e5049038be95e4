"""The operations that a revision of a plan consists of: read from plain data, and put into words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, ValidationError

from planner.plan.diagnostics import PlanInvalidError, Problem, listed, quoted
from planner.plan.model import Dependency, PlanBudget, PlanModel, Slug, Step
from planner.plan.strict_json import JsonRefused, parse
from planner.plan.validation_errors import field_problems
from vibe.system.errors import error_as

_SHOWN_VALUE = 40


class AddStep(PlanModel):
    """Adds a step, whose ``depends_on`` are its edges. Fields it leaves out come from the plan's ``defaults``."""

    op: Literal["add_step"] = "add_step"
    step: Step


class RemoveStep(PlanModel):
    """Removes a step with its own edges. Steps that depend on it must lose that edge or be removed as well."""

    op: Literal["remove_step"] = "remove_step"
    id: Slug


class UpdateStep(PlanModel):
    """Sets fields of a step to these values; any but its id and its edges."""

    op: Literal["update_step"] = "update_step"
    id: Slug
    changes: Annotated[dict[str, Any], Field(min_length=1)]


class AddEdge(PlanModel):
    """Makes ``step`` wait for ``depends_on.step``."""

    op: Literal["add_edge"] = "add_edge"
    step: Slug
    depends_on: Dependency


class RemoveEdge(PlanModel):
    """Lets ``step`` no longer wait for ``depends_on``."""

    op: Literal["remove_edge"] = "remove_edge"
    step: Slug
    depends_on: Slug


class SetBudget(PlanModel):
    """Sets new limits for the whole plan (None: no limits). Earlier spending counts towards them."""

    op: Literal["set_budget"] = "set_budget"
    budget: PlanBudget | None


Operation: TypeAlias = Annotated[
    AddStep | RemoveStep | UpdateStep | AddEdge | RemoveEdge | SetBudget, Field(discriminator="op")
]

_OPERATIONS: Mapping[str, type[PlanModel]] = {
    model.model_fields["op"].default: model
    for model in (AddStep, RemoveStep, UpdateStep, AddEdge, RemoveEdge, SetBudget)
}


class RevisionInvalidError(PlanInvalidError):
    """A revision can't be carried out, and no part of it was. ``problems`` holds all reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("the revision", problems)


def read_operations(raw: object) -> tuple[Operation, ...]:
    """Read operations from plain data that a model handed in, a person wrote, or a journal kept.

    Raises:
        RevisionInvalidError: the list is invalid; carries all problems.
    """
    try:
        entries = parse(json.dumps(raw, ensure_ascii=False))
    except JsonRefused as error:
        raise RevisionInvalidError(error.problems) from None
    except (TypeError, ValueError, RecursionError):
        raise RevisionInvalidError([Problem("operations", "is not plain JSON data")]) from None
    if not isinstance(entries, list):
        raise RevisionInvalidError([Problem("operations", "must be a list of operations")])
    problems: list[Problem] = []
    operations: list[Operation] = []
    for index, entry in enumerate(cast("list[object]", entries)):
        try:
            operations.append(_operation(entry))
        except JsonRefused as error:
            path = f"operations[{index}]"
            problems += [Problem(f"{path}.{p.path}" if p.path else path, p.message, p.fix) for p in error.problems]
    if problems:
        raise RevisionInvalidError(problems)
    return tuple(operations)


def _operation(entry: object) -> Operation:
    """Read one operation, or raise JsonRefused with its problems."""
    if not isinstance(entry, dict):
        raise JsonRefused(Problem("", f"must be an object, not {quoted(entry)}"))
    fields = cast("dict[str, object]", entry)
    kind = fields.get("op")
    model = _OPERATIONS.get(kind) if isinstance(kind, str) else None
    if model is None:
        message = f"{quoted(kind)} is not one of {listed(_OPERATIONS)}" if "op" in fields else 'is required; add "op"'
        raise JsonRefused(Problem("op", message))
    unknown = [name for name in fields if name not in model.model_fields]
    known = [name for name in model.model_fields if name != "op"]
    problems = [Problem(name, f"is not a field of {kind}", f"the fields are {listed(known)}") for name in unknown]
    with error_as(ValidationError, lambda error: JsonRefused(*problems, *field_problems(error, fields))):
        text = json.dumps({name: value for name, value in fields.items() if name not in unknown})
        operation = model.model_validate_json(text, strict=True)
    if problems:
        raise JsonRefused(*problems)
    return cast("Operation", operation)


def plain_operations(operations: Sequence[Operation]) -> tuple[dict[str, Any], ...]:
    """Return the operations as plain dicts, for a journal or an event; ``read_operations`` reads them back."""
    return tuple({"op": op.op, **op.model_dump(mode="json", exclude_unset=True)} for op in operations)


def operation_text(operation: Operation) -> str:
    """Return an operation as one line for people."""
    match operation:
        case AddStep(step=step):
            after = f" after {', '.join(edge.step for edge in step.dependencies)}" if step.dependencies else ""
            return f"add step {step.id} ({step.mode}){after}: {quoted(step.title, 200)[1:-1]}"
        case RemoveStep():
            return f"remove step {operation.id}"
        case UpdateStep():
            changes = ", ".join(
                f"{quoted(name)[1:-1]} = {quoted(value, _SHOWN_VALUE)}" for name, value in operation.changes.items()
            )
            return f"change step {operation.id}: {changes}"
        case AddEdge(depends_on=edge):
            on = "" if edge.on == "completed" else f" ({edge.on})"
            return f"make {operation.step} depend on {edge.step}{on}"
        case RemoveEdge():
            return f"{operation.step} no longer depends on {operation.depends_on}"
        case SetBudget(budget=budget):
            limits = budget.model_dump(exclude_none=True) if budget else {}
            text = ", ".join(f"{name} = {value}" for name, value in limits.items())
            return f"limits for the whole plan: {text}" if text else "no limits for the whole plan"
