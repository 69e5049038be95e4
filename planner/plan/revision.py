"""Revises a plan that has begun: applies operations and checks the result, or derives them from two plans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from planner.plan.dag import Dag
from planner.plan.diagnostics import Problem, listed, quoted
from planner.plan.for_each import remade, without_children
from planner.plan.loader import LoadedPlan, check_plan
from planner.plan.model import Child, Plan, PlanBudget, Step, with_texts
from planner.plan.operations import (
    AddEdge,
    AddStep,
    Operation,
    RemoveEdge,
    RemoveStep,
    RevisionInvalidError,
    SetBudget,
    UpdateStep,
    plain_operations,
)
from planner.plan.strict_json import JsonRefused
from subagents.executor import KeptWork
from subagents.step_result import StepResult
from vibe.core.messages import Outcome
from vibe.system.errors import VibeError

_STEP_PATH = re.compile(r"^steps\[(\d+)\]")
_NOT_UPDATED = {
    "id": ("a step keeps its id", "remove the step and add another"),
    "depends_on": ("edges are not changed here", "use add_edge and remove_edge"),
}


class ProviderRefused(VibeError):
    """The provider refused a call, and would refuse any other.

    ``outcome`` is LIMIT if quota or credit is used up, FAILED if the key is refused.
    """

    def __init__(self, detail: str, outcome: Outcome) -> None:
        super().__init__(detail)
        self.outcome = outcome


class RevisionRequest(Struct, frozen=True, kw_only=True):
    """A request to a Reviser: the present plan, the failed step and its result.

    ``statuses`` holds those of all steps. ``problems`` says why the previous answer could not be applied. ``check``
    returns the plan after operations or raises a RevisionInvalidError; it blocks. ``kept`` is the step's unmerged work
    in its own worktree.
    """

    plan: Plan
    failed_step_id: str
    result: StepResult
    statuses: Mapping[str, str]
    problems: tuple[str, ...] = ()
    check: Callable[[Sequence[Operation]], LoadedPlan]
    kept: KeptWork | None = None


class Proposal(Struct, frozen=True, kw_only=True):
    """A better plan, as the operations that lead to it, and the reviser's reason."""

    operations: Sequence[Operation]
    reason: str = ""


class Reviser(Protocol):
    """Finds a better plan after a step failed; the plan's account pays for it."""

    async def revise(self, request: RevisionRequest) -> Proposal | None:
        """Return a proposal; None, or one without operations, if there is no better plan.

        Raises:
            ProviderRefused: the provider refused the calls, because of the key, quota or credit.
        """
        ...


def revise(
    plan: Plan, operations: Sequence[Operation], *, fixed: Collection[str] = (), where: str = "the revised plan"
) -> LoadedPlan:
    """Return the plan after all the operations, which may be listed in any order.

    Steps in ``fixed`` (those that run or are completed) may not change, nor the edges into them. Added steps come last
    in the document.

    Raises:
        RevisionInvalidError: an operation is impossible, or the result is not a valid plan.
    """
    plain, children = without_children(plan.resolved())
    bare = plain.escaped()
    named = {operation.id for operation in operations if isinstance(operation, UpdateStep | RemoveStep)}
    touched = {step_id: child for step_id, child in children.items() if step_id in named}
    texts = [with_texts(child, None) for child in touched.values()]
    lists = {child.pattern for child in children.values()}
    draft = _Draft(bare.model_copy(update={"steps": [*bare.steps, *texts]}), frozenset(fixed), lists)
    draft.apply(operations)
    document = draft.document()
    text = json.dumps(document, ensure_ascii=False)
    revised, found = check_plan(text, document)
    problems = [*draft.problems, *map(draft.located, found)]
    if problems or revised is None:
        raise RevisionInvalidError(problems)
    made = {step.id: with_texts(step, {}) if bare is plain and step.id in touched else step for step in revised.steps}
    left = [
        remade(child, made[step_id]) if step_id in touched else child
        for step_id, child in children.items()
        if step_id in made or step_id not in touched
    ]
    revised = revised.model_copy(update={"steps": [step for step in revised.steps if step.id not in children]})
    if touched:
        draft.steps = {step_id: step for step_id, step in draft.steps.items() if step_id not in touched}
        text = json.dumps(draft.document(), ensure_ascii=False)
    loaded = LoadedPlan(plan=revised, dag=Dag.build(revised.steps), source_bytes=text.encode(), where=where)
    return loaded.unfolded(left) if left else loaded


class _Draft(Struct):
    """A plan while operations are applied: raw steps by id, and problems. ``lists``: the steps whose list was read."""

    plan: Plan
    fixed: frozenset[str]
    lists: Collection[str]
    problems: list[Problem] = field(default_factory=list[Problem])
    steps: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    removed: set[str] = field(default_factory=set[str])
    budget: PlanBudget | None = None

    def apply(self, operations: Sequence[Operation]) -> None:
        """Apply the operations; each impossible one becomes a problem."""
        self.budget = self.plan.budget
        for step in self.plan.steps:
            self._put(step)
        turns: dict[type, Callable[[str, Any], None]] = {
            AddStep: self._add_step,
            UpdateStep: self._update_step,
            RemoveEdge: self._remove_edge,
            AddEdge: self._add_edge,
            RemoveStep: self._remove_step,
            SetBudget: self._set_budget,
        }
        order = list(turns)
        for index, operation in sorted(enumerate(operations), key=lambda entry: order.index(type(entry[1]))):
            try:
                turns[type(operation)](f"operations[{index}]", operation)
            except JsonRefused as error:
                self.problems += error.problems
        self._drop_loose_edges()

    def _set_budget(self, _: str, operation: SetBudget) -> None:
        self.budget = operation.budget

    def _put(self, step: Step) -> None:
        raw = step.model_dump(mode="json", exclude_unset=True)
        raw["depends_on"] = [edge.model_dump(mode="json") for edge in step.dependencies]
        self.steps[step.id] = raw

    def document(self) -> dict[str, object]:
        """Return the whole plan as a document."""
        common = self.plan.model_dump(mode="json", exclude_unset=True, exclude={"steps", "budget"})
        if self.budget is not None:
            common["budget"] = self.budget.model_dump(mode="json", exclude_unset=True)
        return {**common, "steps": list(self.steps.values())}

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the document with the step's id in place of its number."""
        found = _STEP_PATH.match(problem.path)
        if found is None:
            return problem
        step_id = list(self.steps)[int(found[1])]
        return Problem(f"step {step_id!r}{problem.path[found.end() :]}", problem.message, problem.fix)

    def _open_step(self, path: str, step_id: str) -> dict[str, Any]:
        """Return a step that may be changed.

        Raises:
            JsonRefused: it is unknown or may not be changed.
        """
        if step_id not in self.steps:
            known = f"the plan's steps: {listed(self.steps)}"
            raise JsonRefused(Problem(path, f"unknown step {quoted(step_id)}", known))
        if step_id in self.fixed:
            message = f"step {step_id!r} is running or completed and can't be changed"
            fix = "add a step after it instead"
            if step_id in self.lists:
                message = f"the list of step {step_id!r} was read, so it can't be changed any more"
                fix = "change or remove the steps for its items, or run the edited plan file with --reuse"
            raise JsonRefused(Problem(path, message, fix))
        return self.steps[step_id]

    def _add_step(self, path: str, operation: AddStep) -> None:
        step = operation.step
        if step.id in self.steps:
            fix = "change that one with update_step, or give the new step a unique id"
            raise JsonRefused(Problem(f"{path}.step.id", f"step {quoted(step.id)} already exists", fix))
        self._put(step)

    def _update_step(self, path: str, operation: UpdateStep) -> None:
        step = self._open_step(path, operation.id)
        for name, value in operation.changes.items():
            if name in _NOT_UPDATED:
                self.problems.append(Problem(f"{path}.changes", *_NOT_UPDATED[name]))
            else:
                step[name] = value

    def _remove_edge(self, path: str, operation: RemoveEdge) -> None:
        step = self._open_step(path, operation.step)
        left = [edge for edge in step["depends_on"] if edge["step"] != operation.depends_on]
        if len(left) == len(step["depends_on"]):
            message = f"step {operation.step!r} does not depend on {quoted(operation.depends_on)}"
            raise JsonRefused(Problem(path, message, "leave this operation out"))
        step["depends_on"] = left

    def _add_edge(self, path: str, operation: AddEdge) -> None:
        step = self._open_step(path, operation.step)
        needed = operation.depends_on.step
        if any(edge["step"] == needed for edge in step["depends_on"]):
            message = f"step {operation.step!r} already depends on {needed!r}"
            raise JsonRefused(Problem(path, message, "to change `on`, remove that edge as well"))
        step["depends_on"] = [*step["depends_on"], operation.depends_on.model_dump(mode="json")]

    def _remove_step(self, path: str, operation: RemoveStep) -> None:
        if operation.id in self.removed:
            raise JsonRefused(Problem(path, f"step {operation.id!r} is removed twice", "leave this operation out"))
        self._open_step(path, operation.id)
        del self.steps[operation.id]
        self.removed.add(operation.id)

    def _drop_loose_edges(self) -> None:
        for step_id, step in self.steps.items():
            for edge in step["depends_on"]:
                if edge["step"] in self.removed:
                    fix = "keep that step" if step_id in self.fixed else "remove this edge, or this step, as well"
                    message = f"depends on {edge['step']!r}, which the revision removes"
                    self.problems.append(Problem(f"step {step_id!r}", message, fix))
            step["depends_on"] = [edge for edge in step["depends_on"] if edge["step"] not in self.removed]


def about_one_item(plan: Plan, step_id: str, operations: Sequence[Operation]) -> list[Problem]:
    """Return a problem if a revision that answers a failed item changes more than the step for that item."""
    failed = next((step for step in plan.steps if step.id == step_id), None)
    own = all(isinstance(operation, UpdateStep) and operation.id == step_id for operation in operations)
    if own or not isinstance(failed, Child):
        return []
    message = f"change more than {step_id!r}, which is done for one item of a list"
    return [Problem("operations", message, "change that step alone, or hand in no operations and why")]


def already_tried(
    plan: Plan, revised: Plan, operations: Sequence[Operation], earlier: Sequence[Sequence[Mapping[str, Any]]]
) -> list[Problem]:
    """Return a problem if a revision changes nothing or repeats an earlier one."""
    fix = "hand in another, or no operations and why"
    if revised == plan:
        return [Problem("operations", "change nothing in the plan", fix)]
    plain = _normalized(plain_operations(operations))
    if any(_normalized(each) == plain for each in earlier):
        return [Problem("operations", "repeat an earlier revision, after which the step failed again", fix)]
    return []


def _normalized(operations: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(operation, sort_keys=True) for operation in operations)


def operations_between(old: Plan, new: Plan) -> tuple[Operation, ...]:
    """Return the operations that turn ``old`` into ``new``; none if only the order of steps differs.

    Raises:
        RevisionInvalidError: the plans differ in more than steps, edges and the budget.
    """
    old, new = without_children(old.resolved())[0].escaped(), new.resolved().escaped()
    names = [name for name in Plan.model_fields if name not in {"steps", "defaults", "budget"}]
    differing = [name for name in names if getattr(old, name) != getattr(new, name)]
    if differing:
        fix = (
            "a revision changes steps, the edges between them and the budget: leave this as it was, or start a new plan"
        )
        raise RevisionInvalidError([Problem(name, "differs", fix) for name in differing])
    before = {step.id: step for step in old.steps}
    after = {step.id: step for step in new.steps}
    operations: list[Operation] = [RemoveStep(id=step_id) for step_id in before if step_id not in after]
    operations += [AddStep(step=_spelled_out(step, old)) for step_id, step in after.items() if step_id not in before]
    for step_id, step in after.items():
        if step_id in before:
            operations += _changes(before[step_id], step)
    operations += [SetBudget(budget=new.budget)] if new.budget != old.budget else []
    return tuple(operations)


def _spelled_out(step: Step, plan: Plan) -> Step:
    """Return the step with its own value for every field that the plan's ``defaults`` would fill in."""
    names = plan.defaults.model_fields_set if plan.defaults else ()
    return step.filled({name: getattr(step, name) for name in names})


def _changes(old: Step, new: Step) -> Iterator[Operation]:
    before = old.model_dump(mode="json", exclude={"depends_on"})
    after = new.model_dump(mode="json", exclude={"depends_on"})
    changes = {name: value for name, value in after.items() if value != before[name]}
    if changes:
        yield UpdateStep(id=old.id, changes=changes)
    kept = [edge for edge in old.dependencies if edge in new.dependencies]
    while tuple(kept) != new.dependencies[: len(kept)]:  # new edges go to the end, so kept ones must come first
        kept.pop()
    yield from (RemoveEdge(step=old.id, depends_on=edge.step) for edge in old.dependencies if edge not in kept)
    yield from (AddEdge(step=old.id, depends_on=edge) for edge in new.dependencies if edge not in kept)
