"""The plan as it stands now: the document it began with and every revision recorded since."""

from __future__ import annotations

from planner.loader import LoadedPlan, load_plan
from planner.plan_folder import JOURNAL_FILE, SOURCE_FILE, PlanFolder
from planner.problems import PlanInvalidError
from planner.replay import RestoredPlan
from planner.revision import read_operations, revise
from planner.store_errors import BrokenPlanError


def effective_plan(folder: PlanFolder, restored: RestoredPlan | None = None, *, where: str = "") -> LoadedPlan:
    """What everybody who reads a plan back must read; ``restored`` saves reading its journal again.

    ``where`` names the document in messages, the folder's own file if left out.

    Raises:
        BrokenPlanError: the journal or the document can't be read, or holds a revision that no longer fits.
    """
    source = str(folder.path / SOURCE_FILE)
    where = where or source
    restored = restored or folder.replay()
    try:
        loaded = load_plan(folder.source(), where=where)
    except PlanInvalidError as error:
        others = len(error.problems) - 1
        more = f" (and {others} more)" if others else ""
        raise BrokenPlanError(source, f"is no valid plan any more: {error.problems[0]}{more}") from error
    for number, revision in enumerate(restored.revisions, 1):
        try:
            loaded = revise(loaded.plan, read_operations(list(revision.operations)), where=where)
        except PlanInvalidError as error:
            raise BrokenPlanError(
                f"{folder.path / JOURNAL_FILE}", f"revision {number} does not fit: {error}"
            ) from error
    return loaded
