"""The files a person accepted to be written: what the plan they ran names, and what they changed about it since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ipc.events import PlanRevisedEvent
from planner.plan.model import Plan


def accepted_writes(plan: Plan, revisions: Iterable[PlanRevisedEvent]) -> frozenset[str]:
    """The globs of ``plan``, as it was when it was accepted, and those of revisions that a person made."""
    named = {glob for step in plan.steps for glob in step.writes or ()}
    own = (operation for revision in revisions if revision.by == "user" for operation in revision.operations)
    return frozenset(named.union(*map(_named, own)))


def _named(operation: dict[str, Any]) -> list[str]:
    match operation:
        case {"op": "add_step", "step": {"writes": [*globs]}} | {"op": "update_step", "changes": {"writes": [*globs]}}:
            return [str(glob) for glob in globs]
        case _:
            return []
