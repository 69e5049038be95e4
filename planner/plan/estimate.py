"""Estimates a plan's size and cost from its graph before it runs, as bounds rather than guesses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from itertools import combinations
from typing import TypeAlias

from msgspec import Struct

from ipc.events import PlanBounds
from planner.plan.dag import Dag
from planner.plan.diagnostics import listed
from planner.plan.model import Plan, PlanBudget, Step
from planner.plan.step_limits import USUAL, StepLimits, step_limits
from planner.plan.write_claims import ANYTHING, claim_of, claims_overlap, parse_glob
from vibe.core.modes import ExecutionMode
from vibe.system.plain_text import counted

RateOf: TypeAlias = Callable[[Step], float | None]
"""Returns the USD that the most expensive kind of token of a step's model costs, or None if unknown."""
MAX_OVERLAPS = 20
_OTHER_END = {"completed": "failed", "failed": "completed"}
MAX_COMPARISONS = 100_000
"""The most pairs of steps that are compared in search of overlaps."""
CHAIN_SHARE = 0.8
"""A plan with at least this share of its steps on the critical path is a chain: parallel work saves next to nothing."""

SEQUENTIAL_FIGURES = (
    "published figures, several agents against one: 81 % better on independent work, "
    "39 to 70 % worse on sequential work"
)
OVERLAP_ADVICE = "split them or order them"


class Overlap(Struct, frozen=True, kw_only=True):
    """Two steps with no order between them that may write the same files.

    ``shared`` says that both work in the user's own tree, so they take turns. Otherwise their changes may conflict when
    they are merged.
    """

    first: str
    second: str
    shared: bool


class Estimate(PlanBounds, frozen=True, kw_only=True):
    """Bounds on a plan. Tokens are prompt plus completion, prices USD.

    ``width`` is that of ``width_of`` within the limit on steps at once. ``speed_up`` is the most that any run can gain
    over one step after another, if all steps take equally long. ``max_turns``, ``max_tokens`` and ``max_price`` (None:
    no limit) are what the plan's own limits allow its ``model_steps``, with every retry. ``worst_price`` is the most
    those tokens can cost within that limit (None: a price is unknown). ``critical_turns`` counts the model calls that
    must follow one another, at worst. ``writes_unknown`` are steps that may write anything, so each works while no
    other writer does. ``overlaps`` holds the first ``MAX_OVERLAPS``, and ``overlaps_cut`` says that there may be more.
    """

    speed_up: float
    is_chain: bool
    critical_turns: int
    writes_unknown: tuple[str, ...]
    overlaps: tuple[Overlap, ...]
    overlaps_cut: bool


def estimate(
    plan: Plan,
    dag: Dag,
    *,
    max_parallel: int | None = None,
    usual: Mapping[ExecutionMode, StepLimits] = USUAL,
    rate_of: RateOf = lambda _: None,
) -> Estimate:
    """Return the bounds of a plan whose defaults are written into its steps.

    ``max_parallel`` replaces the plan's own limit. ``usual`` limits apply to steps that name none. ``rate_of`` returns
    the price of the most expensive token of a step.
    """
    limits = {step.id: step_limits(step, usual) for step in plan.steps}
    models = [step for step in plan.steps if step.command is None]
    parallel = max_parallel or plan.max_parallel_steps
    waves = {step.id: -(-_items(step) // max(1, _beside(step, parallel))) for step in plan.steps}
    total, longest, width = sum(map(_items, plan.steps)), _longest(dag, waves), width_of(plan, dag)
    width = min(width, parallel or width)
    overlaps, overlaps_cut = _overlaps(plan, dag)
    tokens = {step.id: limits[step.id].max_tokens * _attempts(step) for step in models}
    turns = {step.id: limits[step.id].max_turns * _attempts(step) for step in models}
    in_turn = {step.id: turns[step.id] * waves[step.id] // max(1, _items(step)) for step in models}
    budget = plan.budget or PlanBudget()
    max_tokens = sum(tokens.values())
    if budget.max_tokens is not None:
        max_tokens = min(max_tokens, budget.max_tokens)
    return Estimate(
        steps=len(plan.steps),
        model_steps=sum(map(_items, models)),
        width=width,
        critical_path=dag.critical_path(),
        speed_up=min(total / max(1, longest), float(width)),
        is_chain=total > 1 and longest >= CHAIN_SHARE * total,
        max_turns=sum(turns.values()),
        critical_turns=_longest(dag, in_turn),
        max_tokens=max_tokens,
        max_price=_least(_if_all_known([_max_price(step) for step in models], sum), budget.max_price),
        worst_price=_worst_price(budget, models, tokens, rate_of),
        writes_unknown=tuple(step.id for step in plan.steps if step.writes is None and claim_of(step) == ANYTHING),
        overlaps=overlaps,
        overlaps_cut=overlaps_cut,
    )


def width_of(plan: Plan, dag: Dag) -> int:
    """Return the size of the largest level, roughly the most steps, or steps for items of a list, side by side."""
    beside = {step.id: _beside(step, plan.max_parallel_steps) for step in plan.steps}
    return max((sum(beside[step_id] for step_id in level) for level in dag.levels()), default=0)


def notes(found: Estimate, *, bounds: bool = True) -> tuple[str, ...]:
    """Return what a person should know before the plan runs, as sentences; ``bounds=False`` omits the limits."""
    path, total = len(found.critical_path), found.steps
    levels = f"{counted(total, 'step')} in {counted(path, 'level')}, at most {found.width} side by side"
    sentences = [f"{levels}: {_speed_up(found)}"]
    if found.model_steps and bounds:
        price = "no price limit" if found.worst_price is None else f"${found.worst_price:,.2f}"
        sentences.append(
            f"at most {found.max_tokens:,} tokens and {counted(found.max_turns, 'model call')} in "
            f"{'up to ' if found.model_steps > total else ''}{counted(found.model_steps, 'model-driven step')} "
            f"({counted(found.critical_turns, 'call')} in the longest chain); {price}"
        )
    if found.is_chain and found.model_steps:
        sentences.append(f"the plan is a chain: {path} of {total} steps run one after another; {SEQUENTIAL_FIGURES}")
    if len(found.writes_unknown) > 1:
        sentences.append(
            f"{len(found.writes_unknown)} steps do not declare what they write ({listed(found.writes_unknown, 6)}), so "
            "no other writing step runs beside them: list their files in `writes`"
        )
    sentences += [_overlap_note(overlap) for overlap in found.overlaps]
    if found.overlaps_cut:
        sentences.append("more steps may write the same files")
    return tuple(sentences)


def _speed_up(found: Estimate) -> str:
    if found.speed_up <= 1:
        return "no parallel speed-up: the steps run one after another"
    return f"at most {found.speed_up:.1f} times as fast as sequential, if all steps take equally long"


def _overlap_note(overlap: Overlap) -> str:
    so = "they take turns" if overlap.shared else "merging their work may conflict"
    return f"{overlap.first} and {overlap.second} edit the same files, so {so}: {OVERLAP_ADVICE}"


def _overlaps(plan: Plan, dag: Dag) -> tuple[tuple[Overlap, ...], bool]:
    """Return the first overlapping pairs of steps, and whether the search was cut short."""
    writers = [(step, tuple(sorted(map(parse_glob, step.writes)))) for step in plan.steps if step.writes]
    bit = {step.id: 1 << number for number, (step, _) in enumerate(writers)}
    reached = _reached(dag, bit) if len(writers) > 1 else {}
    single = {decision.id for decision in plan.decisions if not decision.multi_select}
    found: list[Overlap] = []
    for count, ((one, a), (other, b)) in enumerate(combinations(writers, 2)):
        if len(found) == MAX_OVERLAPS or count == MAX_COMPARISONS:
            return tuple(found), True
        ordered = reached[one.id] & bit[other.id] or reached[other.id] & bit[one.id]
        if not ordered and claims_overlap(a, b) and not _exclude(one, other, single):
            shared = one.workspace == other.workspace == "shared"
            found.append(Overlap(first=one.id, second=other.id, shared=shared))
    return tuple(found), False


def _exclude(one: Step, other: Step, single: AbstractSet[str]) -> bool:
    """Return whether no run does both steps, because a choice or the end of another step rules one of them out."""
    ours, theirs = one.when or {}, other.when or {}
    if any(set(ours[name]).isdisjoint(theirs[name]) for name in ours.keys() & theirs.keys() & single):
        return True
    ends = {(edge.step, edge.on) for edge in one.dependencies}
    return any((edge.step, _OTHER_END.get(edge.on)) in ends for edge in other.dependencies)


def _reached(dag: Dag, bit: Mapping[str, int]) -> dict[str, int]:
    """Return, for each step, the writers that come before it, as a set of bits."""
    before: dict[str, int] = {}
    for step_id in dag.order:
        seen = 0
        for needed in dag.dependencies[step_id]:
            seen |= before[needed] | bit.get(needed, 0)
        before[step_id] = seen
    return before


def _longest(dag: Dag, turns: Mapping[str, int]) -> int:
    """Return the turns, or whatever is counted for each step, on the path with the most of them."""
    total: dict[str, int] = {}
    for step_id in dag.order:
        needed = max((total[needed] for needed in dag.dependencies[step_id]), default=0)
        total[step_id] = turns.get(step_id, 0) + needed
    return max(total.values(), default=0)


def _least(*bounds: float | None) -> float | None:
    """Return the tightest of the bounds that are not None."""
    return min((bound for bound in bounds if bound is not None), default=None)


def _if_all_known(numbers: Sequence[float | None], what: Callable[[list[float]], float]) -> float | None:
    """Return ``what``, such as the sum, of the numbers if all are known, else None."""
    known = [number for number in numbers if number is not None]
    return what(known) if len(known) == len(numbers) else None


def _max_price(step: Step) -> float | None:
    return None if step.max_price is None else step.max_price * _attempts(step)


def _attempts(step: Step) -> int:
    """Return the most attempts at a step, and at the steps for its items, that need no person's retry."""
    return _items(step) * (step.retries + max(1, len(step.models)))


def _items(step: Step) -> int:
    """Return the most steps that come of one: for a step with a list, those for its items."""
    each = step.for_each
    return 1 if each is None else each.at_most if each.items is None else len(each.items)


def _beside(step: Step, parallel: int | None) -> int:
    """Return how many of the steps for a list's items run side by side at most; 1 for a step without a list."""
    items, each = _items(step), step.for_each
    width = parallel if each is None else each.width or parallel
    return min(items, width or items)


def _worst_price(limit: PlanBudget, models: Sequence[Step], tokens: Mapping[str, int], rate_of: RateOf) -> float | None:
    rates = [_if_all_known([*map(rate_of, step.by_model)], max) for step in models]
    spent = [
        _least(_max_price(step), None if rate is None else tokens[step.id] * rate)
        for step, rate in zip(models, rates, strict=True)
    ]
    by_tokens = None
    if limit.max_tokens is not None and None not in rates:
        by_tokens = limit.max_tokens * max(filter(None, rates), default=0.0)
    return _least(_if_all_known(spent, sum), by_tokens, limit.max_price)
