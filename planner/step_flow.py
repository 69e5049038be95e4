"""Which steps can run: judges them when something they wait for ends, queues them, and starts the best of them.

Every step is judged when one of its dependencies ends or one of its decisions falls, never otherwise: O(V + E) in
all, plus a heap operation for each start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from planner.claims import claim_of
from planner.dag import Dag
from planner.instructions import Instruction, OpenDecision, StartStep
from planner.model import Plan, Step, StepStatus
from planner.readiness import Readiness, Verdict
from planner.ready_queue import ReadyQueue
from planner.step_table import StepTable


class StepFlow:
    """The steps of a plan between waiting and running. All it says goes to ``out``, in order.

    ``is_held`` tells of a step that waits for something other than its dependencies and decisions: it is left alone.
    """

    def __init__(
        self,
        plan: Plan,
        dag: Dag,
        *,
        max_parallel: int,
        decisions: Mapping[str, tuple[str, ...]],
        is_held: Callable[[str], bool],
    ) -> None:
        self._max_parallel = max_parallel
        self._is_held = is_held
        self._decisions = dict(decisions)
        self._lay_out(plan, dag)
        self.table = StepTable(self.steps)
        self.running: dict[str, None] = {}  # ordered, so that cancelling them is
        self.waived: set[str] = set()
        """Steps that are SKIPPED by choice."""
        self.out: list[Instruction] = []
        self._ready: set[str] = set()
        self._fresh: list[str] = []
        self._opened: set[str] = set()
        self._to_judge: deque[str] = deque()

    def _lay_out(self, plan: Plan, dag: Dag) -> None:
        plan = plan.resolved()
        self.steps: Mapping[str, Step] = {step.id: step for step in plan.steps}
        self.order: Sequence[str] = dag.order
        self._readiness = Readiness(plan, self._decisions)
        ranked = sorted(plan.steps, key=lambda step: (-step.priority, -dag.remaining[step.id]))
        self._queue = ReadyQueue([step.id for step in ranked], {step.id: claim_of(step) for step in plan.steps})
        self.ranks: Mapping[str, int] = self._queue.ranks
        """Each step's place in the order of starting: by priority, then by the longest chain behind it; 0 first."""

    @property
    def has_ready(self) -> bool:
        """Whether a step waits for nothing but its turn."""
        return bool(self._ready)

    def _status(self, step_id: str) -> StepStatus:
        return self.table.statuses[step_id]

    def is_stuck(self, step_id: str) -> bool:
        """Whether an open step waits for others, or for good."""
        return self._readiness.is_stranded(step_id) or self._readiness.waits_for_steps(step_id)

    def move(self, step_id: str, status: StepStatus, reason: str | None = None, detail: str = "") -> None:
        """Change a step's status, and say so."""
        self.out.append(self.table.move(step_id, status, reason, detail))

    def end(self, step_id: str, status: StepStatus, reason: str | None = None, detail: str = "") -> None:
        """A step is final: look at those that wait for it."""
        self.move(step_id, status, reason, detail)
        self.judge(self._readiness.settle(step_id, status, waived=step_id in self.waived))

    def settle_final(self) -> None:
        """Take the steps into account that were final before anything was judged."""
        for step_id, status in self.table.statuses.items():
            if status.is_final:
                self._readiness.settle(step_id, status, waived=step_id in self.waived)

    def decide(self, decision_id: str, selections: tuple[str, ...]) -> None:
        """One of the plan's decisions fell. A second answer changes nothing.

        Raises:
            DecisionInvalidError: there is no such decision, or it does not offer this.
        """
        changed = self._readiness.decide(decision_id, selections)
        self._decisions.setdefault(decision_id, selections)
        self.judge(changed)

    def replace(self, plan: Plan, dag: Dag) -> None:
        """Go on with another plan; what runs is in it. Nothing is judged until ``settle_final`` and ``sort``."""
        self._lay_out(plan, dag)
        self.table.replace(self.steps)
        self.waived.intersection_update(self.steps)
        self._ready.clear()
        self._fresh.clear()
        for step_id in self.running:
            self._queue.hold(step_id)

    def give_up_ready(self) -> None:
        """Start none of those that wait for their turn."""
        self._ready.clear()

    def release(self, step_id: str) -> None:
        """A running step's attempt is over."""
        del self.running[step_id]
        self._queue.release(step_id)

    def sort(self, step_ids: Iterable[str]) -> None:
        """Look at steps, and say of those that must wait for others that they do."""
        step_ids = tuple(step_ids)
        self.judge(step_ids)
        for step_id in step_ids:
            if self._is_beyond_judgement(step_id) or self._status(step_id) is StepStatus.BLOCKED:
                continue
            if self._readiness.verdict(step_id) is Verdict.WAIT:
                self.move(step_id, StepStatus.BLOCKED)

    def judge(self, step_ids: Iterable[str]) -> None:
        """Look at steps again, and at whatever follows from that."""
        self._to_judge.extend(step_ids)
        while self._to_judge:
            step_id = self._to_judge.popleft()
            if self._is_beyond_judgement(step_id):
                continue
            verdict = self._readiness.verdict(step_id)
            if verdict is Verdict.RUN:
                self.enqueue(step_id)
            elif verdict is Verdict.SKIP:
                self.move(step_id, StepStatus.SKIPPED, detail=self._readiness.why_skipped(step_id))
                self._to_judge.extend(self._readiness.settle(step_id, StepStatus.SKIPPED))
            elif verdict is Verdict.ASK:
                self._ask(step_id)

    def _is_beyond_judgement(self, step_id: str) -> bool:
        return (
            self.table.statuses[step_id].is_final
            or step_id in self._ready
            or step_id in self.running
            or self._is_held(step_id)
        )

    def _ask(self, step_id: str) -> None:
        if self._status(step_id) is not StepStatus.NEEDS_DECISION:
            self.move(step_id, StepStatus.NEEDS_DECISION)
        for decision_id in self._readiness.undecided(step_id):
            if decision_id not in self._opened:
                self._opened.add(decision_id)
                self.out.append(OpenDecision(decision_id))

    def enqueue(self, step_id: str) -> None:
        """Have a step wait for its turn."""
        self._ready.add(step_id)
        self._fresh.append(step_id)
        self._queue.push(step_id)

    def fill(self) -> list[str]:
        """Start what may start; returns it."""
        started: list[str] = []
        while len(self.running) < self._max_parallel:
            step_id = self._queue.pop()
            if step_id is None:
                break
            self._ready.remove(step_id)
            self.running[step_id] = None
            self.move(step_id, StepStatus.IN_PROGRESS)
            self.out.append(StartStep(step_id, self.table.attempt(step_id)))
            started.append(step_id)
        return started

    def freshen(self) -> None:
        """Say of the steps that came to wait for their turn, and were not started, that they do."""
        for step_id in self._fresh:
            if step_id in self._ready and self._status(step_id) is not StepStatus.PENDING:
                self.move(step_id, StepStatus.PENDING)
        self._fresh.clear()
