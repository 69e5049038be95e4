"""Does attempts at steps: hands them to the executor, and has their results on disk before anybody learns of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio import to_thread
from msgspec import structs

from planner.chronicle import Chronicle
from planner.dispatch_options import DispatchOptions
from planner.failure_policy import Follows, follows, unfinished_after
from planner.instructions import StepEnded
from planner.model import Plan, Step, StepStatus
from planner.replay import AttemptKey, RestoredPlan, Spending, total_of
from planner.step_limits import is_exhausted, step_limits
from planner.step_tasks import build_task, gather_inputs
from planner.store import PlanStore
from planner.timers import Timer
from subagents.executor import AgentUsage, StepExecutor, StepResult, StopSignal, unserved
from vibe.core.errors import innermost
from vibe.core.outcome import Outcome
from vibe.core.tools.process.runner import CommandStartError

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class StepRun:
    """A running attempt. ``verdict`` is what it comes to if it is cancelled, ``started`` a time of the run's clock."""

    step: Step
    attempt: int
    started: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    verdict: StepResult | None = None
    idle_timer: Timer | None = None

    def cancel(self, outcome: Outcome, reason: str, detail: str) -> None:
        """End the attempt; the first to do so gives the reason."""
        if self.verdict is None:
            self.verdict = StepResult(outcome=outcome, reason=reason, detail=detail)
            self.scope.cancel()

    def interrupt(self, reason: str) -> None:
        """End the attempt for now."""
        later = (
            "will restart on resume" if self.step.command is not None else "will continue from its last turn on resume"
        )
        self.cancel(Outcome.INTERRUPTED, reason, f"interrupted; {later}")


@dataclass(frozen=True, slots=True, eq=False)
class EndedAttempt:
    """What the executor came to, not written down yet. ``is_cut``: the attempt was cancelled."""

    run: StepRun
    result: StepResult
    is_cut: bool


class StepRunner:
    """Runs attempts, and keeps what they came to: the last result of each step, and what all of them cost."""

    def __init__(
        self,
        plan: Plan,
        executor: StepExecutor,
        store: PlanStore,
        chronicle: Chronicle,
        *,
        status_of: Callable[[str], StepStatus],
        options: DispatchOptions,
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._store = store
        self._chronicle = chronicle
        self._status_of = status_of
        self._options = options
        self._file_of = store.folder.result_file if options.write_results else None
        self._titles = {step.id: step.title for step in plan.steps}
        restored = store.replay()
        self.results = dict(restored.results)
        self._spent: dict[AttemptKey, Spending] = dict(restored.spent)
        self._exhausted = dict(restored.exhausted)
        self.attempts = attempts_of(restored)

    def take_over(self, plan: Plan) -> None:
        """Attempts that begin from now on are attempts at this plan's steps."""
        self._plan = plan
        self._titles = {step.id: step.title for step in plan.steps}

    async def execute(self, run: StepRun, stop: StopSignal) -> EndedAttempt:
        """Do the attempt, to its end or until it is cancelled.

        Raises:
            StoreWriteError: it can't be put on disk that a step with side effects begins.
        """
        self.attempts[run.step.id] = run.attempt
        result: StepResult | None = None
        with run.scope:
            if run.verdict is None:
                if run.step.side_effects:
                    await self._store.sync()  # no power cut may hide that it began: it would be begun again
                result = await self._execute(run, stop)
        if result is None:
            result = run.verdict or _internal_failure("the step's task was cancelled from inside")
            result = await self._with_spending(run, result)
        return EndedAttempt(run, result, is_cut=run.verdict is not None)

    async def settle(self, attempts: Sequence[EndedAttempt]) -> list[StepEnded]:
        """Write down what they came to; it is on disk, with their events, when this returns.

        Raises:
            StoreWriteError: it can't be written.
        """
        written = [self._record(attempt) for attempt in attempts]
        await self._store.sync(self._options.sync_events)
        for attempt, (result, _) in zip(attempts, written, strict=True):
            step_id = attempt.run.step.id
            self.results[step_id] = result
            self._exhausted[step_id] = self._exhausted.get(step_id, 0) + is_exhausted(result)
            self._spent[step_id, attempt.run.attempt] = Spending(result.usage, result.cost_usd)
        return [ended for _, ended in written]

    async def _with_spending(self, run: StepRun, result: StepResult) -> StepResult:
        """What an attempt took that was cancelled, and so could not say so itself."""
        spent_by, activity = self._options.spent_by, self._options.activity
        if spent_by is None or run.step.command is not None:
            return result
        usage, cost_usd = await to_thread.run_sync(spent_by, run.step.id, run.attempt)
        agent_id = activity.agent_of(run.step.id) if activity is not None else None
        agents = (AgentUsage(agent_id=agent_id, usage=usage, cost_usd=cost_usd),) if agent_id else ()
        return structs.replace(result, usage=usage, cost_usd=cost_usd, agent_id=agent_id, agents=agents)

    def spending(self) -> Spending:
        """What all attempts of the plan's life took."""
        return total_of(self._spent.values())

    async def _execute(self, run: StepRun, stop: StopSignal) -> StepResult:
        try:
            inputs = gather_inputs(run.step, self._titles, self._status_of, self.results, self._file_of)
            exhausted = self._exhausted.get(run.step.id, 0)
            limits = step_limits(run.step, self._options.step_limits, exhausted=exhausted)
            return await self._executor.run(build_task(self._plan, run.step, run.attempt, inputs, limits), stop)
        except Exception as error:
            logger.exception("step %s raised", run.step.id)
            cause = innermost(error)
            if isinstance(cause, CommandStartError) and not cause.cwd.is_dir():
                return StepResult(
                    outcome=Outcome.FAILED, reason="workspace", detail=f"the folder {str(cause.cwd)!r} is gone"
                )
            return unserved(error) or _internal_failure(f"{type(cause).__name__}: {cause}")

    def _record(self, attempt: EndedAttempt) -> tuple[StepResult, StepEnded]:
        result = attempt.result
        try:
            ended = self._write_down(attempt, result)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            logger.exception("step %s handed in what is no JSON value", attempt.run.step.id)
            result = _internal_failure(f"the step's result cannot be written as JSON: {error}")
            ended = self._write_down(attempt, result)
        if self._options.write_results and result.outcome is not Outcome.INTERRUPTED:
            self._store.keep_result(attempt.run.step.id, result)
        return result, ended

    def _write_down(self, attempt: EndedAttempt, result: StepResult) -> StepEnded:
        step, number = attempt.run.step, attempt.run.attempt
        ended = StepEnded(
            step.id, result.outcome, result.reason, result.detail, result.provider_refused, attempt.is_cut
        )
        what = follows(step, number, ended)
        self._chronicle.attempt_ended(
            step.id,
            number,
            result,
            retry=what is Follows.RETRY,
            unfinished=unfinished_after(what, ended),
        )
        return ended


def attempts_of(restored: RestoredPlan) -> dict[str, int]:
    """How many attempts each step had in earlier runs."""
    return {
        step_id: was.attempt if was.status.is_final or was.unfinished else was.attempt - 1
        for step_id, was in restored.steps.items()
        if (step_id in restored.results and step_id not in restored.reused) or not was.status.is_final
    }


def _internal_failure(detail: str) -> StepResult:
    return StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)
