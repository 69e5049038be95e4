"""Compares two plans by the content keys of their steps, and selects the results that the new plan can reuse. Pure.

A content key is a digest of everything that a step's result depends on: with equal keys, a result can be reused. It
covers the step's definition (with ``defaults`` written in, and the goal and context that its agent reads), the keys of
its dependencies, the answers to the decisions it names, and the commit at which the plan began. The key of a step for
an item is that of the step with the list, with the item in place of the list and of the step that hands the list in.
Fields that only bound how long or how hard a step may try (``LIMITS``) are left out: a completed step stayed within
them.
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
from vibe.system.plain_text import counted, some_of

_EDGES = "depends_on"


@dataclass(frozen=True, kw_only=True)
class KeyedPlan:
    """A plan with all else its results depend on: ``decisions`` taken, and the base commit, or None if unknown."""

    plan: Plan
    dag: Dag
    decisions: Mapping[str, tuple[str, ...]]
    base_commit: str | None

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """The plan's steps by id."""
        return {step.id: step for step in self.plan.steps}

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Digests of everything in the keys except the commit, by step id."""
        digests: dict[str, str] = {}
        for step_id in self.dag.order:
            step = self.steps[step_id]
            digests[step_id] = _digest({
                "definition": self.definition(step_id),
                "dependencies": {edge.step: digests[edge.step] for edge in self.edges(step)},
                "decisions": self.answers(step_id),
            })
        return digests

    def definition(self, step_id: str) -> dict[str, Any]:
        """Return the step as JSON: its fields without LIMITS, and the plan's goal and context if an agent does it."""
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
        """Return the edges that a step's key covers; for an item, without the step that hands the list in."""
        source = list_of(self.steps[step.pattern]).source if isinstance(step, Child) else None
        return [edge for edge in own_edges(step) if edge.step != source]

    def limits(self, step_id: str) -> dict[str, Any]:
        """Return the step's fields that its key leaves out."""
        return self.steps[step_id].model_dump(mode="json", include={*LIMITS})

    def answers(self, step_id: str) -> dict[str, list[str] | None]:
        """Return the answers to the decisions that the step names, or None where none was taken."""
        step = self.steps[step_id]
        named = {*(step.when or ()), *([step.decision] if step.decision else [])}
        return {name: sorted(self.decisions[name]) if name in self.decisions else None for name in sorted(named)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class StepChange(Struct, frozen=True, kw_only=True):
    """The reasons why a step's earlier result can't be reused; false if there are none.

    ``fields`` of its definition differ, ``dependencies`` that it kept have changed, or ``decisions`` had other answers.
    ``base_commit`` says that the plans began at different commits.
    """

    fields: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    base_commit: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields or self.dependencies or self.decisions or self.base_commit)

    @property
    def text(self) -> str:
        """The reasons in one line."""
        reasons: list[str] = []
        if self.fields:
            reasons.append(f"{', '.join(self.fields)} {'differ' if len(self.fields) > 1 else 'differs'}")
        if self.dependencies:
            reasons.append(f"depends on {', '.join(self.dependencies)}, changed")
        reasons += [f"different choice for decision {name}" for name in self.decisions]
        if self.base_commit:
            reasons.append("different base commit")
        return "; ".join(reasons)


class PlanDiff(Struct, frozen=True, kw_only=True):
    """The differences between two plans, by step id in plan order. ``limits``: changed fields that keys leave out."""

    unchanged: tuple[str, ...]
    changed: Mapping[str, StepChange]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]

    def as_document(self) -> dict[str, Any]:
        """Return the differences as plain data for JSON."""
        changed = [{"id": step_id, **asdict(change)} for step_id, change in self.changed.items()]
        return asdict(self) | {"changed": changed}


def diff(old: KeyedPlan, new: KeyedPlan) -> PlanDiff:
    """Return the differences from ``old`` to ``new``; steps with equal content keys are unchanged."""
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
    """Return why a step of both plans has another key in the new one; false if the keys are equal."""
    base = old.base_commit != new.base_commit
    if old.digests[step_id] == new.digests[step_id]:
        return StepChange(base_commit=base)
    kept = [edge.step for edge in new.edges(new.steps[step_id]) if edge.step in old.steps]
    return StepChange(
        fields=_differing(old.definition(step_id), new.definition(step_id)),
        dependencies=tuple(each for each in dict.fromkeys(kept) if old.digests[each] != new.digests[each]),
        decisions=_differing(old.answers(step_id), new.answers(step_id)),
        base_commit=base,
    )


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names whose values differ; a missing name counts as None."""
    names = dict.fromkeys((*new, *old))
    return tuple(name for name in names if old.get(name) != new.get(name))


REUSED_BY = "reuse"
"""The ``by`` of a decision whose answer came from an earlier plan."""
SHOWN = 8
SHORT_COMMIT = 10
TAG = "tag:"
"""The prefix of a tag where a step's id could stand."""


class EarlierRun(Struct, frozen=True, kw_only=True):
    """An earlier run of a plan: its keys at the end, and its last ``state``."""

    plan_id: str
    keyed: KeyedPlan
    state: State


class Selection(Struct, frozen=True, kw_only=True):
    """The steps that a run covers.

    ``taken`` holds the reused results, by step. ``runs`` holds the steps to run, each with the reason, which is blank
    if it was asked for, or if all were. ``left_out`` holds the steps that the run excludes.
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
    """Select the steps in ``only`` and all they depend on, or every step if it is empty.

    Raises:
        UnknownStepError: the plan lacks one of the steps.
    """
    known = {step.id for step in plan.steps}
    for step_id in only:
        if step_id not in known:
            raise UnknownStepError(step_id, dag.dependencies)
    wanted = _reachable(only, dag.dependencies) if only else known
    return Selection(
        runs={step.id: "" for step in plan.steps if step.id in wanted},
        left_out=tuple(step.id for step in plan.steps if step.id not in wanted),
    )


def answers_taken_over(
    earlier: EarlierRun, plan: Plan, given: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return earlier answers to decisions that are the same in the new plan and were not given anew."""
    old = {decision.id: decision for decision in earlier.keyed.plan.decisions}
    return {
        decision.id: earlier.keyed.decisions[decision.id]
        for decision in plan.decisions
        if decision.id not in given and decision.id in earlier.keyed.decisions and old.get(decision.id) == decision
    }


def reuse(earlier: EarlierRun, new: KeyedPlan, selection: Selection, only: Collection[str]) -> Selection:
    """Reuse the result of every completed step whose key is the same and whose dependencies don't run again.

    Steps that are asked for by name run in any case, and so do all steps that depend on them.
    """
    rerun = _reachable(only, new.dag.dependants)
    taken: dict[str, StepResult] = {}
    settled: set[str] = set()
    why: dict[str, str] = {}
    for step_id in new.dag.order:
        why[step_id] = _why_not(step_id, earlier, new, settled)
        if step_id in rerun:
            why[step_id] = "" if step_id in only else "depends on a step you asked for"
        elif not why[step_id]:
            settled.add(step_id)
            old_step = earlier.state.steps[step_id]
            if old_step.status is StepStatus.COMPLETED and old_step.result is not None:
                taken[step_id] = replace(old_step.result, output=output_of(earlier.state, earlier.keyed.steps, step_id))
    return Selection(
        taken={step_id: _bare(taken[step_id]) for step_id in new.steps if step_id in taken},
        runs={step_id: why[step_id] for step_id in selection.runs if step_id not in taken},
        left_out=tuple(step_id for step_id in selection.left_out if step_id not in taken),
    )


def items_taken(earlier: EarlierRun, new: KeyedPlan, pattern_id: str, reused: Container[str]) -> dict[str, StepResult]:
    """Return the earlier results for a list's items, by item key. ``reused``: the steps whose results were reused."""
    taken: dict[str, StepResult] = {}
    made = (step for step in new.steps.values() if isinstance(step, Child) and step.pattern == pattern_id)
    for step in made:
        old_step = earlier.state.steps.get(step.id)
        if old_step is None or step.id not in earlier.keyed.steps:
            continue
        reusable = old_step.status is StepStatus.COMPLETED and all(edge.step in reused for edge in new.edges(step))
        if reusable and old_step.result is not None and not change_of(step.id, earlier.keyed, new):
            taken[step.key] = _bare(old_step.result)
    return taken


def same_base(earlier: EarlierRun, head: str | None) -> bool:
    """Return whether the repository is at the commit where the earlier plan began, or where it left it."""
    return head in (earlier.keyed.base_commit, earlier.state.left_at or earlier.keyed.base_commit)


def note_of(selection: Selection, earlier: EarlierRun | None, *, head: str | None) -> str:
    """Return which steps run and which don't, in sentences for a person; blank if all do, as usual."""
    total = len(selection.runs) + len(selection.taken) + len(selection.left_out)
    sentences: list[str] = []
    if earlier is not None and not selection.taken:
        sentences.append(_nothing_taken(selection, earlier, head))
    elif earlier is not None:
        sentences.append(f"{len(selection.taken)} of {counted(total, 'step')} reused from plan {earlier.plan_id}")
        if not selection.runs:
            sentences.append("nothing left to run")
    if selection.runs and (selection.taken or selection.left_out):
        named = [f"{step_id} ({why})" if why else step_id for step_id, why in selection.runs.items()]
        sentences.append(f"to run: {some_of(named, SHOWN)}")
    if selection.left_out:
        sentences.append(f"left out: {some_of(selection.left_out, SHOWN)}")
    return "; ".join(sentences)


def _nothing_taken(selection: Selection, earlier: EarlierRun, head: str | None) -> str:
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


def _why_not(step_id: str, earlier: EarlierRun, new: KeyedPlan, settled: Collection[str]) -> str:
    """Return why a step's earlier result can't be reused, or blank if it can."""
    if step_id not in earlier.keyed.steps:
        return "new"
    change = change_of(step_id, earlier.keyed, new)
    if change:
        return change.text
    old_step = earlier.state.steps.get(step_id)
    if old_step is None or not old_step.status.is_final:
        return "not done there"
    if old_step.status is StepStatus.SKIPPED and old_step.reason in (ONLY_REASON, WAIVED_REASON):
        return "skipped there"
    if old_step.status in (StepStatus.FAILED, StepStatus.CANCELLED):
        return f"{old_step.status.value} there"
    if old_step.status is StepStatus.COMPLETED and old_step.result is None:
        return "its result is lost"
    rerun = [above for above in new.dag.dependencies[step_id] if above not in settled]
    if rerun and not (old_step.status is StepStatus.SKIPPED and _is_ruled_out(step_id, new)):
        return f"depends on {some_of(rerun, SHOWN)}, which {'run' if len(rerun) > 1 else 'runs'}"
    return ""


def _is_ruled_out(step_id: str, plan: KeyedPlan) -> bool:
    """Return whether an answer excludes the step, whatever becomes of its dependencies."""
    when = plan.steps[step_id].when or {}
    return any(name in plan.decisions and set(plan.decisions[name]).isdisjoint(wanted) for name, wanted in when.items())


def _bare(result: StepResult) -> StepResult:
    """Return a step's result without its spending, which belongs to the plan that did it."""
    return StepResult(
        outcome=Outcome.COMPLETED,
        summary=result.summary,
        output=result.output,
        files_changed=result.files_changed,
        cost_usd=0.0,
    )


def _reachable(start: Iterable[str], edges: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return all steps that edges lead to from these, themselves included."""
    reached = set(start)
    open_steps = list(reached)
    while open_steps:
        for step_id in edges[open_steps.pop()]:
            if step_id not in reached:
                reached.add(step_id)
                open_steps.append(step_id)
    return reached
