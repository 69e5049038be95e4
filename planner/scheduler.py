"""Which step runs when: events in, instructions out; no clock, no tasks, no I/O.

Every step is judged when one of its dependencies ends or one of its decisions falls, never otherwise: O(V + E) in
all, plus a heap operation for each start. The same events give the same instructions, every time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from planner.claims import claim_of
from planner.dag import Dag
from planner.instructions import (
    CancelRequested,
    CancelStep,
    DecisionTaken,
    EndPlan,
    Instruction,
    MoveStep,
    OpenDecision,
    PauseRequested,
    RestoredStep,
    RetryDue,
    SchedulerEvent,
    StartStep,
    StepEnded,
    WaitForRetry,
)
from planner.model import PLAN_TRANSITIONS, STEP_TRANSITIONS, Plan, PlanStatus, StepStatus
from planner.problems import IllegalTransitionError
from planner.readiness import Readiness, Verdict
from planner.ready_queue import ReadyQueue
from vibe.core.outcome import Outcome

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

_END_STATUS = {
    Outcome.COMPLETED: StepStatus.COMPLETED,
    Outcome.FAILED: StepStatus.FAILED,
    Outcome.BLOCKED: StepStatus.FAILED,
    Outcome.LIMIT: StepStatus.FAILED,
}
_END_REASON = {Outcome.FAILED: "failed", Outcome.BLOCKED: "blocked", Outcome.LIMIT: "budget"}


class Scheduler:
    """Runs one plan once: from ``start`` to the EndPlan instruction, after which no event has any effect.

    ``plan`` and ``dag`` belong together; ``max_parallel`` (>= 1) bounds the running steps. ``restored`` and
    ``decisions`` are what an earlier run left. With ``fail_fast`` nothing is started after the first failure of this
    run that its step's ``on_failure`` does not let pass. With ``wait_for_decisions`` a plan that only waits for
    decisions stays ACTIVE until an event ends that; otherwise it ends PAUSED, reason ``decision``.

    Raises:
        DecisionInvalidError: ``decisions`` name something the plan does not offer.
    """

    def __init__(  # noqa: PLR0913  all but the first two are keywords, and most have a default
        self,
        plan: Plan,
        dag: Dag,
        *,
        max_parallel: int,
        fail_fast: bool = False,
        restored: Mapping[str, RestoredStep] | None = None,
        decisions: Mapping[str, tuple[str, ...]] | None = None,
        wait_for_decisions: bool = False,
    ) -> None:
        if max_parallel < 1:
            raise ValueError(f"max_parallel must be at least 1, not {max_parallel}")
        plan = plan.resolved()
        self._steps = {step.id: step for step in plan.steps}
        self._order = dag.order
        self._max_parallel = max_parallel
        self._fail_fast = fail_fast
        self._restored = {step_id: was for step_id, was in (restored or {}).items() if step_id in self._steps}
        self._wait_for_decisions = wait_for_decisions
        self._readiness = Readiness(plan, decisions or {})
        ranked = sorted(self._steps.values(), key=lambda step: (-step.priority, -dag.remaining[step.id]))
        self._queue = ReadyQueue([step.id for step in ranked], {step.id: claim_of(step) for step in plan.steps})

        self._plan_status = PlanStatus.IDLE
        self._statuses = dict.fromkeys(self._steps, StepStatus.PENDING)
        self._counts = Counter({StepStatus.PENDING: len(self._steps)})
        self._attempts = dict.fromkeys(self._steps, 1)
        self._running: dict[str, None] = {}  # ordered, so that cancelling them is
        self._ready: set[str] = set()
        self._fresh: list[str] = []
        self._retrying: set[str] = set()
        self._opened: set[str] = set()
        self._to_judge: deque[str] = deque()
        self._out: list[Instruction] = []
        self._pausing: str | None = None
        self._cancelling: str | None = None
        self._failure: str | None = None
        """Why the first step that counts failed, in this run."""

    # --- what can be asked ------------------------------------------------------------------------------------

    @property
    def status(self) -> PlanStatus:
        """Where the plan stands."""
        return self._plan_status

    @property
    def running(self) -> frozenset[str]:
        """The steps whose attempt was started and has not ended."""
        return frozenset(self._running)

    def step_status(self, step_id: str) -> StepStatus:
        """Where a step stands."""
        return self._statuses[step_id]

    def attempt(self, step_id: str) -> int:
        """The attempt that runs, has ended or, for a step that is not running, comes next; counts from 1."""
        return self._attempts[step_id]

    def counts(self) -> dict[str, int]:
        """How many steps have each status; those no step has are left out."""
        return {status.value: self._counts[status] for status in StepStatus if self._counts[status]}

    def open_steps(self) -> list[str]:
        """The steps that are not final, in the plan's order."""
        return [step_id for step_id, status in self._statuses.items() if not status.is_final]

    # --- what can happen --------------------------------------------------------------------------------------

    def start(self) -> list[Instruction]:
        """Take over what was restored, sort the rest and start what can run. Once.

        Raises:
            IllegalTransitionError: it was started before.
        """
        self._move_plan(PlanStatus.ACTIVE)
        for step_id, was in self._restored.items():
            self._attempts[step_id] = max(1, was.attempt)
            if was.status.is_final:
                self._set_status(step_id, was.status)
        for step_id, status in self._statuses.items():
            if status.is_final:
                self._readiness.settle(step_id, status)
        self._judge(self._order)
        for step_id in self._order:
            if self._statuses[step_id] is StepStatus.PENDING and step_id not in self._ready:
                self._move(step_id, StepStatus.BLOCKED)
        return self._carry_on()

    def handle(self, event: SchedulerEvent) -> list[Instruction]:
        """Take one event; after EndPlan all that can still arrive late is ignored.

        Raises:
            IllegalTransitionError: a step ended that does not run, or the plan was never started.
            DecisionInvalidError: an answer that the decision does not offer.
        """
        if isinstance(event, StepEnded) and event.step_id not in self._running:
            status = self._statuses.get(event.step_id, "unknown")
            raise IllegalTransitionError(f"step {event.step_id!r}", status, event.outcome)
        if self._plan_status is PlanStatus.IDLE:
            raise IllegalTransitionError("a plan that was not started", self._plan_status, type(event).__name__)
        if self._plan_status is not PlanStatus.ACTIVE:
            return []
        match event:
            case StepEnded():
                self._on_step_ended(event)
            case RetryDue(step_id):
                self._on_retry_due(step_id)
            case DecisionTaken(decision_id, selections):
                self._judge(self._readiness.decide(decision_id, selections))
            case PauseRequested(reason):
                self._pausing = self._pausing or reason
            case CancelRequested(reason):
                self._on_cancel(reason)
        return self._carry_on()

    def _on_step_ended(self, event: StepEnded) -> None:
        step_id = event.step_id
        del self._running[step_id]
        self._queue.release(step_id)
        if event.outcome is Outcome.COMPLETED:
            self._finish(step_id, StepStatus.COMPLETED, event)
        elif event.provider_refused or event.outcome is Outcome.INTERRUPTED:
            self._put_back(event)
        elif event.outcome is Outcome.FAILED and self._may_retry(step_id):
            self._retry(event)
        else:
            self._finish(step_id, _END_STATUS[event.outcome], event)

    def _finish(self, step_id: str, status: StepStatus, event: StepEnded) -> None:
        reason = event.reason or _END_REASON.get(event.outcome)
        if status is StepStatus.FAILED and self._steps[step_id].on_failure != "continue":
            self._failure = self._failure or reason
        self._move(step_id, status, reason, event.detail)
        self._judge(self._readiness.settle(step_id, status))

    def _put_back(self, event: StepEnded) -> None:
        if self._cancelling is not None:
            self._move(event.step_id, StepStatus.CANCELLED, self._cancelling, event.detail)
            return
        reason = event.reason or ("provider" if event.provider_refused else "interrupted")
        if event.provider_refused:
            self._pausing = self._pausing or reason
        self._move(event.step_id, StepStatus.PENDING, reason, event.detail)
        self._enqueue(event.step_id)

    def _may_retry(self, step_id: str) -> bool:
        return self._attempts[step_id] <= self._steps[step_id].retries and self._cancelling is None

    def _retry(self, event: StepEnded) -> None:
        failed = self._attempts[event.step_id]
        self._attempts[event.step_id] = failed + 1
        delay = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failed - 1, 10))
        self._move(event.step_id, StepStatus.PENDING, event.reason or "failed", event.detail)
        self._retrying.add(event.step_id)
        self._out.append(WaitForRetry(event.step_id, failed + 1, delay))

    def _on_retry_due(self, step_id: str) -> None:
        if step_id in self._retrying:
            self._retrying.remove(step_id)
            self._enqueue(step_id)

    def _on_cancel(self, reason: str) -> None:
        if self._cancelling is not None:
            return
        self._cancelling = reason
        self._ready.clear()
        self._retrying.clear()
        for step_id in self.open_steps():
            if step_id not in self._running:
                self._move(step_id, StepStatus.CANCELLED, reason)
        self._out.extend(CancelStep(step_id) for step_id in self._running)

    # --- how it goes on ---------------------------------------------------------------------------------------

    def _judge(self, step_ids: Iterable[str]) -> None:
        """Look at steps again, and at whatever follows from that."""
        self._to_judge.extend(step_ids)
        while self._to_judge:
            step_id = self._to_judge.popleft()
            if self._is_beyond_judgement(step_id):
                continue
            verdict = self._readiness.verdict(step_id)
            if verdict is Verdict.RUN:
                self._enqueue(step_id)
            elif verdict is Verdict.SKIP:
                self._move(step_id, StepStatus.SKIPPED)
                self._to_judge.extend(self._readiness.settle(step_id, StepStatus.SKIPPED))
            elif verdict is Verdict.ASK:
                self._ask(step_id)

    def _is_beyond_judgement(self, step_id: str) -> bool:
        return (
            self._statuses[step_id].is_final
            or step_id in self._ready
            or step_id in self._running
            or step_id in self._retrying
        )

    def _ask(self, step_id: str) -> None:
        if self._statuses[step_id] is not StepStatus.NEEDS_DECISION:
            self._move(step_id, StepStatus.NEEDS_DECISION)
        for decision_id in self._readiness.undecided(step_id):
            if decision_id not in self._opened:
                self._opened.add(decision_id)
                self._out.append(OpenDecision(decision_id))

    def _enqueue(self, step_id: str) -> None:
        self._ready.add(step_id)
        self._fresh.append(step_id)
        self._queue.push(step_id)

    def _carry_on(self) -> list[Instruction]:
        """Start what may start, end the plan if it is over, and hand out all that was decided."""
        if not self._is_stopping():
            self._fill()
        for step_id in self._fresh:
            if step_id in self._ready and self._statuses[step_id] is not StepStatus.PENDING:
                self._move(step_id, StepStatus.PENDING)
        self._fresh.clear()
        end = None if self._running else self._end()
        if end is not None:
            self._move_plan(end.status)
            self._out.append(end)
        out, self._out = self._out, []
        return out

    def _is_stopping(self) -> bool:
        return self._cancelling is not None or self._pausing is not None or self._has_failed_fast()

    def _has_failed_fast(self) -> bool:
        return self._fail_fast and self._failure is not None

    def _fill(self) -> None:
        while len(self._running) < self._max_parallel:
            step_id = self._queue.pop()
            if step_id is None:
                return
            self._ready.remove(step_id)
            self._running[step_id] = None
            self._move(step_id, StepStatus.IN_PROGRESS)
            self._out.append(StartStep(step_id, self._attempts[step_id]))

    def _end(self) -> EndPlan | None:
        """How the plan ends, now that nothing runs; None if a retry or an answer is still to come."""
        asks = self._counts[StepStatus.NEEDS_DECISION] > 0
        if self._cancelling is not None and self._counts[StepStatus.CANCELLED]:
            return EndPlan(PlanStatus.CANCELLED, self._cancelling)
        if self._has_failed_fast():
            return EndPlan(PlanStatus.FAILED, self._failure)
        if self._pausing is not None and (self._ready or self._retrying or asks):
            return EndPlan(PlanStatus.PAUSED, self._pausing)
        if self._retrying or (asks and self._wait_for_decisions):
            return None
        if asks:
            return EndPlan(PlanStatus.PAUSED, "decision")
        return self._census()

    def _census(self) -> EndPlan:
        open_steps = self.open_steps()
        if any(not self._is_held_up(step_id) for step_id in open_steps):
            return EndPlan(PlanStatus.FAILED, "stalled")
        if open_steps or any(self._spoils_the_plan(step_id) for step_id in self._steps):
            return EndPlan(PlanStatus.FAILED, self._failure or "failed")
        return EndPlan(PlanStatus.COMPLETED, None)

    def _is_held_up(self, step_id: str) -> bool:
        return self._readiness.is_stranded(step_id) or self._readiness.waits_for_steps(step_id)

    def _spoils_the_plan(self, step_id: str) -> bool:
        status = self._statuses[step_id]
        if status is StepStatus.FAILED:
            return self._steps[step_id].on_failure != "continue"
        return status is StepStatus.CANCELLED

    # --- bookkeeping ------------------------------------------------------------------------------------------

    def _move(self, step_id: str, status: StepStatus, reason: str | None = None, detail: str = "") -> None:
        previous = self._statuses[step_id]
        if status not in STEP_TRANSITIONS[previous]:
            raise IllegalTransitionError(f"step {step_id!r}", previous, status)
        self._set_status(step_id, status)
        self._out.append(MoveStep(step_id, previous, status, reason, detail, self._attempts[step_id]))

    def _set_status(self, step_id: str, status: StepStatus) -> None:
        self._counts[self._statuses[step_id]] -= 1
        self._counts[status] += 1
        self._statuses[step_id] = status

    def _move_plan(self, status: PlanStatus) -> None:
        if status not in PLAN_TRANSITIONS[self._plan_status]:
            raise IllegalTransitionError("the plan", self._plan_status, status)
        self._plan_status = status
