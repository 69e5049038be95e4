"""Does one attempt at a step: hands it to the executor, and has its result on disk before anybody learns of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from planner.chronicle import Chronicle
from planner.model import Plan, Step, StepStatus
from planner.replay import AttemptKey, RestoredPlan, Spending, total_of
from planner.step_tasks import build_task, gather_inputs
from planner.store import PlanStore
from planner.timers import Timer
from subagents.executor import StepExecutor, StepResult, StopSignal
from vibe.core.outcome import Outcome

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


class StepRunner:
    """Runs attempts, and keeps what they came to: the last result of each step, and what all of them cost.

    Without ``write_results`` no ``result.json`` is written; the journal holds the result in any case.
    """

    def __init__(
        self,
        plan: Plan,
        executor: StepExecutor,
        store: PlanStore,
        chronicle: Chronicle,
        *,
        status_of: Callable[[str], StepStatus],
        write_results: bool,
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._store = store
        self._chronicle = chronicle
        self._status_of = status_of
        self._write_results = write_results
        self._titles = {step.id: step.title for step in plan.steps}
        restored = store.replay()
        self.results = dict(restored.results)
        self._spent: dict[AttemptKey, Spending] = dict(restored.spent)
        self.attempts = attempts_of(restored)

    async def do(self, run: StepRun, stop: StopSignal) -> StepResult:
        """Do the attempt, to its end or until it is cancelled; the result is on disk when this returns.

        Raises:
            StoreWriteError: the result can't be written.
        """
        self.attempts[run.step.id] = run.attempt
        result: StepResult | None = None
        with run.scope:
            if run.verdict is None:
                result = await self._execute(run, stop)
        if result is None:
            result = run.verdict or _internal_failure("the step's task was cancelled from inside")
        result = self._record(run, result)
        if self._write_results and result.outcome is not Outcome.INTERRUPTED:
            self._store.keep_result(run.step.id, result)
        await self._store.sync()
        self.results[run.step.id] = result
        self._spent[run.step.id, run.attempt] = Spending(result.usage, result.cost_usd)
        return result

    def spending(self) -> Spending:
        """What all attempts of the plan's life took."""
        return total_of(self._spent.values())

    async def _execute(self, run: StepRun, stop: StopSignal) -> StepResult:
        try:
            inputs = gather_inputs(run.step, self._titles, self._status_of, self.results)
            return await self._executor.run(build_task(self._plan, run.step, run.attempt, inputs), stop)
        except Exception as error:
            logger.exception("step %s raised", run.step.id)
            return _internal_failure(f"{type(error).__name__}: {error}")

    def _record(self, run: StepRun, result: StepResult) -> StepResult:
        step_id = run.step.id
        try:
            self._chronicle.attempt_ended(step_id, run.attempt, result, retry=_will_retry(run, result))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            logger.exception("step %s handed in what is no JSON value", step_id)
            result = _internal_failure(f"the step's result cannot be written as JSON: {error}")
            self._chronicle.attempt_ended(step_id, run.attempt, result, retry=_will_retry(run, result))
        return result


def attempts_of(restored: RestoredPlan) -> dict[str, int]:
    """How many attempts each step had in earlier runs."""
    return {
        step_id: was.attempt if was.status.is_final else was.attempt - 1
        for step_id, was in restored.steps.items()
        if step_id in restored.results or not was.status.is_final
    }


def _will_retry(run: StepRun, result: StepResult) -> bool:
    return result.outcome is Outcome.FAILED and not result.provider_refused and run.attempt <= run.step.retries


def _internal_failure(detail: str) -> StepResult:
    return StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)
