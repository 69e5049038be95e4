"""Choice of the steps that fit on a screen: pure, from a PlanView and a number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from vibe.app.view.plan_view import PlanView
from vibe.app.view.step_view import WAITING, StepView
from vibe.cli.render.plan_words import unmet

RECENT = 3
"""Completed steps that stay in sight if not all fit."""
NEXT = 4
"""Steps that can start next that stay in sight if not all fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLayout:
    """The steps to show."""

    steps: tuple[StepView, ...]
    """In plan order."""
    roomy: bool
    """Running steps get a second row."""
    hidden: dict[str, int]
    """The number of steps that are not shown, by status."""


def lay_out(plan: PlanView, rows: int, chosen_id: str = "") -> TreeLayout:
    """Choose what to show in at most ``rows`` rows, the line that counts the rest included."""
    busy = len(plan.running) + len(plan.replanning)
    second_rows = busy + len(plan.failed)
    if plan.total + second_rows <= rows:
        return TreeLayout(steps=tuple(plan.steps.values()), roomy=True, hidden={})
    if plan.total <= rows:
        return TreeLayout(steps=tuple(plan.steps.values()), roomy=False, hidden={})
    room = max(0, rows - 1)
    roomy = 2 * busy + len(plan.failed) + NEXT <= room
    chosen: dict[str, StepView] = {}
    for step in _by_interest(plan, chosen_id):
        cost = 2 if roomy and _has_second_row(step) else 1
        if cost > room:
            break
        if step.id not in chosen:
            chosen[step.id] = step
            room -= cost
    hidden = dict(plan.counts)
    for step in chosen.values():
        hidden[step.status] -= 1
    return TreeLayout(
        steps=tuple(step for step in plan.steps.values() if step.id in chosen),
        roomy=roomy,
        hidden={status: count for status, count in hidden.items() if count > 0},
    )


def _has_second_row(step: StepView) -> bool:
    return step.replanning or step.status in {"in_progress", "failed"}


def _by_interest(plan: PlanView, chosen_id: str) -> Iterator[StepView]:
    """Yield the steps by interest, the most interesting first; a step may come twice."""
    if chosen_id in plan.steps:
        yield plan.steps[chosen_id]
    yield from plan.running.values()
    yield from plan.replanning.values()
    yield from reversed(plan.failed.values())
    waiting = [step for step in plan.steps.values() if step.status in WAITING]
    yield from (step for step in waiting if step.status == "needs_decision")
    yield from islice(_ready_first(waiting, plan), NEXT)
    yield from islice((step for step in reversed(plan.steps.values()) if step.status == "completed"), RECENT)
    yield from chain(waiting, plan.steps.values())


def _ready_first(waiting: Iterable[StepView], plan: PlanView) -> Iterator[StepView]:
    ready = list(islice((step for step in waiting if not unmet(step, plan)), NEXT))
    yield from chain(ready, (step for step in waiting if step not in ready))
