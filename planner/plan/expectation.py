"""Expectations of plans: medians of what like steps took, and the times at which steps would run; pure.

Nothing is told of a plan of which a step is like none before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ipc.events import Expectation, PlanExpectation, StepOutline, WorkOrder

COMMAND: Final = "$"
READING: Final = frozenset({"research", "design"})
"""Modes whose steps change nothing, unless they say what."""
LOOKED_AT: Final = 32
"""Of the steps that could begin, so many more than can run are looked at for those whose files are free."""
_PLAIN: Final = WorkOrder()


class Measured(Struct, frozen=True, kw_only=True):
    """A completed step of an earlier plan, and what all attempts at it took: seconds at work, tokens, USD if known.

    ``kind`` is its mode and its model, or ``$`` and its command. ``here``: it was done in the same folder.
    """

    kind: tuple[str, str]
    seconds: float
    tokens: int = 0
    cost_usd: float | None = 0.0
    here: bool = False


def expect(
    steps: Sequence[StepOutline], kinds: Mapping[str, tuple[str, str]], past: Iterable[Measured], at_once: int
) -> PlanExpectation | None:
    """Return what steps are expected to take, of which ``at_once`` can run; None: one is like none before.

    A step is like one of the same kind, best in the same folder. Else one of a mode is like any of its model, and a
    command like any other.
    """
    known: dict[tuple[bool, tuple[str, str]], list[Measured]] = {}
    for step in past:
        for place in {(here, kind) for here in (step.here, False) for kind in (step.kind, _wider(step.kind))}:
            known.setdefault(place, []).append(step)
    found: dict[tuple[str, str], Expectation] = {}
    for kind in {kinds[step.id] for step in steps}:
        places = ((here, each) for each in (kind, _wider(kind)) for here in (True, False))
        like = next((known[place] for place in places if place in known), None)
        if like is None:
            return None
        found[kind] = Expectation(
            seconds=round(median(one.seconds for one in like), 1),
            tokens=round(median(one.tokens for one in like)),
            cost_usd=None if any(one.cost_usd is None for one in like) else median(one.cost_usd or 0.0 for one in like),
        )
    expected = {step.id: found[kinds[step.id]] for step in steps}
    plan = PlanExpectation(seconds=0.0, tokens=0, cost_usd=0.0, at_once=at_once, steps=expected)
    whole = to_go(steps, plan)
    return whole and replace(plan, seconds=whole.seconds, tokens=whole.tokens, cost_usd=whole.cost_usd)


def to_go(steps: Sequence[StepOutline], plan: PlanExpectation) -> Expectation | None:
    """Return what the steps of a plan that are open will take, side by side as they can; None: one is not known."""
    if any(step.id not in plan.steps for step in steps):
        return None
    each = [plan.steps[step.id] for step in steps]
    costs = [step.cost_usd for step in each]
    last = max((end for _, end in times_to_come(steps, plan, {}, 0.0).values()), default=0.0)
    return Expectation(
        seconds=round(last, 1),
        tokens=sum(step.tokens for step in each),
        cost_usd=None if None in costs else sum(filter(None, costs)),
    )


def _wider(kind: tuple[str, str]) -> tuple[str, str]:
    """The kind of all commands, or of all steps of a model."""
    return (COMMAND, "") if kind[0] == COMMAND else ("", kind[1])


def _lane(step: StepOutline) -> str:
    """Files that only one step at a time may write; blank: it writes none, or where no other step does."""
    order = step.order or _PLAIN
    if step.workspace == "worktree" or order.command or (order.writes is None and step.mode in READING):
        return ""
    return "**" if order.writes is None else " ".join(sorted(order.writes))


def times_to_come(
    steps: Iterable[StepOutline], plan: PlanExpectation, ends: Mapping[str, float], now: float
) -> dict[str, tuple[float, float]]:
    """Return when steps that are open would begin and end, by id, in seconds of the plan's clock.

    ``ends`` is when those would end that run. What they come after, and is not among them, is done.
    """
    found = {step.id: step for step in steps}
    left = {step.id: sum(one in found for one in step.depends_on) for step in found.values() if step.id not in ends}
    below: dict[str, list[str]] = {}
    for step_id in left:
        for one in found[step_id].depends_on:
            below.setdefault(one, []).append(step_id)
    lanes = {step_id: _lane(step) for step_id, step in found.items()}
    running = [(end, step_id) for step_id, end in ends.items()]
    heapify(running)
    busy = {lanes[step_id] for step_id in ends}
    ready = [step_id for step_id, count in left.items() if not count]
    times = {step_id: (now, end) for step_id, end in ends.items()}
    at = now
    while ready or running:
        for step_id in ready[: LOOKED_AT + plan.at_once]:
            if len(running) < plan.at_once and not (lanes[step_id] and lanes[step_id] in busy):
                ready.remove(step_id)
                end = at + plan.steps[step_id].seconds
                times[step_id] = (at, end)
                heappush(running, (end, step_id))
                busy.add(lanes[step_id])
        at, ended = heappop(running)
        busy.discard(lanes[ended])
        for step_id in below.get(ended, ()):
            left[step_id] -= 1
            if not left[step_id]:
                ready.append(step_id)
    return times
