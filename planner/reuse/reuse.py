"""Content keys of steps, differences between two plans, and which results of one stand for steps of the other; pure.

A key is what a step's result hangs on, as a digest; equal keys mean that the result would stand. It covers the step's
definition (with ``defaults`` written in, and the goal and context that its agent is told), the keys of what it depends
on, how the decisions it names fell, and the commit the plan began at. A step for an item of a list has that of the step
it is made of, with the item in place of the list and of what hands it in. What only says how long or how hard a step
may try (``LIMITS``) is no part of it: a completed step has stayed within them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from planner.plan.dag import Dag
from planner.plan.diagnostics import Suggester, UnknownStepError, listed, quoted
from planner.plan.for_each import items_as_bytes, list_of, own_edges
from planner.plan.inputs import inputs_used
from planner.plan.model import Child, Dependency, Plan, Step, StepStatus
from planner.state.lists import output_of
from planner.state.state import ONLY_REASON, WAIVED_REASON, State
from subagents.step_model import LIMITS
from subagents.step_result import StepResult
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError
from vibe.system.plain_text import some_of

_EDGES = "depends_on"


@dataclass(frozen=True, kw_only=True)
class KeyedPlan:
    """A plan and what its results depend on besides: ``decisions`` taken, and the base commit (None: not known)."""

    plan: Plan
    dag: Dag
    decisions: Mapping[str, tuple[str, ...]]
    base_commit: str | None

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """The steps by id."""
        return {step.id: step for step in self.plan.steps}

    @cached_property
    def works(self) -> Mapping[str, str]:
        """Of each step a digest of everything in its key but the commit."""
        works: dict[str, str] = {}
        for step_id in self.dag.order:
            step = self.steps[step_id]
            works[step_id] = _digest({
                "definition": self.definition(step_id),
                "dependencies": {edge.step: works[edge.step] for edge in self.edges(step)},
                "decisions": self.reached(step_id),
            })
        return works

    def definition(self, step_id: str) -> dict[str, Any]:
        """Return the step as JSON: its fields but for LIMITS, and the plan's goal and context if an agent does it."""
        child = self.steps[step_id]
        step = self.steps[child.pattern] if isinstance(child, Child) else child
        fields = step.model_dump(mode="json", exclude={*LIMITS, _EDGES})
        fields[_EDGES] = sorted([edge.step, edge.on] for edge in self.edges(child))
        if isinstance(child, Child):
            fields |= {"id": child.id, "for_each": items_as_bytes(child.item)[1]}
        if step.command is None:
            fields |= {"goal": self.plan.goal, "context": self.plan.context}
        if used := inputs_used(step, self.plan.values()):
            fields["inputs"] = used
        return fields

    def edges(self, step: Step) -> list[Dependency]:
        """The edges that a step's key covers; of a list, what hands it in tells nothing of one item."""
        source = list_of(self.steps[step.pattern]).source if isinstance(step, Child) else None
        return [edge for edge in own_edges(step) if edge.step != source]

    def limits(self, step_id: str) -> dict[str, Any]:
        """The step's fields that its key leaves out."""
        return self.steps[step_id].model_dump(mode="json", include={*LIMITS})

    def reached(self, step_id: str) -> dict[str, list[str] | None]:
        """Return how the decisions fell that the step names (None: not taken)."""
        step = self.steps[step_id]
        named = {*(step.when or ()), *([step.decision] if step.decision else [])}
        return {name: sorted(self.decisions[name]) if name in self.decisions else None for name in sorted(named)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class StepChange(Struct, frozen=True, kw_only=True):
    """Reason why a step's result would not stand any more.

    ``fields`` of its definition differ, as do ``dependencies`` it keeps, and ``decisions`` that fell otherwise;
    ``base_commit``: the plans began at different commits.
    """

    fields: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    base_commit: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields or self.dependencies or self.decisions or self.base_commit)

    @property
    def text(self) -> str:
        """The reasons in a line."""
        said: list[str] = []
        if self.fields:
            said.append(f"{', '.join(self.fields)} {'differ' if len(self.fields) > 1 else 'differs'}")
        if self.dependencies:
            said.append(f"depends on {', '.join(self.dependencies)}, changed")
        said += [f"different choice for decision {name}" for name in self.decisions]
        if self.base_commit:
            said.append("different base commit")
        return "; ".join(said)


class PlanDiff(Struct, frozen=True, kw_only=True):
    """Steps by id, in the order of the plan they are in. ``limits`` names fields that differ without changing a key."""

    unchanged: tuple[str, ...]
    changed: Mapping[str, StepChange]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]

    def as_document(self) -> dict[str, Any]:
        """As JSON."""
        changed = [{"id": step_id, **asdict(change)} for step_id, change in self.changed.items()]
        return asdict(self) | {"changed": changed}


def diff(old: KeyedPlan, new: KeyedPlan) -> PlanDiff:
    """Return what differs from ``old`` to ``new``; what has the same content key is unchanged."""
    common = [step_id for step_id in new.steps if step_id in old.steps]
    changed: dict[str, StepChange] = {}
    limits: dict[str, tuple[str, ...]] = {}
    for step_id in common:
        change = change_of(step_id, old, new)
        if change:
            changed[step_id] = change
        if other := _differing(old.limits(step_id), new.limits(step_id)):
            limits[step_id] = other
    return PlanDiff(
        unchanged=tuple(step_id for step_id in common if step_id not in changed),
        changed=changed,
        added=tuple(step_id for step_id in new.steps if step_id not in old.steps),
        removed=tuple(s for s, step in old.steps.items() if s not in new.steps and not isinstance(step, Child)),
        limits=limits,
    )


def change_of(step_id: str, old: KeyedPlan, new: KeyedPlan) -> StepChange:
    """Return why a step that both have has another key in the new one; false if it has the same."""
    base = old.base_commit != new.base_commit
    if old.works[step_id] == new.works[step_id]:
        return StepChange(base_commit=base)
    kept = [edge.step for edge in new.edges(new.steps[step_id]) if edge.step in old.steps]
    return StepChange(
        fields=_differing(old.definition(step_id), new.definition(step_id)),
        dependencies=tuple(each for each in dict.fromkeys(kept) if old.works[each] != new.works[each]),
        decisions=_differing(old.reached(step_id), new.reached(step_id)),
        base_commit=base,
    )


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    """Names whose values differ; one that only the new or only the old has counts as a field's difference."""
    names = dict.fromkeys((*new, *old))
    return tuple(name for name in names if old.get(name) != new.get(name))


REUSED_BY = "reuse"
"""The taker of a decision whose answer was taken over."""
SHOWN = 8
SHORT_COMMIT = 10
TAG = "tag:"
"""The prefix of a tag where a step's id could stand."""


class Earlier(Struct, frozen=True, kw_only=True):
    """A finished run of a plan: its keys at the end, and its last ``state``."""

    plan_id: str
    keyed: KeyedPlan
    state: State


class Selection(Struct, frozen=True, kw_only=True):
    """Choice of steps a run is about.

    ``taken``: results taken over, by step; ``runs`` says of each step that is left to run why it is (blank: it was
    asked for, or all were); ``left_out``: steps that the run excludes.
    """

    taken: Mapping[str, StepResult] = field(default_factory=dict[str, StepResult])
    runs: Mapping[str, str]
    left_out: tuple[str, ...] = ()


def steps_named(plan: Plan, only: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the steps that ``only`` names, by their ids or, with ``tag:NAME``, by a tag.

    Raises:
        UsageError: no step has such a tag.
    """
    found: dict[str, None] = {}
    for name in only:
        tag = name.removeprefix(TAG)
        if tag == name:
            found[name] = None
        elif tagged := [step.id for step in plan.steps if tag in step.tags]:
            found.update(dict.fromkeys(tagged))
        else:
            known = sorted({known for step in plan.steps for known in step.tags})
            otherwise = f"its steps have the tags {listed(known)}" if known else "its steps have no tags"
            fix = Suggester().fix(tag, known, otherwise)
            raise UsageError(f"no step of the plan has the tag {quoted(tag)}; {fix}")
    return tuple(found)


def select(plan: Plan, dag: Dag, only: Collection[str]) -> Selection:
    """The steps named in ``only`` and all they depend on; none named: every step.

    Raises:
        UnknownStepError: the plan lacks one of the steps.
    """
    known = {step.id for step in plan.steps}
    for step_id in only:
        if step_id not in known:
            raise UnknownStepError(step_id, dag.dependencies)
    wanted = _reached(only, dag.dependencies) if only else known
    return Selection(
        runs={step.id: "" for step in plan.steps if step.id in wanted},
        left_out=tuple(step.id for step in plan.steps if step.id not in wanted),
    )


def answers_taken_over(
    earlier: Earlier, plan: Plan, given: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Answers to decisions that the new plan puts in the same words and that were not given again."""
    old = {decision.id: decision for decision in earlier.keyed.plan.decisions}
    return {
        decision.id: earlier.keyed.decisions[decision.id]
        for decision in plan.decisions
        if decision.id not in given and decision.id in earlier.keyed.decisions and old.get(decision.id) == decision
    }


def reuse(earlier: Earlier, new: KeyedPlan, selection: Selection, only: Collection[str]) -> Selection:
    """Take over every completed step whose key is the same and of whose dependencies none runs again.

    Steps that are asked for by name run themselves, and so does what comes after them.
    """
    again = _reached(only, new.dag.dependants)
    taken: dict[str, StepResult] = {}
    settled: set[str] = set()
    why: dict[str, str] = {}
    for step_id in new.dag.order:
        why[step_id] = _why_not(step_id, earlier, new, settled)
        if step_id in again:
            why[step_id] = "" if step_id in only else "depends on a step you asked for"
        elif not why[step_id]:
            settled.add(step_id)
            was = earlier.state.steps[step_id]
            if was.status is StepStatus.COMPLETED and was.result is not None:
                taken[step_id] = replace(was.result, output=output_of(earlier.state, earlier.keyed.steps, step_id))
    return Selection(
        taken={step_id: _bare(taken[step_id]) for step_id in new.steps if step_id in taken},
        runs={step_id: why[step_id] for step_id in selection.runs if step_id not in taken},
        left_out=tuple(step_id for step_id in selection.left_out if step_id not in taken),
    )


def items_taken(earlier: Earlier, new: KeyedPlan, pattern_id: str, reused: Container[str]) -> dict[str, StepResult]:
    """The results that stand for items of a list, by their keys; ``reused``: steps whose results were taken over."""
    taken: dict[str, StepResult] = {}
    made = (step for step in new.steps.values() if isinstance(step, Child) and step.pattern == pattern_id)
    for step in made:
        was = earlier.state.steps.get(step.id)
        if was is None or step.id not in earlier.keyed.steps:
            continue
        stands = was.status is StepStatus.COMPLETED and all(edge.step in reused for edge in new.edges(step))
        if stands and was.result is not None and not change_of(step.id, earlier.keyed, new):
            taken[step.key] = _bare(was.result)
    return taken


def same_base(earlier: Earlier, head: str | None) -> bool:
    """Return whether the repository stands where the earlier plan began, or where it left it."""
    return head in (earlier.keyed.base_commit, earlier.state.left_at or earlier.keyed.base_commit)


def note_of(selection: Selection, earlier: Earlier | None, *, head: str | None) -> str:
    """Return what is run and what is not, in sentences for the person who asked for it.

    Blank: everything, as always.
    """
    total = len(selection.runs) + len(selection.taken) + len(selection.left_out)
    said: list[str] = []
    if earlier is not None and not selection.taken:
        said.append(_nothing_taken(selection, earlier, head))
    elif earlier is not None:
        said.append(f"{len(selection.taken)} of {total} steps reused from plan {earlier.plan_id}")
        if not selection.runs:
            said.append("nothing left to run")
    if selection.runs and (selection.taken or selection.left_out):
        named = [f"{step_id} ({why})" if why else step_id for step_id, why in selection.runs.items()]
        said.append(f"to run: {some_of(named, SHOWN)}")
    if selection.left_out:
        said.append(f"left out: {some_of(selection.left_out, SHOWN)}")
    return "; ".join(said)


def _nothing_taken(selection: Selection, earlier: Earlier, head: str | None) -> str:
    began, left = earlier.keyed.base_commit, earlier.state.left_at
    if not same_base(earlier, head):
        where = f"at commit {head[:SHORT_COMMIT]}" if head else "without a commit"
        then = f"started at {began[:SHORT_COMMIT]}" if began else "started without one"
        end = f" and left it at {left[:SHORT_COMMIT]}" if left and left != began else ""
        refused = f"nothing reused from plan {earlier.plan_id}"
        return f"{refused}: the repository is {where} now, and that plan {then}{end}"
    reasons = [f"{step_id} ({why})" for step_id, why in selection.runs.items() if why]
    why = some_of(reasons, SHOWN) or "its steps must run again"
    return f"nothing reused from plan {earlier.plan_id}: {why}"


def _why_not(step_id: str, earlier: Earlier, new: KeyedPlan, settled: Collection[str]) -> str:
    """Return why the earlier result does not stand; blank if it does."""
    if step_id not in earlier.keyed.steps:
        return "new"
    change = change_of(step_id, earlier.keyed, new)
    if change:
        return change.text
    was = earlier.state.steps.get(step_id)
    if was is None or not was.status.is_final:
        return "not done there"
    if was.status is StepStatus.SKIPPED and was.reason in (ONLY_REASON, WAIVED_REASON):
        return "skipped there"
    if was.status in (StepStatus.FAILED, StepStatus.CANCELLED):
        return f"{was.status.value} there"
    if was.status is StepStatus.COMPLETED and was.result is None:
        return "its result is lost"
    again = [above for above in new.dag.dependencies[step_id] if above not in settled]
    if again and not (was.status is StepStatus.SKIPPED and _is_ruled_out(step_id, new)):
        return f"depends on {some_of(again, SHOWN)}, which {'run' if len(again) > 1 else 'runs'}"
    return ""


def _is_ruled_out(step_id: str, plan: KeyedPlan) -> bool:
    """Return whether a decision fell so that the step is not wanted, whatever its dependencies come to."""
    when = plan.steps[step_id].when or {}
    return any(name in plan.decisions and set(plan.decisions[name]).isdisjoint(wanted) for name, wanted in when.items())


def _bare(result: StepResult) -> StepResult:
    """Return what a step came to, without what it took: that was spent by the plan that did it."""
    return StepResult(
        outcome=Outcome.COMPLETED,
        summary=result.summary,
        output=result.output,
        files_changed=result.files_changed,
        cost_usd=0.0,
    )


def _reached(start: Iterable[str], edges: Mapping[str, tuple[str, ...]]) -> set[str]:
    reached = set(start)
    open_steps = list(reached)
    while open_steps:
        for step_id in edges[open_steps.pop()]:
            if step_id not in reached:
                reached.add(step_id)
                open_steps.append(step_id)
    return reached
