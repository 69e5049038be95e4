"""Lists of steps made for items: their progress, their joint result, and whether enough can still complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from ipc.events import StepOutline, WorkDone
from planner.plan.for_each import ITEMS_REASON, list_of
from planner.plan.model import Child, Step
from planner.plan.status import StepStatus
from planner.state.state import BUDGET_REASON, FINAL, State, StepState, list_result
from subagents.step_result import StepResult

T = TypeVar("T")

PAGE = 50
"""The most steps for items on one page."""
SHOWN_ITEMS = 5
"""The most items that did not complete whose reasons a list's summary gives."""

_REMOVED = StepState(outline=StepOutline(id="", title="", mode=""), status=StepStatus.SKIPPED)


class ItemCount(Struct):
    """The counts of a list's items: all, those that must complete, and those lost, which ended without completing."""

    total: int
    enough: int
    lost: int = 0

    @property
    def is_hopeless(self) -> bool:
        """True if too few items can still complete."""
        return self.total - self.lost < self.enough


def count_items(
    state: State, steps: Mapping[str, Step], pattern_id: str, again: Container[str] = frozenset()
) -> ItemCount:
    """Count a list's items, with those in ``again`` taken as open. Items that a revision removed count as lost."""
    made = state.unfolded[pattern_id].fact.children
    enough = list_of(steps[pattern_id]).enough
    count = ItemCount(total=len(made), enough=len(made) if enough == "all" else enough)
    states = [None if child.id in again else state.steps.get(child.id, _REMOVED) for child in made]
    count.lost = sum(step is not None and is_lost(step) for step in states)
    return count


def items_to_reopen(state: State, steps: Mapping[str, Step], pattern_id: str, again: Collection[str]) -> set[str]:
    """Return the items that were skipped because too few could complete, if enough can once ``again`` are open."""
    made = state.items_of(pattern_id)
    if all(each.id not in again for each in made):
        return set()
    given_up = {each.id for each in made if each.reason == ITEMS_REASON}
    return set() if count_items(state, steps, pattern_id, given_up.union(again)).is_hopeless else given_up


def is_lost(step: StepState) -> bool:
    """Return whether a step ended without completing."""
    return step.status in FINAL and step.status is not StepStatus.COMPLETED


def has_begun(step: StepState) -> bool:
    """Return whether a step was ever begun, or is final."""
    return step.begun > 0 or step.status in FINAL or step.status is StepStatus.IN_PROGRESS


def result_of_list(state: State, steps: Mapping[str, Step], pattern_id: str) -> StepResult:
    """Return the result of a list whose items have all ended, with their results as its output."""
    count = count_items(state, steps, pattern_id)
    children = state.unfolded[pattern_id].fact.children
    made = {child.key: state.steps[child.id] for child in children if child.id in state.steps}
    summary = f"{count.total - count.lost} of {count.total} completed"
    lost = [(key, step) for key, step in made.items() if is_lost(step)]
    title = steps[pattern_id].title  # an item has this title if the plan gives items none of their own
    reasons = [
        f"{key if step.outline.title == title else step.outline.title}: {step.detail or step.reason or step.status}"
        for key, step in lost[:SHOWN_ITEMS]
    ]
    changed = dict.fromkeys(file for step in made.values() for file in step.last_result.files_changed)
    work = WorkDone(summary="\n".join((summary, *reasons)), files_changed=tuple(changed))
    limited = {step.id: step.detail for step in made.values() if step.spoils}
    given_up = {step.id for step in made.values() if step.reason == ITEMS_REASON}
    if count_items(state, steps, pattern_id, given_up.union(limited)).is_hopeless:
        how = (StepStatus.FAILED, ITEMS_REASON, summary)
    elif limited:
        how = (StepStatus.FAILED, BUDGET_REASON, f"{summary}, {len(limited)} cut: {next(iter(limited.values()))}")
    else:
        how = (StepStatus.COMPLETED, None, "")
    return structs.replace(list_result(*how, work), output=output_of(state, steps, pattern_id))


def in_pages(steps: Sequence[T], status_of: Callable[[T], str]) -> list[list[T]]:
    """Return steps for items in pages, ordered for a person: failed ones, then those at work, then the rest."""
    first = {StepStatus.FAILED.value: 0, StepStatus.NEEDS_DECISION.value: 1, StepStatus.IN_PROGRESS.value: 1}
    ordered = sorted(steps, key=lambda step: first.get(status_of(step), 2))
    return [ordered[start : start + PAGE] for start in range(0, len(ordered), PAGE)]


def output_of(state: State, steps: Mapping[str, Step], step_id: str) -> Any:
    """Return the output of a step; for a step done for each item, the list of the items' results."""
    return list(_item_results(state, steps, step_id)) if step_id in state.unfolded else state.steps[step_id].output


def with_list(state: State, steps: Mapping[str, Step], step_id: str) -> StepState:
    """Return a step's state; for a step done for each item that has ended, with the items' results as its output."""
    step = state.steps[step_id]
    if step_id not in state.unfolded or step.result is None:
        return step
    return structs.replace(step, result=structs.replace(step.result, output=output_of(state, steps, step_id)))


def _item_results(state: State, steps: Mapping[str, Step], pattern_id: str) -> Iterator[dict[str, Any]]:
    for made in state.unfolded[pattern_id].fact.children:
        step, child = state.steps.get(made.id), steps.get(made.id)
        result = None if step is None else step.last_result
        yield {
            "key": made.key,
            "item": child.item if isinstance(child, Child) else None,
            "status": StepStatus.SKIPPED.value if step is None else step.status.value,
            "summary": "" if result is None else result.summary or result.detail,
            "output": None if result is None else result.output,
        }
