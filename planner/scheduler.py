"""Which step runs when: events in, instructions out; no clock, no tasks, no I/O.

The same events give the same instructions, every time.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.dag import Dag
from planner.decisions import Choice, attempt_of, failed_id, interrupted_id, step_decision
from planner.failure_policy import END_STATUS, INTERRUPTED_REASON, Follows, follows, halts, reason_of, retry_delay
from planner.held_steps import HeldSteps, Why
from planner.instructions import (
    WAIVED_REASON,
    AskReviser,
    CancelRequested,
    CancelStep,
    DecisionTaken,
    EndPlan,
    Instruction,
    OpenDecision,
    PauseRequested,
    PlanReplaced,
    RestoredStep,
    RetryDue,
    RevisionRefused,
    SchedulerEvent,
    StepEnded,
    Unfinished,
    WaitForRetry,
)
from planner.model import PLAN_TRANSITIONS, Plan, PlanStatus, StepStatus
from planner.problems import DecisionInvalidError, IllegalTransitionError
from planner.readiness import check_selections
from planner.step_flow import StepFlow


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
        given = decisions or {}
        self._held = HeldSteps({name: chosen for name, chosen in given.items() if attempt_of(name) is not None})
        self._flow = StepFlow(
            plan,
            dag,
            max_parallel=max_parallel,
            decisions={name: chosen for name, chosen in given.items() if attempt_of(name) is None},
            is_held=self._held.__contains__,
        )
        self._table = self._flow.table
        self._fail_fast = fail_fast
        self._wait_for_decisions = wait_for_decisions
        self._restored = {step_id: was for step_id, was in (restored or {}).items() if step_id in self._flow.steps}
        self._plan_status = PlanStatus.IDLE
        self._pausing: str | None = None
        self._cancelling: str | None = None
        self._failure: str | None = None
        """Why the first step that counts failed, in this run."""
        self._earlier_failure: str | None = None
        """As ``_failure``, in runs before."""

    # --- what can be asked ------------------------------------------------------------------------------------

    @property
    def status(self) -> PlanStatus:
        """Where the plan stands."""
        return self._plan_status

    @property
    def running(self) -> frozenset[str]:
        """The steps whose attempt was started and has not ended."""
        return frozenset(self._flow.running)

    def rank(self, step_id: str) -> int:
        """A step's place in the order in which steps that can run are started, 0 first."""
        return self._flow.ranks[step_id]

    def step_status(self, step_id: str) -> StepStatus:
        """Where a step stands."""
        return self._table.statuses[step_id]

    def statuses(self) -> Mapping[str, StepStatus]:
        """Where every step stands; a view."""
        return self._table.statuses

    def attempt(self, step_id: str) -> int:
        """The attempt that runs, has ended or, for a step that is not running, comes next; counts from 1."""
        return self._table.attempt(step_id)

    def counts(self) -> dict[str, int]:
        """How many steps have each status; those no step has are left out."""
        return self._table.counts()

    def open_steps(self) -> list[str]:
        """The steps that are not final, in the plan's order."""
        return self._table.open_steps()

    # --- what can happen --------------------------------------------------------------------------------------

    def start(self) -> list[Instruction]:
        """Take over what was restored, sort the rest and start what can run. Once.

        Raises:
            IllegalTransitionError: it was started before.
        """
        self._move_plan(PlanStatus.ACTIVE)
        for step_id, was in self._restored.items():
            self._table.set_attempt(step_id, max(1, was.attempt))
            if was.status.is_final:
                self._table.set(step_id, was.status)
                if self._spoils_the_plan(step_id):
                    self._earlier_failure = self._earlier_failure or was.reason
            if was.waived:
                self._flow.waived.add(step_id)
        self._flow.settle_final()
        given_up = next((was for was in self._restored.values() if was.status is StepStatus.CANCELLED), None)
        if given_up is not None:  # by a process that did not live to give up the rest
            self._on_cancel(given_up.reason or "user")
            return self._carry_on()
        for step_id, was in self._restored.items():
            if was.unfinished is not None and not was.status.is_final:
                self._take_up(step_id, was, was.unfinished)
        self._flow.sort(self._flow.order)
        return self._carry_on()

    def handle(self, event: SchedulerEvent) -> list[Instruction]:
        """Take one event; after EndPlan all that can still arrive late is ignored.

        Raises:
            IllegalTransitionError: a step ended that does not run, or the plan was never started.
            DecisionInvalidError: an answer that the decision does not offer.
        """
        if isinstance(event, StepEnded) and event.step_id not in self._flow.running:
            status = self._table.statuses.get(event.step_id, "unknown")
            raise IllegalTransitionError(f"step {event.step_id!r}", status, event.outcome)
        if self._plan_status is PlanStatus.IDLE:
            raise IllegalTransitionError("a plan that was not started", self._plan_status, type(event).__name__)
        if self._plan_status is not PlanStatus.ACTIVE:
            return []
        self._take(event)
        return self._carry_on()

    def _take(self, event: SchedulerEvent) -> None:
        match event:
            case StepEnded():
                self._on_step_ended(event)
            case RetryDue(step_id):
                self._on_retry_due(step_id)
            case DecisionTaken(decision_id, selections):
                self._on_decision(decision_id, selections)
            case PauseRequested(reason):
                self._pausing = self._pausing or reason
            case CancelRequested(reason):
                self._on_cancel(reason)
            case PlanReplaced():
                self._on_plan_replaced(event)
            case RevisionRefused(step_id, detail):
                self._on_revision_refused(step_id, detail)

    def _on_step_ended(self, event: StepEnded) -> None:
        step_id = event.step_id
        self._flow.release(step_id)
        what = follows(self._flow.steps[step_id], self._table.attempt(step_id), event)
        if self._cancelling is None:
            self._follow(what, event)
        elif what in (Follows.GO_ON, Follows.CONFIRM):
            self._flow.move(step_id, StepStatus.CANCELLED, self._cancelling, event.detail)
        else:
            self._finish(event)

    def _follow(self, what: Follows, event: StepEnded) -> None:
        step_id, attempt = event.step_id, self._table.attempt(event.step_id)
        if halts(event) and what is not Follows.END:
            self._pausing = self._pausing or event.reason or "provider"
        match what:
            case Follows.END:
                self._finish(event)
            case Follows.GO_ON:
                self._put_back(event)
            case Follows.CONFIRM:
                self._held.begun.add(step_id)
                why = (event.reason or INTERRUPTED_REASON, event.detail)
                self._ask_about(step_id, interrupted_id(step_id, attempt), why)
            case Follows.RETRY:
                self._retry(event)
            case Follows.ASK:
                self._ask_about(step_id, failed_id(step_id, attempt), (reason_of(event), event.detail))
            case Follows.REVISE:
                self._look_for_revision(step_id, (reason_of(event), event.detail))

    def _finish(self, event: StepEnded) -> None:
        status = END_STATUS[event.outcome]
        if status is StepStatus.FAILED:
            self._fail(event.step_id, (reason_of(event), event.detail))
        else:
            self._flow.end(event.step_id, status, event.reason, event.detail)

    def _fail(self, step_id: str, why: Why) -> None:
        if self._flow.steps[step_id].on_failure != "continue":
            self._failure = self._failure or why[0]
        self._flow.end(step_id, StepStatus.FAILED, *why)

    def _put_back(self, event: StepEnded) -> None:
        reason = event.reason or ("provider" if event.provider_refused else INTERRUPTED_REASON)
        self._flow.move(event.step_id, StepStatus.PENDING, reason, event.detail)
        self._held.begun.add(event.step_id)
        self._flow.enqueue(event.step_id)

    def _retry(self, event: StepEnded) -> None:
        failed = self._table.attempt(event.step_id)
        self._table.set_attempt(event.step_id, failed + 1)
        self._flow.move(event.step_id, StepStatus.PENDING, event.reason or "failed", event.detail)
        self._held.retrying.add(event.step_id)
        self._flow.out.append(WaitForRetry(event.step_id, failed + 1, retry_delay(failed)))

    def _on_retry_due(self, step_id: str) -> None:
        if step_id in self._held.retrying:
            self._held.retrying.remove(step_id)
            self._flow.sort([step_id])

    def _on_cancel(self, reason: str) -> None:
        if self._cancelling is not None:
            return
        self._cancelling = reason
        self._flow.give_up_ready()
        self._held.clear()
        for step_id in self.open_steps():
            if step_id not in self._flow.running:
                self._flow.move(step_id, StepStatus.CANCELLED, reason)
        self._flow.out.extend(CancelStep(step_id) for step_id in self._flow.running)

    # --- attempts that failed or were cut off -----------------------------------------------------------------

    def _take_up(self, step_id: str, was: RestoredStep, unfinished: Unfinished) -> None:
        match unfinished:
            case Unfinished.ASKING:
                self._ask_about(step_id, failed_id(step_id, was.attempt), (was.reason, was.detail))
            case Unfinished.CUT if self._flow.steps[step_id].side_effects:
                self._held.begun.add(step_id)
                self._ask_about(step_id, interrupted_id(step_id, was.attempt), (INTERRUPTED_REASON, ""))
            case Unfinished.REVISING:
                self._look_for_revision(step_id, (was.reason, was.detail))
            case _:
                self._held.begun.add(step_id)

    def _ask_about(self, step_id: str, decision_id: str, why: Why) -> None:
        answer = self._held.ask(step_id, decision_id, why)
        if answer is not None:
            self._follow_answer(step_id, Choice(answer[0]))
            return
        self._flow.move(step_id, StepStatus.NEEDS_DECISION, *why)
        self._flow.out.append(OpenDecision(decision_id))

    def _on_decision(self, decision_id: str, selections: tuple[str, ...]) -> None:
        about = attempt_of(decision_id)
        if about is None:
            self._flow.decide(decision_id, selections)
            return
        step_id = about[1]
        if self._held.asking.get(step_id) != decision_id:
            raise DecisionInvalidError(decision_id, "nothing waits for it")
        check_selections(step_decision(self._flow.steps[step_id], decision_id), selections)
        self._follow_answer(step_id, Choice(selections[0]))

    def _follow_answer(self, step_id: str, choice: Choice) -> None:
        reason, detail = self._held.let_go(step_id)
        match choice:
            case Choice.RETRY:
                self._table.set_attempt(step_id, self._table.attempt(step_id) + 1)
                self._flow.enqueue(step_id)
            case Choice.AGAIN:
                self._flow.enqueue(step_id)
            case Choice.SKIP:
                self._flow.waived.add(step_id)
                self._flow.end(step_id, StepStatus.SKIPPED, WAIVED_REASON, detail or reason or "")
            case Choice.STOP:
                self._fail(step_id, (reason, detail))

    def _look_for_revision(self, step_id: str, why: Why) -> None:
        self._held.revise(step_id, why)
        if self.step_status(step_id) is not StepStatus.PENDING:
            self._flow.move(step_id, StepStatus.PENDING, *why)
        self._flow.out.append(AskReviser(step_id, self._table.attempt(step_id)))

    def _on_revision_refused(self, step_id: str, detail: str) -> None:
        if step_id in self._held.revising:
            reason, failure = self._held.let_go(step_id)
            self._fail(step_id, (reason, "; ".join(text for text in (failure, detail) if text)))

    def _on_plan_replaced(self, event: PlanReplaced) -> None:
        changed = event.changed & self._flow.steps.keys()
        self._flow.replace(event.plan, event.dag)
        self._held.keep_only(self._flow.steps)
        for step_id in self._flow.order:
            if step_id in changed:
                self._begin_anew(step_id)
        if not any(self._spoils_the_plan(step_id) for step_id in self._flow.steps):
            self._failure = None
        self._flow.settle_final()
        if event.answers is not None:
            self._on_revision_refused(event.answers, "")
        self._flow.sort(self._flow.order)

    def _begin_anew(self, step_id: str) -> None:
        has_failed = self.step_status(step_id) is StepStatus.FAILED
        if has_failed or self._held.was_begun(step_id):
            self._table.set_attempt(step_id, self._table.attempt(step_id) + 1)
        self._held.begun.discard(step_id)
        asked = step_id in self._held.asking
        self._held.let_go(step_id)
        if has_failed or asked:
            self._flow.move(step_id, StepStatus.PENDING)

    # --- how it goes on ---------------------------------------------------------------------------------------

    def _carry_on(self) -> list[Instruction]:
        """Start what may start, end the plan if it is over, and hand out all that was decided."""
        if not self._is_stopping():
            self._held.begun.difference_update(self._flow.fill())
        self._flow.freshen()
        end = None if self._flow.running else self._end()
        if end is not None:
            self._move_plan(end.status)
            self._flow.out.append(end)
        out, self._flow.out = self._flow.out, []
        return out

    def _is_stopping(self) -> bool:
        return self._cancelling is not None or self._pausing is not None or self._has_failed_fast()

    def _has_failed_fast(self) -> bool:
        return self._fail_fast and self._failure is not None

    def _end(self) -> EndPlan | None:
        """How the plan ends, now that nothing runs; None if a retry or an answer is still to come."""
        asks = self._table.count(StepStatus.NEEDS_DECISION) > 0
        comes = self._held.comes_by_itself
        if self._cancelling is not None and self._table.count(StepStatus.CANCELLED):
            return EndPlan(PlanStatus.CANCELLED, self._cancelling)
        if self._has_failed_fast():
            return EndPlan(PlanStatus.FAILED, self._failure)
        if self._pausing is not None and (self._flow.has_ready or comes or asks):
            return EndPlan(PlanStatus.PAUSED, self._pausing)
        if comes or (asks and self._wait_for_decisions):
            return None
        if asks:
            return EndPlan(PlanStatus.PAUSED, "decision")
        return self._census()

    def _census(self) -> EndPlan:
        open_steps = self.open_steps()
        if any(not self._flow.is_stuck(step_id) for step_id in open_steps):
            return EndPlan(PlanStatus.FAILED, "stalled")
        if open_steps or any(self._spoils_the_plan(step_id) for step_id in self._flow.steps):
            return EndPlan(PlanStatus.FAILED, self._failure or self._earlier_failure or "failed")
        return EndPlan(PlanStatus.COMPLETED, None)

    def _spoils_the_plan(self, step_id: str) -> bool:
        status = self.step_status(step_id)
        if status is StepStatus.FAILED:
            return self._flow.steps[step_id].on_failure != "continue"
        return status is StepStatus.CANCELLED

    def _move_plan(self, status: PlanStatus) -> None:
        if status not in PLAN_TRANSITIONS[self._plan_status]:
            raise IllegalTransitionError("the plan", self._plan_status, status)
        self._plan_status = status
