"""Choice of the steps that fit on a screen: pure, from a RunView and a number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from vibe.app.view.run_view import RunView
from vibe.app.view.step_view import FINAL, WAITING, StepView

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


def lay_out(state: RunView, rows: int) -> TreeLayout:
    """Choose what to show in at most ``rows`` rows, the line that counts the rest included."""
    busy = len(state.running) + len(state.replanning)
    second_rows = busy + len(state.failed)
    if state.total + second_rows <= rows:
        return TreeLayout(steps=tuple(state.steps.values()), roomy=True, hidden={})
    if state.total <= rows:
        return TreeLayout(steps=tuple(state.steps.values()), roomy=False, hidden={})
    room = max(0, rows - 1)
    roomy = 2 * busy + len(state.failed) + NEXT <= room
    chosen: dict[str, StepView] = {}
    for step in _by_interest(state):
        cost = 2 if roomy and _has_second_row(step) else 1
        if cost > room:
            break
        if step.id not in chosen:
            chosen[step.id] = step
            room -= cost
    hidden = dict(state.counts)
    for step in chosen.values():
        hidden[step.status] -= 1
    return TreeLayout(
        steps=tuple(step for step in state.steps.values() if step.id in chosen),
        roomy=roomy,
        hidden={status: count for status, count in hidden.items() if count > 0},
    )


def unmet(step: StepView, state: RunView) -> list[str]:
    """Ids of the steps it still waits for."""
    return [above for above in step.depends_on if above in state.steps and state.steps[above].status not in FINAL]


def _has_second_row(step: StepView) -> bool:
    return step.replanning or step.status in {"in_progress", "failed"}


def _by_interest(state: RunView) -> Iterator[StepView]:
    """Yield the steps by interest, the most interesting first; a step may come twice."""
    yield from state.running.values()
    yield from state.replanning.values()
    yield from reversed(state.failed.values())
    waiting = [step for step in state.steps.values() if step.status in WAITING]
    yield from (step for step in waiting if step.status == "needs_decision")
    yield from islice(_ready_first(waiting, state), NEXT)
    yield from islice((step for step in reversed(state.steps.values()) if step.status == "completed"), RECENT)
    yield from chain(waiting, state.steps.values())


def _ready_first(waiting: Iterable[StepView], state: RunView) -> Iterator[StepView]:
    ready = list(islice((step for step in waiting if not unmet(step, state)), NEXT))
    yield from chain(ready, (step for step in waiting if step not in ready))
