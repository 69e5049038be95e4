"""Predicts what a plan will take from the medians of similar earlier steps, and when its steps would run. Pure.

There is no prediction for a plan with a step that resembles no earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from statistics import median
from typing import Final

from msgspec import Struct, structs

from ipc.events import Expectation, PlanExpectation, StepOutline, WorkOrder
from vibe.system.grouping import by_key

COMMAND: Final = "$"
"""The mode of a command in its ``kind``."""
READING: Final = frozenset({"research", "design"})
"""Modes whose steps change no files unless they name some."""
EXTRA_CANDIDATES: Final = 32
"""The steps, beyond those that can run at once, that are searched for ones whose files are free."""
_PLAIN: Final = WorkOrder()


class Measurement(Struct, frozen=True, kw_only=True):
    """A completed step of an earlier plan, with what all attempts at it took: seconds at work, tokens, USD if known.

    ``kind`` is its mode and its model, or ``$`` and its command. ``here`` says that it ran in the same folder.
    """

    kind: tuple[str, str]
    seconds: float
    tokens: int = 0
    cost_usd: float | None = 0.0
    here: bool = False


def expect(
    steps: Sequence[StepOutline], kinds: Mapping[str, tuple[str, str]], past: Iterable[Measurement], at_once: int
) -> PlanExpectation | None:
    """Return what steps are expected to take if ``at_once`` of them can run, or None if one resembles no earlier step.

    A step resembles those of the same kind, preferably in the same folder. Failing that, a model-driven step resembles
    any step of its model, and a command any other command.
    """
    known = by_key(
        (place, step)
        for step in past
        for place in {(here, kind) for here in (step.here, False) for kind in (step.kind, _wider_kind(step.kind))}
    )
    found: dict[tuple[str, str], Expectation] = {}
    for kind in {kinds[step.id] for step in steps}:
        places = ((here, each) for each in (kind, _wider_kind(kind)) for here in (True, False))
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
    total = to_go(steps, plan)
    return total and structs.replace(plan, seconds=total.seconds, tokens=total.tokens, cost_usd=total.cost_usd)


def to_go(steps: Sequence[StepOutline], plan: PlanExpectation) -> Expectation | None:
    """Return what the open steps of a plan will take, side by side where possible, or None if one is unknown."""
    if any(step.id not in plan.steps for step in steps):
        return None
    each = [plan.steps[step.id] for step in steps]
    costs = [step.cost_usd for step in each]
    last = max((end for _, end in times_to_come(steps, plan, {}, 0.0).values()), default=0.0)
    cost_usd = None if None in costs else sum(filter(None, costs))
    return Expectation(seconds=round(last, 1), tokens=sum(step.tokens for step in each), cost_usd=cost_usd)


def _wider_kind(kind: tuple[str, str]) -> tuple[str, str]:
    """Return the wider kind: all commands, or all steps of a model."""
    return (COMMAND, "") if kind[0] == COMMAND else ("", kind[1])


def _lane(step: StepOutline) -> str:
    """Return a key for the files that a step writes while no other may; blank if it is in nobody's way."""
    order = step.order or _PLAIN
    if step.workspace == "worktree" or order.command or (order.writes is None and step.mode in READING):
        return ""
    return "**" if order.writes is None else " ".join(sorted(order.writes))


def times_to_come(
    steps: Iterable[StepOutline], plan: PlanExpectation, ends: Mapping[str, float], now: float
) -> dict[str, tuple[float, float]]:
    """Return when open steps would begin and end, by id, in seconds of the plan's clock.

    ``ends`` holds the expected ends of the running steps. Dependencies that are not among ``steps`` count as done.
    """
    by_id = {step.id: step for step in steps}
    missing = {step.id: sum(one in by_id for one in step.depends_on) for step in by_id.values() if step.id not in ends}
    dependants = by_key((one, step_id) for step_id in missing for one in by_id[step_id].depends_on)
    lanes = {step_id: _lane(step) for step_id, step in by_id.items()}
    running = [(end, step_id) for step_id, end in ends.items()]
    heapify(running)
    busy = {lanes[step_id] for step_id in ends}
    ready = [step_id for step_id, count in missing.items() if not count]
    times = {step_id: (now, end) for step_id, end in ends.items()}
    at = now
    while ready or running:
        for step_id in ready[: EXTRA_CANDIDATES + plan.at_once]:
            if len(running) < plan.at_once and not (lanes[step_id] and lanes[step_id] in busy):
                ready.remove(step_id)
                end = at + plan.steps[step_id].seconds
                times[step_id] = (at, end)
                heappush(running, (end, step_id))
                busy.add(lanes[step_id])
        at, ended = heappop(running)
        busy.discard(lanes[ended])
        for step_id in dependants.get(ended, ()):
            missing[step_id] -= 1
            if not missing[step_id]:
                ready.append(step_id)
    return times
