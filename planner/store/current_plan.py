"""The current plan: the document it began with, every revision recorded since, and the steps made for items."""

from __future__ import annotations

from ipc.events import PlanDecisionEvent
from planner.plan.diagnostics import DecisionInvalidError, PlanInvalidError
from planner.plan.for_each import ItemsInvalidError, children_of
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import OPEN_STATUSES, Decision, Option, Plan
from planner.plan.operations import read_operations
from planner.plan.revision import revise
from planner.state.decide import preview_next_run
from planner.state.decisions import check_answer
from planner.state.schedule import align_steps
from planner.state.state import State
from planner.store.errors import BrokenPlanError
from planner.store.folder import JOURNAL_FILE, SOURCE_FILE, PlanFolder, RunSettings


def effective_plan(folder: PlanFolder, state: State | None = None, *, where: str = "") -> LoadedPlan:
    """Return the current plan of a folder. Whoever reads a plan back must use this.

    ``state`` saves reading the journal again. ``where`` names the document in messages in place of the folder's file.

    Raises:
        BrokenPlanError: the journal or the document can't be read, or a recorded revision or answer does not fit.
    """
    source = str(folder.path / SOURCE_FILE)
    where = where or source
    state = state or folder.state()
    try:
        loaded = load_plan(folder.source(), where=where)
    except PlanInvalidError as error:
        others = len(error.problems) - 1
        more = f" (and {others} more)" if others else ""
        raise BrokenPlanError(source, f"is no longer a valid plan: {error.problems[0]}{more}") from error
    for number in range(len(state.revisions) + 1):
        try:
            loaded = _unfolded(folder, state, loaded, number)
            if number < len(state.revisions):
                loaded = revise(loaded.plan, read_operations(list(state.revisions[number].operations)), where=where)
        except (PlanInvalidError, ItemsInvalidError) as error:
            raise BrokenPlanError(
                f"{folder.path / JOURNAL_FILE}", f"revision {number + 1} does not fit: {error}"
            ) from error
    try:
        _check_decisions(loaded.plan, state)
    except DecisionInvalidError as error:
        raise BrokenPlanError(f"{folder.path / JOURNAL_FILE}", f"holds an answer that does not fit: {error}") from error
    return loaded


def _unfolded(folder: PlanFolder, state: State, loaded: LoadedPlan, revisions: int) -> LoadedPlan:
    """Return the plan with steps for the items of those lists that were read after this many revisions."""
    for step_id, unfolding in state.unfolded.items():
        pattern = next((step for step in loaded.plan.steps if step.id == step_id), None)
        if unfolding.revisions == revisions and pattern is not None:
            items = folder.items(step_id, unfolding.fact.items)
            loaded = loaded.unfolded(children_of(pattern, items, loaded.plan.values()))
    return loaded


def current_state(folder: PlanFolder, settings: RunSettings | None = None) -> tuple[LoadedPlan, State]:
    """Return the current plan and its state: as the process that runs it has it, or as the next one will find it.

    Raises:
        BrokenPlanError: as for ``effective_plan``.
    """
    is_held, state = folder.holder() is not None, folder.state()
    loaded = effective_plan(folder, state)
    if is_held:
        align_steps(state, loaded.plan)
        return loaded, state
    return loaded, preview_next_run(state, loaded, (settings or folder.settings()).decisions)


def open_decisions(plan: Plan, state: State) -> tuple[Decision, ...]:
    """Return the decisions that the plan waits for; none if it has ended."""
    if state.standing not in OPEN_STATUSES:
        return ()
    own = {decision.id: decision for decision in plan.decisions}
    return tuple(own.get(name) or _as_decision(decision) for name, decision in state.open.items())


def _as_decision(event: PlanDecisionEvent) -> Decision:
    """Return the decision that an event opens."""
    texts = zip(event.options, event.labels, event.descriptions, strict=True)
    options = [Option.model_construct(id=name, label=label, description=about) for name, label, about in texts]
    return Decision.model_construct(
        id=event.decision_id,
        question=event.question,
        options=options,
        multi_select=event.multi_select,
        default=list(event.default) or None,
        timeout_seconds=event.timeout_seconds,
    )


def _check_decisions(plan: Plan, state: State) -> None:
    """Check that the recorded answers to the plan's own decisions fit it.

    Raises:
        DecisionInvalidError: one does not.
    """
    known = {decision.id: decision for decision in plan.decisions}
    for decision_id, taken in state.decisions.items():
        if decision_id in known or not taken.kind:
            check_answer(known, decision_id, taken.selections)
