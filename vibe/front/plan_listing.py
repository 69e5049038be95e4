"""Describes plans that have been run as lines: a list of them, the status of one, and its revisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ipc.events import PlanRevisedEvent
from planner.plan.for_each import folded
from planner.plan.loader import LoadedPlan
from planner.plan.model import Child, Decision, Plan, PlanStatus, Step
from planner.plan.operations import operation_text, read_operations
from planner.plan.status import MARKS, items_text, reason_text, status_text
from planner.reuse.reuse import diff
from planner.state.lists import in_pages
from planner.state.state import RemovedStep, State, StepState
from planner.store.current_plan import current_state, open_decisions
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, PlanSummary, find_plan, list_plans, plans_in
from vibe.app.plan.reuse import comparable
from vibe.core.messages import Spending
from vibe.front.event_text import step_title
from vibe.front.next_command import decision_lines, try_again
from vibe.system.errors import UsageError
from vibe.system.plain_text import counted, date_text, one_line


def revision_lines(revisions: Sequence[PlanRevisedEvent]) -> Iterator[str]:
    """Yield a line per revision and per operation of it, below a heading; empty if there was no revision."""
    yield from ("", "Revisions:") if revisions else ()
    for revision in revisions:
        when = date_text(revision.ts, "%Y-%m-%d %H:%M:%S")
        by = f" by {one_line(revision.by)}" if revision.by else ""
        why = f": {one_line(revision.reason, 400)}" if revision.reason else ""
        yield f"  {when}{by}{why}"
        yield from (f"    {text}" for text in _operations(revision))


def revision_documents(revisions: Sequence[PlanRevisedEvent]) -> list[dict[str, Any]]:
    """Return the revisions as JSON data: ``operations`` as in the plan's journal, ``text`` for people."""
    return [
        {
            "at": revision.ts,
            "by": revision.by,
            "reason": revision.reason,
            "step_id": revision.step_id,
            "operations": list(revision.operations),
            "text": _operations(revision),
        }
        for revision in revisions
    ]


def removed_lines(steps: Iterable[RemovedStep]) -> Iterator[str]:
    """Yield a line for each step that a revision removed from the plan."""
    for removed in steps:
        begun, title = removed.step.begun, removed.step.outline.title
        attempts = f" after {counted(begun, 'attempt')}" if begun else ""
        yield f"removed from the plan: {removed.id}: {step_title(title)} ({removed.status.value}{attempts})"


def version_lines(before: LoadedPlan, now: LoadedPlan) -> list[str]:
    """Return an indented line for each step that another version of a document changed, added or removed."""
    found = diff(*comparable(before, now, {}))
    lines = [f"~ {step_id}: {change.text}" for step_id, change in found.changed.items()]
    lines += [
        f"~ {step_id}: limits differ: {', '.join(names)}"
        for step_id, names in found.limits.items()
        if step_id not in found.changed
    ]
    lines += [*(f"+ {step_id}" for step_id in found.added), *(f"- {step_id}" for step_id in found.removed)]
    return [f"  {one_line(line, 400)}" for line in lines] or ["  nothing in its steps"]


def _operations(revision: PlanRevisedEvent) -> list[str]:
    return [one_line(operation_text(each), 400) for each in read_operations(list(revision.operations))]


class PlanRead(Struct, frozen=True, kw_only=True):
    """A plan as read from its folder: ``waiting`` are its open decisions, ``removed`` the steps revisions removed."""

    summary: PlanSummary
    plan: Plan
    state: State
    waiting: tuple[Decision, ...]
    removed: Sequence[tuple[RemovedStep, Spending]]

    @classmethod
    def of(cls, folder: PlanFolder) -> PlanRead:
        """Read a folder.

        Raises:
            BrokenPlanError: it can't be read.
        """
        summary = folder.summary()
        loaded, state = current_state(folder)
        if summary.holder is None:  # the journal is the truth, and no process writes to it
            summary = structs.replace(summary, status=state.status, reason=state.reason, counts=state.counted())
        waiting = open_decisions(loaded.plan, state)
        return cls(summary=summary, plan=loaded.plan, state=state, waiting=waiting, removed=_removed(folder, state))

    def item_lines(self, pattern_id: str, page: int) -> list[str]:
        """Return one page of the steps made for a list's items, with their status.

        Raises:
            UsageError: the step has no items, or there is no such page.
        """
        made = [step for step in self.plan.steps if isinstance(step, Child) and step.pattern == pattern_id]
        pages = in_pages(made, lambda step: self.state.steps[step.id].status.value)
        if not pages:
            raise UsageError(f"step {pattern_id!r} has no steps for items: name one with for_each whose list was read")
        if not 0 < page <= len(pages):
            raise UsageError(f"--page {page}: the items of step {pattern_id!r} have {counted(len(pages), 'page')}")
        stand = items_text(self.state.steps[step.id].status.value for step in made)
        return [
            f"{pattern_id}  {stand}  (page {page} of {len(pages)})",
            *(_step_line(step, self.state.steps[step.id], _item_name(step, self.plan)) for step in pages[page - 1]),
        ]

    def lines(self, *, in_chat: bool = False) -> Iterator[str]:
        """Yield the status of the plan and its steps, and the commands to give next, as ``try_again``."""
        summary, state = self.summary, self.state
        yield plan_line(summary)
        for step in folded(self.plan, {step_id: step.status.value for step_id, step in state.steps.items()}).steps:
            yield _step_line(step, state.steps[step.id])
        yield from removed_lines(step for step, _ in self.removed)
        yield from decision_lines(summary.plan_id, self.waiting, in_chat=in_chat)
        if summary.can_go_on:
            yield f"continue with: {'/plan resume' if in_chat else f'vibe plan resume {summary.plan_id}'}"
        if summary.status is PlanStatus.FAILED and summary.holder is None:
            yield from try_again(summary.plan_id, list(state.steps.values()), state.outcome, in_chat=in_chat)


def _item_name(child: Child, plan: Plan) -> str:
    """Return an item step's title, or its key if all items have the same title."""
    is_shared = any(step.id == child.pattern and step.title == child.title for step in plan.steps)
    return child.key if is_shared else child.title


def _step_line(step: Step, state: StepState, title: str = "") -> str:
    status = state.status.value
    detail = f"  {one_line(state.detail or reason_text(state.reason))}"
    return f"{MARKS[status]} {step.id}: {step_title(title or step.title)} ({status}){detail}".rstrip()


def plans_that_ran(home: Path) -> list[PlanSummary]:
    """Return every plan, the oldest first, with the status of each of its steps."""
    return [_counted(plan, home) for plan in list_plans(home)]


LOOKED_AT = 200
"""How many of a home's newest plans are searched for unfinished ones in a folder."""


def left_in(home: Path, workspace: str, most: int) -> list[PlanSummary]:
    """Return a folder's newest plans that were left before their end and can go on; reads files.

    Raises:
        BrokenPlanError: the plans can't be listed.
    """
    return list(islice(_left(home, workspace), most))


def _left(home: Path, workspace: str) -> Iterator[PlanSummary]:
    for folder in plans_in(home, workspace, LOOKED_AT):
        plan = _counted(folder.summary(), home)
        if plan.can_go_on and not plan.problem:
            yield plan


def plan_line(plan: PlanSummary) -> str:
    """Return a plan's id, time, status, step counts and goal in one line."""
    if plan.problem:
        return f"{plan.plan_id}  unreadable: {one_line(plan.problem, 300)}"
    counts = ", ".join(f"{count} {status}" for status, count in plan.counts.items() if count)
    when = date_text(plan.created, "%Y-%m-%d %H:%M")
    return f"{plan.plan_id}  {when}  {_status_text(plan)}  {counts}  {one_line(plan.goal, 80)}"


def _counted(plan: PlanSummary, home: Path) -> PlanSummary:
    """Return the plan with the current status of every step, even if its process died before recording it."""
    if not plan.is_interrupted:
        return plan
    try:
        _, state = current_state(find_plan(home, plan.plan_id))
    except BrokenPlanError as error:
        return structs.replace(plan, problem=str(error))
    return structs.replace(plan, counts=state.counted())


def _removed(folder: PlanFolder, state: State) -> list[tuple[RemovedStep, Spending]]:
    if not state.revisions:
        return []
    from vibe.app.plan.usage_history import removed_steps  # noqa: PLC0415  few plans need conversations read

    return removed_steps(state, folder)


def _status_text(plan: PlanSummary) -> str:
    if plan.is_interrupted:
        return "interrupted"
    status = plan.status.value if plan.status else "unknown"
    return f"{status} (process {plan.holder})" if plan.holder else one_line(status_text(status, plan.reason))
