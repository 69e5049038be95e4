"""The run of a plan file that was begun and did not end: what ``vibe plan run --resume`` goes on with."""

from __future__ import annotations

from pathlib import Path

from planner.plan.loader import LoadedPlan
from planner.plan.operations import RevisionInvalidError
from planner.plan.patch import operations_between
from planner.store.current_plan import effective_plan
from planner.store.folder import PlanFolder, list_plans, plans_folder
from vibe.app.plan.prepare import RESUMABLE
from vibe.core.errors import UsageError


class PlanFileChangedError(UsageError):
    """The file of a plan that was begun is not what it was."""

    def __init__(self, plan_id: str, where: str) -> None:
        super().__init__(
            f"{where} has changed since plan {plan_id} started from it: `vibe plan edit {plan_id} --file FILE` "
            f"applies the changes, `vibe plan cancel {plan_id}` cancels it"
        )
        self.plan_id = plan_id


def unfinished_run(home: Path, loaded: LoadedPlan, workspace: Path) -> str | None:
    """The id of the newest plan begun from this file, in this workspace, that has not ended; None if there is none.

    A demonstration works in a copy of its own, wherever it was started. Reads files.

    Raises:
        PlanFileChangedError: there is one, of another text.
        BrokenPlanError: there is one, and it can't be read back.
    """
    for plan in reversed(list_plans(home)):
        if plan.problem is not None or plan.status not in RESUMABLE:
            continue
        folder = PlanFolder(plans_folder(home) / plan.plan_id)
        settings = folder.settings()
        if settings.origin == loaded.where and (settings.sample or Path(settings.workspace) == workspace):
            if folder.source() != loaded.source_bytes and _differs(folder, loaded):
                raise PlanFileChangedError(plan.plan_id, loaded.where)
            return plan.plan_id
    return None


def _differs(folder: PlanFolder, loaded: LoadedPlan) -> bool:
    """Return whether the file asks for something else than the current plan, changes included."""
    try:
        return bool(operations_between(effective_plan(folder).plan, loaded.plan))
    except RevisionInvalidError:
        return True  # in more than steps
