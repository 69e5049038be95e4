"""Changes to a plan that has begun, as operations: read, checked as a whole, carried out, found between two plans."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast

from pydantic import Field, TypeAdapter, ValidationError

from planner.checks import check_document
from planner.dag import Dag
from planner.field_errors import field_problems
from planner.loader import LoadedPlan
from planner.model import Dependency, Plan, PlanModel, Slug, Step
from planner.problems import PlanInvalidError, Problem, listed, quoted
from planner.strict_json import JsonRefused, parse
from subagents.executor import StepResult
from subagents.worktree_kept import KeptWork
from vibe.core.errors import VibeError
from vibe.core.outcome import Outcome

_STEP_PATH = re.compile(r"^steps\[(\d+)\]")
_SHOWN_VALUE = 40


class AddStep(PlanModel):
    """One more step; ``depends_on`` of the step are its edges. What it leaves out is as the plan's ``defaults`` say."""

    op: Literal["add_step"] = "add_step"
    step: Step


class RemoveStep(PlanModel):
    """A step goes, with its own edges. What depends on it must lose that edge, or go as well."""

    op: Literal["remove_step"] = "remove_step"
    id: Slug


class UpdateStep(PlanModel):
    """Fields of a step change to these values, anything but its id and its edges."""

    op: Literal["update_step"] = "update_step"
    id: Slug
    changes: Annotated[dict[str, Any], Field(min_length=1)]


class AddEdge(PlanModel):
    """``step`` comes after ``depends_on.step``."""

    op: Literal["add_edge"] = "add_edge"
    step: Slug
    depends_on: Dependency


class RemoveEdge(PlanModel):
    """``step`` no longer waits for ``depends_on``."""

    op: Literal["remove_edge"] = "remove_edge"
    step: Slug
    depends_on: Slug


Operation: TypeAlias = Annotated[AddStep | RemoveStep | UpdateStep | AddEdge | RemoveEdge, Field(discriminator="op")]

_OPERATIONS: Mapping[str, type[PlanModel]] = {
    "add_step": AddStep,
    "remove_step": RemoveStep,
    "update_step": UpdateStep,
    "add_edge": AddEdge,
    "remove_edge": RemoveEdge,
}
_TURN = {op: turn for turn, op in enumerate(("add_step", "update_step", "remove_edge", "add_edge", "remove_step"))}


class RevisionInvalidError(PlanInvalidError):
    """A revision that cannot be carried out; nothing of it was. ``problems`` holds all there is to say."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("the revision", problems)


class ProviderRefused(VibeError):
    """The provider says that no other call would fare better.

    ``outcome`` is LIMIT if quota or credit is used up, FAILED if the key is refused.
    """

    def __init__(self, detail: str, outcome: Outcome) -> None:
        super().__init__(detail)
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRequest:
    """What a Reviser is told: the plan as it stands, the step that failed and how, and what is wrong besides.

    ``statuses`` has every step's; ``problems`` say why an answer given before could not be carried out. ``kept`` is what the
    step did in a worktree of its own, which was not merged.
    """

    plan: Plan
    failed_step_id: str
    result: StepResult
    statuses: Mapping[str, str]
    problems: tuple[str, ...] = ()
    kept: KeptWork | None = None


class Reviser(Protocol):
    """Knows a better plan when a step failed. It pays from the plan's account."""

    async def revise(self, request: RevisionRequest) -> Sequence[Operation] | None:
        """The operations to carry out; None: no better plan is known.

        Raises:
            ProviderRefused: the provider says the key, quota or credit is the matter.
        """
        ...


def revise(
    plan: Plan, operations: Sequence[Operation], *, fixed: Collection[str] = (), where: str = "the revised plan"
) -> LoadedPlan:
    """The plan after all the operations; the order in which they are listed does not matter.

    Steps in ``fixed`` (those that run or are completed) stay as they are, edges into them included. Steps that are
    added come last in the document.

    Raises:
        RevisionInvalidError: something of it can't be done, or what comes out is no valid plan; nothing is changed.
    """
    draft = _Draft(plan.resolved(), frozenset(fixed))
    draft.apply(operations)
    document = draft.document()
    problems = [*draft.problems]
    text = json.dumps(document, ensure_ascii=False)
    revised: Plan | None = None
    try:
        revised = Plan.model_validate_json(text, strict=True).resolved()
    except ValidationError as error:
        problems += [draft.located(problem) for problem in field_problems(error, document)]
    problems += [draft.located(problem) for problem in check_document(document)]
    if problems or revised is None:
        raise RevisionInvalidError(problems)
    return LoadedPlan(plan=revised, dag=Dag.build(revised.steps), source_bytes=text.encode(), where=where)


@dataclass(slots=True)
class _Draft:
    """A plan on its way: raw steps by id, and what could not be done to them."""

    plan: Plan
    fixed: frozenset[str]
    problems: list[Problem] = field(default_factory=list[Problem])
    steps: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    removed: set[str] = field(default_factory=set[str])

    def apply(self, operations: Sequence[Operation]) -> None:
        """Everything that can be done is done, the rest becomes a problem."""
        for step in self.plan.steps:
            raw = step.model_dump(mode="json", exclude_unset=True)
            raw["depends_on"] = [edge.model_dump(mode="json") for edge in step.dependencies]
            self.steps[step.id] = raw
        for index, operation in sorted(enumerate(operations), key=lambda entry: _TURN[entry[1].op]):
            path = f"operations[{index}]"
            match operation:
                case AddStep():
                    self._add_step(path, operation)
                case UpdateStep():
                    self._update_step(path, operation)
                case RemoveEdge():
                    self._remove_edge(path, operation)
                case AddEdge():
                    self._add_edge(path, operation)
                case RemoveStep():
                    self._remove_step(path, operation)
        self._leave_no_loose_edge()

    def document(self) -> dict[str, object]:
        """The whole plan as it would be written."""
        common = self.plan.model_dump(mode="json", exclude_unset=True, exclude={"steps"})
        return {**common, "steps": list(self.steps.values())}

    def located(self, problem: Problem) -> Problem:
        """A problem of the document, with the step named instead of counted."""
        found = _STEP_PATH.match(problem.path)
        if found is None:
            return problem
        step_id = list(self.steps)[int(found[1])]
        return Problem(path=f"step {step_id!r}{problem.path[found.end() :]}", message=problem.message, fix=problem.fix)

    def _open_step(self, path: str, step_id: str) -> dict[str, Any] | None:
        """A step that may be changed; None, with the problem noted, if it may not."""
        if step_id not in self.steps:
            known = f"the plan's steps: {listed(self.steps)}"
            self.problems.append(Problem(path=path, message=f"there is no step {quoted(step_id)}", fix=known))
            return None
        if step_id in self.fixed:
            message = f"step {step_id!r} runs or is completed, so it can't be changed"
            self.problems.append(Problem(path=path, message=message, fix="add a step after it instead"))
            return None
        return self.steps[step_id]

    def _add_step(self, path: str, operation: AddStep) -> None:
        step = operation.step
        if step.id in self.steps:
            message = f"{quoted(step.id)} is the id of a step already"
            fix = "change that one with update_step, or give the new step an id of its own"
            self.problems.append(Problem(path=f"{path}.step.id", message=message, fix=fix))
            return
        raw = step.model_dump(mode="json", exclude_unset=True)
        raw["depends_on"] = [edge.model_dump(mode="json") for edge in step.dependencies]
        self.steps[step.id] = raw

    def _update_step(self, path: str, operation: UpdateStep) -> None:
        step = self._open_step(path, operation.id)
        if step is None:
            return
        for name, value in operation.changes.items():
            if name == "id":
                fix = "remove the step and add another"
                self.problems.append(Problem(path=f"{path}.changes", message="a step keeps its id", fix=fix))
            elif name == "depends_on":
                fix = "use add_edge and remove_edge"
                message = "edges are not changed here"
                self.problems.append(Problem(path=f"{path}.changes", message=message, fix=fix))
            else:
                step[name] = value

    def _remove_edge(self, path: str, operation: RemoveEdge) -> None:
        step = self._open_step(path, operation.step)
        if step is None:
            return
        left = [edge for edge in step["depends_on"] if edge["step"] != operation.depends_on]
        if len(left) == len(step["depends_on"]):
            message = f"step {operation.step!r} does not depend on {quoted(operation.depends_on)}"
            self.problems.append(Problem(path=path, message=message, fix="leave this operation out"))
        step["depends_on"] = left

    def _add_edge(self, path: str, operation: AddEdge) -> None:
        step = self._open_step(path, operation.step)
        if step is None:
            return
        needed = operation.depends_on.step
        if any(edge["step"] == needed for edge in step["depends_on"]):
            message = f"step {operation.step!r} depends on {needed!r} already"
            fix = "to change `on`, remove that edge as well"
            self.problems.append(Problem(path=path, message=message, fix=fix))
            return
        step["depends_on"] = [*step["depends_on"], operation.depends_on.model_dump(mode="json")]

    def _remove_step(self, path: str, operation: RemoveStep) -> None:
        if operation.id in self.removed:
            message = f"step {operation.id!r} is removed twice"
            self.problems.append(Problem(path=path, message=message, fix="leave this operation out"))
        elif self._open_step(path, operation.id) is not None:
            del self.steps[operation.id]
            self.removed.add(operation.id)

    def _leave_no_loose_edge(self) -> None:
        for step_id, step in self.steps.items():
            for edge in step["depends_on"]:
                if edge["step"] in self.removed:
                    message = f"depends on {edge['step']!r}, which the revision removes"
                    fix = "keep that step" if step_id in self.fixed else "remove this edge, or this step, as well"
                    self.problems.append(Problem(path=f"step {step_id!r}", message=message, fix=fix))
            step["depends_on"] = [edge for edge in step["depends_on"] if edge["step"] not in self.removed]


def read_operations(raw: object) -> tuple[Operation, ...]:
    """Operations from plain data: what a model handed in, a person wrote, or a journal kept.

    Raises:
        RevisionInvalidError: it is no list of operations; every problem at once.
    """
    try:
        entries = parse(json.dumps(raw, ensure_ascii=False))
    except JsonRefused as error:
        raise RevisionInvalidError(error.problems) from None
    except (TypeError, ValueError, RecursionError):
        raise RevisionInvalidError([Problem(path="operations", message="is not plain JSON data")]) from None
    if not isinstance(entries, list):
        raise RevisionInvalidError([Problem(path="operations", message="must be a list of operations")])
    problems: list[Problem] = []
    operations: list[Operation] = []
    for index, entry in enumerate(cast("list[object]", entries)):
        try:
            operations.append(_operation(entry))
        except JsonRefused as error:
            path = f"operations[{index}]"
            problems += [
                Problem(path=f"{path}.{p.path}" if p.path else path, message=p.message, fix=p.fix)
                for p in error.problems
            ]
    if problems:
        raise RevisionInvalidError(problems)
    return tuple(operations)


def _operation(entry: object) -> Operation:
    if not isinstance(entry, dict):
        raise JsonRefused(Problem(path="", message=f"must be an object, not {quoted(entry)}"))
    fields = cast("dict[str, object]", entry)
    kind = fields.get("op")
    model = _OPERATIONS.get(kind) if isinstance(kind, str) else None
    if model is None:
        message = f"{quoted(kind)} is not one of {listed(_OPERATIONS)}" if "op" in fields else 'is required; add "op"'
        raise JsonRefused(Problem(path="op", message=message))
    unknown = [name for name in fields if name not in model.model_fields]
    known = [name for name in model.model_fields if name != "op"]
    problems = [
        Problem(path=name, message=f"is not a field of {kind}", fix=f"the fields are {listed(known)}")
        for name in unknown
    ]
    try:
        text = json.dumps({name: value for name, value in fields.items() if name not in unknown})
        operation = model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise JsonRefused(*problems, *field_problems(error, fields)) from None
    if problems:
        raise JsonRefused(*problems)
    return cast("Operation", operation)


def plain_operations(operations: Sequence[Operation]) -> tuple[dict[str, Any], ...]:
    """The operations as plain dicts, for a journal or an event; ``read_operations`` reads them back."""
    return tuple({"op": op.op, **op.model_dump(mode="json", exclude_unset=True)} for op in operations)


def operations_schema() -> dict[str, Any]:
    """The JSON Schema of one list of operations."""
    return TypeAdapter(list[Operation]).json_schema()


def operations_between(old: Plan, new: Plan) -> tuple[Operation, ...]:
    """What turns one plan into the other; none if they differ in nothing but the order of their steps.

    Raises:
        RevisionInvalidError: they differ in more than steps and edges.
    """
    old, new = old.resolved(), new.resolved()
    names = [name for name in Plan.model_fields if name not in {"steps", "defaults"}]
    differing = [name for name in names if getattr(old, name) != getattr(new, name)]
    if differing:
        fix = "a revision changes steps and the edges between them: leave this as it was, or start a new plan"
        raise RevisionInvalidError([Problem(path=name, message="differs", fix=fix) for name in differing])
    before = {step.id: step for step in old.steps}
    after = {step.id: step for step in new.steps}
    operations: list[Operation] = [RemoveStep(id=step_id) for step_id in before if step_id not in after]
    operations += [AddStep(step=_spelled_out(step, old)) for step_id, step in after.items() if step_id not in before]
    for step_id, step in after.items():
        if step_id in before:
            operations += _changes(before[step_id], step)
    return tuple(operations)


def _spelled_out(step: Step, plan: Plan) -> Step:
    """The step with a value of its own for all that the plan's ``defaults`` would fill in otherwise."""
    names = plan.defaults.model_fields_set if plan.defaults else ()
    return step.filled({name: getattr(step, name) for name in names})


def _changes(old: Step, new: Step) -> Iterator[Operation]:
    before = old.model_dump(mode="json", exclude={"depends_on"})
    after = new.model_dump(mode="json", exclude={"depends_on"})
    changes = {name: value for name, value in after.items() if value != before[name]}
    if changes:
        yield UpdateStep(id=old.id, changes=changes)
    kept = [edge for edge in old.dependencies if edge in new.dependencies]
    while tuple(kept) != new.dependencies[: len(kept)]:  # edges are added at the end: what stands before stays
        kept.pop()
    yield from (RemoveEdge(step=old.id, depends_on=edge.step) for edge in old.dependencies if edge not in kept)
    yield from (AddEdge(step=old.id, depends_on=edge) for edge in new.dependencies if edge not in kept)


def operation_text(operation: Operation) -> str:
    """One operation as one line for people."""
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
            return f"let {operation.step} wait for {edge.step}{on}"
        case RemoveEdge():
            return f"let {operation.step} not wait for {operation.depends_on}"
