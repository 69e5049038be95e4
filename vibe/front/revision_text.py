"""Revisions of a plan, for people and for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ipc.events import PlanRevisedEvent
from planner.plan.loader import LoadedPlan
from planner.plan.operations import operation_text, read_operations
from planner.reuse.reuse import diff
from planner.state.state import RemovedStep
from vibe.app.plan.reuse import comparable
from vibe.front.event_text import counted, one_line


def revision_lines(revisions: Sequence[PlanRevisedEvent]) -> list[str]:
    """A line for each revision and for each of its operations, below a heading; nothing if there was none."""
    lines: list[str] = ["", "Revisions:"] if revisions else []
    for revision in revisions:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(revision.ts))
        by = f" by {one_line(revision.by)}" if revision.by else ""
        why = f": {one_line(revision.reason, 400)}" if revision.reason else ""
        lines += [f"  {when}{by}{why}", *(f"    {text}" for text in _operations(revision))]
    return lines


def revision_documents(revisions: Sequence[PlanRevisedEvent]) -> list[dict[str, Any]]:
    """The same as JSON; ``operations`` as a plan's journal has them, ``text`` as people read them."""
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


def removed_lines(steps: Sequence[RemovedStep]) -> list[str]:
    """A line for each step that a revision took out of the plan."""
    lines: list[str] = []
    for removed in steps:
        begun, title = removed.step.begun, removed.step.outline.title
        attempts = f" after {counted(begun, 'attempt')}" if begun else ""
        lines.append(f"removed from the plan: {removed.id}: {one_line(title)} ({removed.status.value}{attempts})")
    return lines


def version_lines(before: LoadedPlan, now: LoadedPlan) -> list[str]:
    """An indented line for each step that another version of a document changed, added or removed."""
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
