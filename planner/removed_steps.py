"""The steps that revisions took out of a plan, and how each stood then."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from planner.instructions import RestoredStep, Unfinished
from planner.model import StepStatus
from planner.replay import AttemptKey, RestoredPlan, Spending, total_of

_FAILED_FIRST = (Unfinished.ASKING, Unfinished.REVISING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedStep:
    """A step a plan no longer has. ``status`` is the one it had; ``removed_at`` is in unix seconds.

    ``attempts`` counts those begun, ``spent`` is what they took; ``removed_by`` is ``replan`` if a failure led to it, else who asked.
    """

    id: str
    title: str
    status: StepStatus
    attempts: int
    spent: Spending
    removed_by: str
    removed_at: float


def removed_steps(
    source: bytes, restored: RestoredPlan, present: Collection[str], spent: Mapping[AttemptKey, Spending]
) -> tuple[RemovedStep, ...]:
    """Those that are gone for good, first to last, each as it was when it went the last time.

    ``source`` is the plan's document, ``present`` the ids it has now, ``spent`` what each attempt took.
    """
    titles = _titles(json.loads(source)["steps"]) if restored.revisions else {}
    begun = restored.attempts()
    found: dict[str, RemovedStep] = {}
    for revision in restored.revisions:
        for operation in revision.operations:
            match operation:
                case {"op": "add_step", "step": added}:
                    titles |= _titles([added])
                case {"op": "update_step", "id": str(step_id), "changes": {"title": str(title)}}:
                    titles[step_id] = title
                case _:
                    pass
        for step_id in sorted(revision.removed() - set(present)):
            was = restored.removed.get(step_id, RestoredStep(StepStatus.PENDING))
            found.pop(step_id, None)
            found[step_id] = RemovedStep(
                id=step_id,
                title=titles.get(step_id, step_id),
                status=StepStatus.FAILED if was.unfinished in _FAILED_FIRST else was.status,
                attempts=begun.get(step_id, 0),
                spent=total_of(spending for (known, _), spending in spent.items() if known == step_id),
                removed_by=revision.by,
                removed_at=revision.at,
            )
    return tuple(found.values())


def _titles(steps: Iterable[Mapping[str, object]]) -> dict[str, str]:
    return {str(step["id"]): str(step.get("title", step["id"])) for step in steps}
