"""Carries the scheduler's instructions out: one task a running step, one task for the clock, all in one task group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

import anyio
import anyio.lowlevel
from anyio import to_thread

from ipc.sink import EventSink
from planner.chronicle import Chronicle
from planner.control import TOO_LATE, DecisionWish, PauseWish, PlanControl, Request, RevisionWish, Verdict
from planner.dispatch_options import DispatchOptions, StepScheduler
from planner.idle import ActivitySink
from planner.instructions import (
    AskReviser,
    CancelRequested,
    CancelStep,
    DecisionTaken,
    EndPlan,
    Instruction,
    MoveStep,
    OpenDecision,
    PauseRequested,
    PlanReplaced,
    RetryDue,
    SchedulerEvent,
    StartStep,
    WaitForRetry,
)
from planner.model import Decision, Plan, PlanStatus, Step, StepStatus
from planner.open_decisions import OpenDecisions, default_of, needed_decisions
from planner.plan_outcome import (
    BUDGET_REASON,
    DECISION_REASON,
    PlanOutcome,
    StepReport,
    outcome_of,
    warnings_of,
)
from planner.problems import DecisionInvalidError
from planner.records import PlanRevised
from planner.replay import RestoredPlan, StepReason
from planner.revising import Revising
from planner.revision import ProviderRefused
from planner.settling import Settling
from planner.step_runner import EndedAttempt, StepRun, StepRunner
from planner.store import PlanStore
from planner.timers import Timers
from subagents.executor import StepExecutor, StopSignal
from vibe.core.errors import innermost
from vibe.core.outcome import Outcome

SNAPSHOT_SECONDS = 1.0
BLOCKED_AT_ONCE = 256
"""How many blocked steps are written down before the running ones get a turn: some milliseconds' worth."""


class Dispatcher:
    """Runs one plan to its end, its pause or its cancellation; good for one ``run``.

    ``plan`` has its defaults resolved and is the scheduler's. A result is on disk before the scheduler, and with it
    any other step, learns of it. The scheduler bounds how many steps run.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        scheduler: StepScheduler,
        executor: StepExecutor,
        store: PlanStore,
        sink: EventSink,
        options: DispatchOptions | None = None,
    ) -> None:
        self._options = options or DispatchOptions()
        self._plan = plan
        self._scheduler = scheduler
        self._store = store
        self._clock = self._options.clock
        self._chronicle = Chronicle(plan, store, sink, version=self._options.version, now=self._options.now)
        self._runner = StepRunner(
            plan,
            executor,
            store,
            self._chronicle,
            status_of=scheduler.step_status,
            options=self._options,
        )
        self._settling = Settling(self._settle)
        self._timers = Timers(self._clock, self._options.sleep)
        self._steps = {step.id: step for step in plan.steps}
        self._decisions = OpenDecisions(plan, self._chronicle, self._timers, self._on_decision_timeout)
        self._running: dict[str, StepRun] = {}
        self._retries: set[str] = set()
        """Steps that a timer will start again."""
        self._asked_reviser: set[str] = set()
        """Steps whose failure may yet lead to another plan."""
        self._reasons: dict[str, StepReason] = {}
        self._refused: set[Outcome] = set()
        """What those attempts and revisions came to that a provider refused."""
        self._out_of_time = False
        self._snapshot_due = -math.inf
        self._restored = store.replay()
        self._revising = Revising(self, self._options.replanning, earlier=self._restored.revisions)
        self._end: EndPlan | None = None
        self._early: list[SchedulerEvent] | None = None
        """What came while the first instructions were carried out; None: they are."""

    async def run(self, control: PlanControl) -> PlanOutcome:
        """Run until the plan ends or pauses.

        Raises:
            StoreWriteError: the plan's folder can't be written any more; running steps were cancelled.
        """
        started = self._clock()
        restored = self._restored
        self._reasons.update(restored.reasons)
        self._decisions.taken_before(restored.decisions)
        self._stop = control.stop
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._timers.run)  # first, so that an early wish or a spent budget comes first
                await self._begin(restored)
                control.attach(self._on_request)
        except ExceptionGroup as group:
            raise innermost(group) from group
        finally:
            control.detach()
        return await self._finish(restored, started)

    # --- beginning and end ------------------------------------------------------------------------------------

    async def _begin(self, restored: RestoredPlan) -> None:
        self._chronicle.attached(restored)
        for decision_id, selections in self._store.settings.decisions.items():
            self._decisions.take_flag(DecisionTaken(decision_id, selections, "flag"))
        budget = self._plan.budget
        if budget is not None and budget.max_seconds is not None:
            left = budget.max_seconds - restored.active_seconds
            self._timers.after(max(0.0, left), self._run_out_of_time)
        await self._carry_out_first(self._scheduler.start())

    async def _carry_out_first(self, instructions: list[Instruction]) -> None:
        """Let the first steps begin before thousands of others are written down as blocked.

        What happens meanwhile waits in ``_early``: a step moves on only after it was written where it stands.
        """
        blocked: list[Instruction] = []
        others: list[Instruction] = []
        for instruction in instructions:
            is_blocked = isinstance(instruction, MoveStep) and instruction.status is StepStatus.BLOCKED
            (blocked if is_blocked else others).append(instruction)
        early = self._early = list[SchedulerEvent]()
        self._carry_out(others)
        for first in range(0, len(blocked), BLOCKED_AT_ONCE):
            await anyio.lowlevel.checkpoint()
            self._carry_out(blocked[first : first + BLOCKED_AT_ONCE])
        self._early = None
        for event in early:
            self._feed(event)

    async def _finish(self, restored: RestoredPlan, started: float) -> PlanOutcome:
        end = self._end
        if end is None:
            raise RuntimeError("the scheduler went quiet without ending the plan: this is a defect of vibe, report it")
        if self._out_of_time and end.status is PlanStatus.PAUSED:
            end = EndPlan(PlanStatus.FAILED, BUDGET_REASON)
        counts = self._scheduler.counts()
        duration_s = self._clock() - started
        steps = tuple(self._report(step) for step in self._plan.steps)
        outcome = outcome_of(end, steps, refused=self._refused)
        self._chronicle.ended(end, outcome)
        await self._store.sync()
        await to_thread.run_sync(self._store.write_snapshot, end.status, counts, end.reason)
        self._chronicle.announce_end(end, counts, duration_s)
        spending = self._runner.spending()
        return PlanOutcome(
            plan_id=self._store.plan_id,
            status=end.status,
            outcome=outcome,
            reason=end.reason,
            steps=steps,
            counts=counts,
            warnings=warnings_of(steps, restored.dropped),
            usage=spending.usage,
            cost_usd=spending.cost_usd,
            duration_s=duration_s,
        )

    def _report(self, step: Step) -> StepReport:
        status = self._scheduler.step_status(step.id)
        why = self._reasons.get(step.id, StepReason())
        return StepReport(
            step_id=step.id,
            title=step.title,
            status=status,
            reason=why.reason,
            detail=why.detail,
            attempts=self._runner.attempts.get(step.id, 0),
            result=self._runner.results.get(step.id),
            tolerated=status is StepStatus.FAILED and step.on_failure == "continue",
        )

    # --- instructions -----------------------------------------------------------------------------------------

    def _feed(self, event: SchedulerEvent) -> None:
        if self._early is not None:
            self._early.append(event)
        elif self._end is None:
            self._carry_out(self._scheduler.handle(event))

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case MoveStep():
                    self._move(instruction)
                case StartStep(step_id, attempt):
                    self._start(step_id, attempt)
                case WaitForRetry(step_id, _, delay_seconds):
                    self._retries.add(step_id)
                    self._timers.after(delay_seconds, lambda step_id=step_id: self._retry(step_id))
                case OpenDecision(decision_id):
                    self._decisions.put(decision_id, self._steps, self._reasons)
                case AskReviser(step_id):
                    self._asked_reviser.add(step_id)
                    self._tasks.start_soon(self._ask_reviser, step_id)
                case CancelStep(step_id):
                    self._running[step_id].cancel(Outcome.INTERRUPTED, "cancelled", "the plan was cancelled")
                case EndPlan():
                    self._end = instruction
                    self._timers.stop()
                    self._revising.stop()
                case _:
                    assert_never(instruction)
        if self._clock() >= self._snapshot_due:
            self._snapshot_due = math.inf  # until this one is written
            self._tasks.start_soon(self._write_snapshot)
        self._pause_if_nobody_decides()

    async def _write_snapshot(self) -> None:
        await to_thread.run_sync(self._store.write_snapshot, PlanStatus.ACTIVE, self._scheduler.counts())
        self._snapshot_due = self._clock() + SNAPSHOT_SECONDS

    def _move(self, move: MoveStep) -> None:
        run = self._running.pop(move.step_id, None) if move.previous is StepStatus.IN_PROGRESS else None
        if move.reason is not None or move.detail:
            self._reasons[move.step_id] = StepReason(reason=move.reason, detail=move.detail)
        else:
            self._reasons.pop(move.step_id, None)
        self._chronicle.moved(move, None if run is None else self._clock() - run.started)

    def _start(self, step_id: str, attempt: int) -> None:
        step = self._steps[step_id]
        run = self._running[step_id] = StepRun(step=step, attempt=attempt, started=self._clock())
        if self._options.activity is not None and step.command is None:
            self._options.activity.begin(step_id)
            self._watch(run, self._options.activity, step.idle_seconds)
        self._tasks.start_soon(self._do, run, self._stop)

    def _retry(self, step_id: str) -> None:
        self._retries.discard(step_id)
        self._feed(RetryDue(step_id))

    # --- one step ---------------------------------------------------------------------------------------------

    async def _do(self, run: StepRun, stop: StopSignal) -> None:
        attempt = await self._runner.execute(run, stop)
        if run.idle_timer is not None:
            run.idle_timer.cancel()
        if self._options.activity is not None:
            self._options.activity.end(run.step.id)
        await self._settling.add(self._scheduler.rank(run.step.id), attempt)

    async def _settle(self, attempts: Sequence[EndedAttempt]) -> None:
        for ended in await self._runner.settle(attempts):
            if ended.provider_refused:
                self._refused.add(ended.outcome)
            self._feed(ended)

    def _watch(self, run: StepRun, activity: ActivitySink, seconds: float) -> None:
        run.idle_timer = self._timers.after(seconds, lambda: self._check_idle(run, activity))

    def _check_idle(self, run: StepRun, activity: ActivitySink) -> None:
        limit = run.step.idle_seconds
        left = limit - activity.idle_seconds(run.step.id)
        if left > 0:
            self._watch(run, activity, left)
        else:
            run.cancel(Outcome.FAILED, "idle", f"the step gave no sign of life for {limit:g} seconds")

    # --- wishes, decisions and clocks -------------------------------------------------------------------------

    def _on_request(self, request: Request) -> None:
        # Served from the run's own task group: what goes wrong there is the run's error, not the asker's.
        self._timers.after(0.0, lambda: self._serve(request))

    def _serve(self, request: Request) -> None:
        match request:
            case DecisionWish(taken, verdict):
                self._answer("decision.ignored", verdict, self._decide(taken))
            case RevisionWish():
                self._tasks.start_soon(self._revise, request)
            case PauseWish(reason, grace_seconds):
                if grace_seconds is not None:
                    self._timers.after(grace_seconds, lambda: self._interrupt_all("paused"))
                self._feed(PauseRequested(reason))
            case CancelRequested():
                self._revising.stop()
                self._feed(request)

    def _answer(self, code: str, verdict: Verdict, problem: str | None) -> None:
        if problem is not None and verdict.is_given:  # nobody asked to be told
            self._chronicle.warned(code, problem)
        verdict.give(problem)

    def _decide(self, taken: DecisionTaken) -> str | None:
        """Returns why it can't be, or None."""
        problem = self._decisions.refusal_of(taken.decision_id)
        if problem is not None or self._end is not None:
            return problem or TOO_LATE
        try:
            instructions = self._scheduler.handle(taken)
        except DecisionInvalidError as error:
            return str(error)
        self._decisions.take(taken)
        self._carry_out(instructions)
        return None

    def _on_decision_timeout(self, decision: Decision) -> None:
        if (default := default_of(decision)) is not None:
            self._decide(default)
        elif decision.id in needed_decisions(self._steps.values(), self._scheduler.statuses()):
            self._feed(PauseRequested(DECISION_REASON))
        else:
            self._pause_if_nobody_decides()

    def _pause_if_nobody_decides(self) -> None:
        going_on = self._options.attended or self._running or self._retries or self._asked_reviser or self._end
        if not going_on:
            needed = needed_decisions(self._steps.values(), self._scheduler.statuses())
            if self._decisions.need_a_person(needed):
                self._feed(PauseRequested(DECISION_REASON))

    # --- another plan -----------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The plan as it stands."""
        return self._plan

    def statuses(self) -> Mapping[str, StepStatus]:
        """Where every step stands now; a view."""
        return self._scheduler.statuses()

    def now(self) -> float:
        """Unix seconds."""
        return self._options.now()

    def revised(self, record: PlanRevised, event: PlanReplaced) -> None:
        """Go on with another plan."""
        self._chronicle.revised(record, event.plan)
        self._plan = event.plan
        self._steps = {step.id: step for step in event.plan.steps}
        self._runner.take_over(event.plan)
        self._decisions.drop(record.changed() | record.removed())
        self._asked_reviser -= record.changed() | record.removed() | {event.answers or ""}
        self._feed(event)

    async def _revise(self, wish: RevisionWish) -> None:
        problem = await self._revising.carry_out(wish.operations, by=wish.by, reason=wish.reason)
        self._answer("revision.refused", wish.verdict, problem)

    async def _ask_reviser(self, step_id: str) -> None:
        result = self._runner.results[step_id]
        while self._early is not None:
            await anyio.lowlevel.checkpoint()
        try:
            refused = await self._revising.answer_failure(step_id, result)
        except ProviderRefused as error:
            self._refused.add(error.outcome)
            self._chronicle.warned("provider", str(error))
            self._feed(PauseRequested("provider"))
            return
        if refused is not None:
            self._asked_reviser.discard(step_id)
            self._feed(refused)

    def _run_out_of_time(self) -> None:
        self._out_of_time = True
        self._feed(PauseRequested(BUDGET_REASON))
        self._interrupt_all(BUDGET_REASON)

    def _interrupt_all(self, reason: str) -> None:
        for run in self._running.values():
            run.interrupt(reason)
