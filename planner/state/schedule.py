"""The scheduler: which steps of a plan can run, which wait for a decision, and which can no longer run.

It follows the plan's state. A step is judged only when one of its dependencies ends or one of its decisions is taken:
O(V + E) in all, plus a heap operation for each start.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

from msgspec import Struct, convert, field

from ipc.events import PlanDecisionEvent, StepOutline, WorkOrder, shortened
from planner.plan.diagnostics import listed
from planner.plan.for_each import list_of, own_edges
from planner.plan.loader import LoadedPlan
from planner.plan.model import Child, Dependency, Plan, Step, StepStatus
from planner.plan.write_claims import Claim, Glob, claim_of, claims_overlap, globs_overlap
from planner.state.decisions import check_answer
from planner.state.lists import ItemCount, count_items, has_begun, is_lost
from planner.state.state import FINAL, IN_PROGRESS, LEFT_FAILED, PENDING, Left, State, StepState, at_rest, count_steps

COMPLETED = "completed"
"""The end of its dependency that an edge requires by default."""


_NONE: Final = frozenset[str]()


class StepReadiness(Enum):
    """The verdict on a step that has not run yet: what should happen to it now."""

    WAIT = "wait"
    ASK = "ask"
    RUN = "run"
    SKIP = "skip"


RUN: Final = StepReadiness.RUN  # looking up an enum's member takes ten times as long in Python 3.11


class _Gate(Struct):
    """Count of what one step still waits for."""

    waiting: int
    """The number of dependencies that are not final."""
    depends: bool
    """True if the step is skipped once all its dependencies were."""
    met: int = 0
    """The number of dependencies that ended and were not skipped."""
    stranded: bool = False
    """True if a dependency failed that should have completed."""
    ruled_out: str = ""
    """The reason, in words, if the step can't run any more; blank while it might."""
    undecided: frozenset[str] = _NONE
    """The decisions that it needs and that were not taken yet."""


class Readiness:
    """Counts what every step still waits for. Each edge is visited once, when the step it comes from ends."""

    def __init__(self, plan: Plan, decisions: Mapping[str, tuple[str, ...]], unfolded: Container[str] = ()) -> None:
        self._dependants: dict[str, list[str]] = {step.id: [] for step in plan.steps}
        self._required_ends: dict[tuple[str, str], str] = {}
        """The required end, by step and dependant, of edges that don't require success; even large plans have few."""
        self._gates: dict[str, _Gate] = {}
        self._steps_by_decision: dict[str, list[Step]] = {}
        self._decisions = {decision.id: decision for decision in plan.decisions}
        self._taken = set[str]()
        for step in plan.steps:
            edges = step.dependencies
            gate = self._gates[step.id] = _Gate(waiting=len(edges), depends=bool(edges) and step.id not in unfolded)
            for edge in edges:
                self._dependants[edge.step].append(step.id)
                if edge.on != COMPLETED:
                    self._required_ends[edge.step, step.id] = edge.on
            gate.undecided = _decisions_of(step)
            for decision_id in gate.undecided:
                self._steps_by_decision.setdefault(decision_id, []).append(step)
        for decision_id, selections in decisions.items():
            self.decide(decision_id, selections)

    def verdict(self, step_id: str) -> StepReadiness:
        """Return what should happen to the step now."""
        gate = self._gates[step_id]
        if gate.ruled_out:
            return StepReadiness.SKIP
        if gate.waiting or gate.stranded:
            return StepReadiness.WAIT
        if gate.depends and not gate.met:
            return StepReadiness.SKIP
        return StepReadiness.ASK if gate.undecided else RUN

    def why_skipped(self, step_id: str) -> str:
        """Return why a step is to be skipped, in words for people."""
        return self._gates[step_id].ruled_out or "everything it depends on was skipped"

    def is_waiting(self, step_id: str) -> bool:
        """Return whether a step waits for dependencies, or is stranded because one of them failed."""
        gate = self._gates[step_id]
        return gate.stranded or gate.waiting > 0

    def undecided(self, step_id: str) -> list[str]:
        """Return the decisions that the step still needs, sorted."""
        return sorted(self._gates[step_id].undecided)

    def settle(self, step: StepState) -> list[str]:
        """Count a step that became final, and return the steps whose verdict may have changed."""
        step_id, is_skipped = step.outline.id, step.status is StepStatus.SKIPPED
        failed = not is_skipped and step.status is not StepStatus.COMPLETED
        changed: list[str] = []
        for dependant in self._dependants[step_id]:
            gate = self._gates[dependant]
            gate.waiting -= 1
            gate.met += not is_skipped or step.waived
            end = self._required_ends.get((step_id, dependant), COMPLETED) if self._required_ends else COMPLETED
            if failed:
                gate.stranded = gate.stranded or (end == COMPLETED and not step.tolerated)
            elif end == "failed" and not is_skipped:
                gate.ruled_out = f"step {step_id!r} did not fail"
            if not gate.waiting or gate.ruled_out:
                changed.append(dependant)
        return changed

    def decide(self, decision_id: str, selections: Iterable[str]) -> list[str]:
        """Apply a decision and return the steps whose verdict may have changed. A second answer changes nothing.

        Raises:
            DecisionInvalidError: the plan has no such decision, or it does not offer this answer.
        """
        chosen = tuple(selections)
        check_answer(self._decisions, decision_id, chosen)
        if decision_id in self._taken:
            return []
        self._taken.add(decision_id)
        steps = self._steps_by_decision.get(decision_id, [])
        for step in steps:
            gate = self._gates[step.id]
            gate.undecided -= {decision_id}
            wanted = (step.when or {}).get(decision_id)
            if wanted is not None and set(chosen).isdisjoint(wanted):
                gate.ruled_out = f"{listed(chosen)} was chosen for {decision_id!r}"
        return [step.id for step in steps]


def _decisions_of(step: Step) -> frozenset[str]:
    if not step.when and step.decision is None:
        return _NONE
    needed = frozenset(step.when or ())
    return needed if step.decision is None else needed | {step.decision}


_COPIED = frozenset(WorkOrder.__struct_fields__) - {"on", "model", "models"}
"""The fields of a work order that are the step's own."""
_AWAITED = frozenset({Left.ASKING, Left.REVISING, Left.RETRYING})
"""The last attempt failed, and the step waits for an answer, a revision or its next attempt."""


class Schedule:
    """Tracks which steps of a plan can start, must be asked about, or must be skipped.

    ``width`` (>= 1) bounds the running steps. With ``fail_fast`` nothing starts after the first failure of this run
    that keeps the plan from completing. With ``attended`` a plan that only waits for decisions stays ACTIVE; otherwise
    it pauses with the reason ``decision``. It is built from a state; ``moved``, ``decided`` and ``judge`` keep it in
    line with that state.
    """

    def __init__(
        self, state: State, loaded: LoadedPlan, *, width: int, fail_fast: bool = False, attended: bool = False
    ) -> None:
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        self.loaded = loaded
        self.plan = plan = loaded.plan.resolved()
        self.width = width
        self.fail_fast = fail_fast
        self.attended = attended
        self.steps: Mapping[str, Step] = {step.id: step for step in plan.steps}
        self.order: Sequence[str] = loaded.dag.order
        own = {decision.id for decision in plan.decisions}
        self.readiness = Readiness(
            plan, {name: chosen for name, chosen in state.answers().items() if name in own}, state.unfolded
        )
        remaining = loaded.dag.remaining
        ranked = sorted(plan.steps, key=lambda step: (-step.priority, -remaining[step.id]))
        children = [step for step in plan.steps if isinstance(step, Child)]
        widths = {each: list_of(self.steps[each]).width or self.width for each in {one.pattern for one in children}}
        self.queue = ReadyQueue(
            [step.id for step in ranked],
            {step.id: claim_of(step) for step in plan.steps},
            {child.id: child.pattern for child in children},
            widths,
        )
        self.ready: set[str] = set()
        """Steps that could start now, as far as their dependencies and decisions go."""
        self.to_mark_pending: dict[str, None] = {}
        """Ready steps that must still be marked as pending."""
        self.to_skip: dict[str, None] = {}
        """Steps that can't run any more."""
        self.to_ask: dict[str, None] = {}
        """Steps that wait only for decisions, and must still be marked so or have a decision opened."""
        self.to_drop: dict[str, None] = {}
        """Items that should not begin any more, because too few items of their list can complete."""
        self.lists_due: dict[str, None] = {}
        """Steps with a list that is to be read, or whose items have all ended."""
        self.to_mark_blocked: dict[str, None] = {}
        """Steps that wait for dependencies and must still be marked as blocked."""
        align_steps(state, plan)
        self._items = {each: count_items(state, self.steps, each) for each in state.unfolded if each in self.steps}
        for step_id in state.running:
            self.queue.hold(step_id)
        for step in state.steps.values():
            if step.status.is_final:
                self.readiness.settle(step)
        self.judge(state, self.order)
        for each, count in self._items.items():
            self._drop_if_hopeless(state, each, count)
        self.to_mark_blocked = dict.fromkeys(
            step_id
            for step_id in self.order
            if not self._is_settled(state, step_id)
            and state.steps[step_id].status is not StepStatus.BLOCKED
            and self.readiness.verdict(step_id) is StepReadiness.WAIT
        )

    def rebuilt(self, state: State, loaded: LoadedPlan) -> Schedule:
        """Return a schedule with the same options for a changed plan."""
        return Schedule(state, loaded, width=self.width, fail_fast=self.fail_fast, attended=self.attended)

    def is_held(self, step_id: str, step: StepState) -> bool:
        """Return whether a step waits for something other than its dependencies and decisions."""
        is_cut = step.left is Left.CUT and self.steps[step_id].side_effects
        return step.stopping is not None or step.left in _AWAITED or is_cut

    # --- what follows from facts --------------------------------------------------------------------------------

    def moved(self, state: State, step_id: str, previous: StepStatus) -> None:
        """Follow a step that changed status."""
        step = state.steps[step_id]
        status = step.status
        self.to_mark_pending.pop(step_id, None)
        self.to_mark_blocked.pop(step_id, None)
        if status is IN_PROGRESS:
            self.ready.discard(step_id)
            self.queue.take(step_id)
            return
        if previous is IN_PROGRESS:
            self.queue.release(step_id)
        if status in FINAL:
            self.ready.discard(step_id)
            self.to_skip.pop(step_id, None)
            self.to_ask.pop(step_id, None)
            if self._items or self.lists_due:
                self._settle_lists(state, step)
            self.judge(state, self.readiness.settle(step))
        elif status is StepStatus.NEEDS_DECISION:
            self.to_ask.pop(step_id, None)
        elif previous is IN_PROGRESS:
            self.judge(state, (step_id,))

    def _settle_lists(self, state: State, step: StepState) -> None:
        """Count a final step that has a list or does an item of one."""
        self.lists_due.pop(step.id, None)
        self.to_drop.pop(step.id, None)
        child = self.steps[step.id]
        if isinstance(child, Child) and is_lost(step):
            count = self._items[child.pattern]
            count.lost += 1
            self._drop_if_hopeless(state, child.pattern, count)

    def _drop_if_hopeless(self, state: State, pattern_id: str, count: ItemCount) -> None:
        if count.is_hopeless and state.steps[pattern_id].status not in FINAL:
            self.to_drop |= dict.fromkeys(each.id for each in state.items_of(pattern_id) if not has_begun(each))

    def decided(self, state: State, taken: PlanDecisionEvent) -> None:
        """Follow a decision that was taken."""
        if not taken.kind:
            self.judge(state, self.readiness.decide(taken.decision_id, taken.selections))
        elif taken.step_id is not None and taken.step_id in self.steps:
            self.judge(state, (taken.step_id,))

    def judge(self, state: State, step_ids: Iterable[str]) -> None:
        """Judge these steps, and queue those that can run, must be skipped or must be asked about."""
        for step_id in step_ids:
            if self._is_settled(state, step_id):
                continue
            verdict = self.readiness.verdict(step_id)
            if verdict is RUN:
                self._enqueue(state, step_id)
            elif verdict is StepReadiness.SKIP:
                self.to_skip[step_id] = None
            elif verdict is StepReadiness.ASK and not self._is_asked(state, step_id):
                self.to_ask[step_id] = None

    def _is_settled(self, state: State, step_id: str) -> bool:
        """Return whether a step needs no verdict: it is final, queued, running or held."""
        step = state.steps[step_id]
        return (
            step.status in FINAL
            or step_id in self.ready
            or step_id in self.lists_due
            or step_id in state.running
            or (step.left is not None and self.is_held(step_id, step))
        )

    def _is_asked(self, state: State, step_id: str) -> bool:
        """Return whether a step is marked as waiting for decisions, and all of these are open."""
        is_marked = state.steps[step_id].status is StepStatus.NEEDS_DECISION
        return is_marked and all(name in state.open for name in self.readiness.undecided(step_id))

    def _enqueue(self, state: State, step_id: str) -> None:
        """Queue a step that can run: for its start, or for its list to be read or ended."""
        if self.steps[step_id].for_each is None:
            self.ready.add(step_id)
            self.queue.push(step_id)
        else:
            self.lists_due[step_id] = None
        self.to_mark_blocked.pop(step_id, None)
        self.to_ask.pop(step_id, None)
        if state.steps[step_id].status is not PENDING:
            self.to_mark_pending[step_id] = None


def schedule_of(state: State) -> Schedule:
    """Return the schedule that follows a state."""
    if not isinstance(state.schedule, Schedule):
        raise TypeError("the plan's state has no schedule: this is a bug in vibe, please report it")
    return state.schedule


def outline_of(step: Step, earlier: StepState | None = None) -> StepOutline:
    """Return the outline of a step for a plan's events, with the status it has at rest."""
    status, attempt = at_rest(earlier) if earlier else (StepStatus.PENDING, 1)
    edges = own_edges(step)
    return StepOutline(
        id=step.id,
        title=step.title,
        mode=step.mode.value,
        depends_on=tuple(edge.step for edge in edges),
        status=status.value,
        reason=earlier.reason if earlier and (status.is_final or earlier.left in LEFT_FAILED) else None,
        workspace=step.workspace,
        attempt=attempt,
        order=_order_of(step, edges),
    )


def _order_of(step: Step, edges: Iterable[Dependency]) -> WorkOrder:
    """Return a step's task and limits for events; only fields that are set and not empty."""
    order: dict[str, Any] = {name: value for name in _COPIED & step.model_fields_set if (value := getattr(step, name))}
    if models := step.models:
        order |= {"model": models[0], "models": models if len(models) > 1 else ()}
    order["on"] = {edge.step: edge.on for edge in edges if edge.on != COMPLETED}
    if step.prompt is not None:
        order["prompt"] = shortened(step.prompt)
    return convert(order, WorkOrder)


def align_steps(state: State, plan: Plan) -> None:
    """Make the state hold exactly the plan's steps, in the plan's order, including those that no fact names."""
    if len(state.steps) == len(plan.steps) and all(step.id in state.steps for step in plan.steps):
        return
    known = state.steps
    state.steps = {step.id: known.get(step.id) or StepState(outline=outline_of(step)) for step in plan.steps}
    state.counts = count_steps(state.steps.values())


_UNPARKED: Glob = ()
MOST_PARKED = 32
"""The most steps at once that are announced as waiting for others' files. Each is told anew as one of these ends."""


class _Group(Struct):
    ranks: list[int] = field(default_factory=list[int])
    place: Glob = _UNPARKED


class ReadyQueue:
    """Hands out the best step that may start now. ``ordered`` ranks all steps, best first.

    Steps with the same claim form a group. Groups lie in buckets, keyed by the glob that keeps them waiting. ``_open``
    is a heap of the buckets whose glob no running step holds, by the rank of their best group; ``_listed`` says which
    of its entries are current. Stale entries in either kind of heap are dropped when they reach the top. A group whose
    claim overlaps something being written is parked under that glob, and examined again only when no step writes there
    any more. So a thousand steps that want the same directory cost no more than any thousand steps.

    ``lists`` maps the steps for items to their list's step, and ``widths`` says how many items of a list may run at
    once. A list acts like a glob in its items' claims: it is held while that many of them run.
    """

    def __init__(
        self,
        ordered: Sequence[str],
        claims: Mapping[str, Claim],
        lists: Mapping[str, str] | None = None,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        self._ids = tuple(ordered)
        self._widths: dict[Glob, int] = {_list_glob(each): width for each, width in (widths or {}).items()}
        self._counts: dict[Glob, int] = {}
        self.ranks: Mapping[str, int] = {step_id: rank for rank, step_id in enumerate(self._ids)}
        """Each step's rank; 0 is the best."""
        self._claims = {**claims, **{one: (*claims[one], _list_glob(each)) for one, each in (lists or {}).items()}}
        self._groups: defaultdict[Claim, _Group] = defaultdict(_Group)
        self._buckets: dict[Glob, list[tuple[int, Claim]]] = {}
        self._open: list[tuple[int, Glob]] = []
        self._parked: deque[int] = deque(maxlen=MOST_PARKED)
        """The ranks of the steps that were parked last, since ``parked`` was last called."""
        self._listed: dict[Glob, int] = {}
        self._held: dict[Glob, None] = {}

    def push(self, step_id: str) -> None:
        """Queue a step that may start."""
        rank, claim = self.ranks[step_id], self._claims[step_id]
        group = self._groups[claim]
        heappush(group.ranks, rank)
        if group.ranks[0] == rank:
            self._enter(rank, claim, group.place)
        if group.place in self._held:
            self._parked.append(rank)

    def best(self) -> str | None:
        """Return the best step that conflicts with no running one, or None if all do. It stays queued."""
        while self._open:
            rank, place = self._open[0]
            if self._listed.get(place) != rank:
                heappop(self._open)
                continue
            bucket = self._current_bucket(place)
            if place in self._held or not bucket:
                heappop(self._open)
                del self._listed[place]
                continue
            if bucket[0][0] != rank:
                self._listed[place] = bucket[0][0]
                heapreplace(self._open, (bucket[0][0], place))
                continue
            claim = bucket[0][1]
            obstacle = self._obstacle(claim)
            if obstacle is None:
                return self._ids[rank]
            heappop(bucket)
            self._parked.append(rank)
            self._groups[claim].place = obstacle
            self._enter(rank, claim, obstacle)
        return None

    def take(self, step_id: str) -> None:
        """Remove the step that ``best`` returned; it holds its claim until ``release``."""
        claim = self._claims[step_id]
        group = self._groups[claim]
        heappop(group.ranks)
        self.hold(step_id)
        if group.ranks:
            group.place = claim[0] if claim else _UNPARKED
            self._enter(group.ranks[0], claim, group.place)
            if self._files(claim):
                self._parked.extend(group.ranks[:MOST_PARKED])
        else:
            del self._groups[claim]

    def hold(self, step_id: str) -> None:
        """Hold the claim of a running step, which this queue or an earlier one handed out."""
        for glob in self._claims[step_id]:
            self._counts[glob] = count = self._counts.get(glob, 0) + 1
            if count >= self._widths.get(glob, 1):
                self._held[glob] = None

    def release(self, step_id: str) -> None:
        """Free the claim of a step that no longer runs."""
        for glob in self._claims[step_id]:
            self._counts[glob] = count = self._counts[glob] - 1
            if glob in self._held and count < self._widths.get(glob, 1):
                del self._held[glob]
                bucket = self._current_bucket(glob)
                if bucket:
                    self._list_bucket(glob, bucket[0][0])

    def parked(self) -> list[str]:
        """Return up to MOST_PARKED steps that began to wait for a running one's files since the last call."""
        found = list(dict.fromkeys(self._ids[rank] for rank in self._parked))
        self._parked.clear()
        return found

    def conflicting(self, step_id: str, running: Iterable[str]) -> tuple[str, ...]:
        """Return the running steps whose claims overlap this step's claim."""
        claim = self._files(self._claims[step_id])
        return tuple(other for other in running if claims_overlap(claim, self._files(self._claims[other])))

    def _files(self, claim: Claim) -> Claim:
        """Return the claim without the globs that stand for lists."""
        return tuple(glob for glob in claim if glob not in self._widths) if self._widths else claim

    def _enter(self, rank: int, claim: Claim, place: Glob) -> None:
        """Put a group into the bucket of a glob, and list that bucket if no running step holds the glob."""
        heappush(self._buckets.setdefault(place, []), (rank, claim))
        if place not in self._held:
            self._list_bucket(place, rank)

    def _list_bucket(self, place: Glob, rank: int) -> None:
        """Enter a bucket into the heap of open ones, unless it is listed with as good a rank already."""
        if rank < self._listed.get(place, rank + 1):
            self._listed[place] = rank
            heappush(self._open, (rank, place))

    def _current_bucket(self, place: Glob) -> list[tuple[int, Claim]]:
        """Return a bucket whose best entry is current, with stale ones removed; it may be empty."""
        bucket = self._buckets.get(place, [])
        while bucket:
            rank, claim = bucket[0]
            group = self._groups.get(claim)
            if group is not None and group.place == place and group.ranks[0] == rank:
                break
            heappop(bucket)
        return bucket

    def _obstacle(self, claim: Claim) -> Glob | None:
        """Return a glob held by a running step that overlaps this claim, or None."""
        for glob in claim:
            if glob in self._held:
                return glob
        files = self._files(claim) if self._held else claim
        for held in self._held:
            if held not in self._widths and any(globs_overlap(glob, held) for glob in files):
                return held
        return None


def _list_glob(pattern_id: str) -> Glob:
    """Return the glob that stands for a list in its items' claims; no file can match it."""
    return "\0", pattern_id
