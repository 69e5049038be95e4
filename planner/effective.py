"""The plan as it stands now: the document it began with and every revision recorded since."""

from __future__ import annotations

from collections.abc import Mapping

from planner.decisions import attempt_of
from planner.loader import LoadedPlan, load_plan
from planner.model import Plan
from planner.operations import read_operations
from planner.plan_folder import JOURNAL_FILE, SOURCE_FILE, PlanFolder
from planner.problems import DecisionInvalidError, PlanInvalidError, listed
from planner.readiness import check_selections
from planner.replay import RestoredPlan
from planner.revision import revise
from planner.store_errors import BrokenPlanError


def effective_plan(folder: PlanFolder, restored: RestoredPlan | None = None, *, where: str = "") -> LoadedPlan:
    """What everybody who reads a plan back must read; ``restored`` saves reading its journal again.

    ``where`` names the document in messages, the folder's own file if left out.

    Raises:
        BrokenPlanError: the journal or the document can't be read, or holds a revision or an answer that does not fit.
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
    try:
        _check_decisions(loaded.plan, restored.decisions)
    except DecisionInvalidError as error:
        raise BrokenPlanError(f"{folder.path / JOURNAL_FILE}", f"holds an answer that does not fit: {error}") from error
    return loaded


def _check_decisions(plan: Plan, taken: Mapping[str, tuple[str, ...]]) -> None:
    known = {decision.id: decision for decision in plan.decisions}
    for decision_id, selections in taken.items():
        if decision_id in known:
            check_selections(known[decision_id], selections)
        elif attempt_of(decision_id) is None:
            raise DecisionInvalidError(decision_id, f"the plan has no such decision; its decisions: {listed(known)}")
