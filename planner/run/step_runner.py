"""StepRunner makes attempts at steps: it gives each to the executor and reports its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext

import anyio
from msgspec import Raw, Struct, field, json, structs

from ipc.events import PlanExpectation
from planner.plan.for_each import items_of, list_of, variables_of
from planner.plan.model import Child, Step, StepStatus
from planner.plan.step_limits import USUAL, StepLimits, step_limits
from planner.run.revision_runner import ReplanPolicy
from planner.run.watchdog import Clock, Sleep, Watchdog, steady_time
from planner.state.commands import AttemptEnded
from planner.state.facts import left_after
from planner.state.lists import output_of
from planner.state.schedule import schedule_of
from planner.state.state import BUDGET_REASON, WORDS, Left, State, StepState
from planner.store.store import PlanStore
from subagents.agent.steering import Steering
from subagents.executor import (
    GivenItem,
    StepExecutor,
    StepInput,
    StepResult,
    StepTask,
    StopSignal,
    ended_by,
    internal_failure,
)
from subagents.step.prompts import told_message
from subagents.step_result import LOST_REASON, AgentUsage
from vibe.core.messages import Outcome, Spending
from vibe.core.modes import ExecutionMode
from vibe.system.plain_text import both_ends


class DispatchOptions(Struct, frozen=True, kw_only=True):
    """Options of a run. Times are in seconds."""

    attended: bool = False
    """True if a user can take decisions. If not, the plan pauses once it waits only for decisions without a timeout."""
    step_limits: Mapping[ExecutionMode, StepLimits] = field(default_factory=lambda: USUAL)
    """The limits of steps that name none."""
    write_results: bool = True
    """Put ``result.json`` beside each step's conversation; the journal holds the result in any case."""
    watchdog: Watchdog | None = None
    """The sink that the executor's events pass through; without it, idle steps are not ended."""
    version: str = ""
    expected: PlanExpectation | None = None
    """The time, tokens and money that a new plan is expected to take."""
    earlier: Callable[[str, object], tuple[Mapping[str, StepResult], str]] = lambda _step_id, _items: ({}, "")
    """Finds the results that an earlier plan has for the items of a step's list, by key, and that plan's id.

    It is called in a worker thread.
    """
    replanning: ReplanPolicy = field(default_factory=ReplanPolicy)
    spent_by: Callable[[str, int], Spending] | None = None
    """Reads from files what a cancelled attempt (step, number) used and cost; without it, that stays unknown."""
    shortage: Callable[[Step, int, StepResult], str] = lambda _step, _attempt, _result: ""
    """Says what the plan's budget lacks for one more attempt at a step, after one of this number with this result.

    Blank if it lacks nothing.
    """
    has_agent: Callable[[Step], bool] = lambda step: step.command is None
    """Tells whether an agent does a step. A command or a program's function reports no progress: it is never idle."""
    steering: Steering = field(default_factory=Steering)
    """Reaches the agents of running steps."""
    clock: Clock = time.monotonic
    """The clock by which ``sleep`` sleeps."""
    sleep: Sleep = anyio.sleep
    now: Callable[[], float] = field(default_factory=steady_time)
    """Returns unix seconds."""


logger = logging.getLogger(__name__)

MOST_PREVIOUS = 2_000
"""The most characters about the previous attempt that the next one is given."""
CUT_NOTE = 60
"""The characters of MOST_PREVIOUS that are kept for the note on how much was left out."""


class StepRun(Struct, kw_only=True, eq=False):
    """A running attempt. ``verdict`` is its result if it is cancelled; ``has_task``: its agent has its orders."""

    step: Step
    attempt: int
    has_task: bool = False
    is_over: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    verdict: StepResult | None = None

    def cancel(self, outcome: Outcome, reason: str, detail: str) -> None:
        """End the attempt with this result; only the first call counts."""
        if self.verdict is None:
            self.verdict = StepResult(outcome=outcome, reason=reason, detail=detail)
            self.scope.cancel()

    def interrupt(self, reason: str) -> None:
        """Interrupt the attempt; a resume continues it."""
        later = "restart" if self.step.command is not None else "continue from its last turn"
        self.cancel(Outcome.INTERRUPTED, reason, f"interrupted; will {later} on resume")


class StepRunner:
    """Runs attempts, with inputs from the plan's state."""

    def __init__(self, state: State, executor: StepExecutor, store: PlanStore, options: DispatchOptions) -> None:
        self._state = state
        self._executor = executor
        self._store = store
        self._options = options

    async def execute(self, run: StepRun, stop: StopSignal) -> AttemptEnded:
        """Run the attempt until it ends or is cancelled.

        Raises:
            StoreWriteError: the start of a step with side effects can't be put on disk.
        """
        result: StepResult | None = None
        with run.scope:
            if run.verdict is None:
                if run.step.side_effects:
                    await self._store.sync()  # else a power cut could hide its start, and it would run twice
                result = await self._execute(run, stop)
        if result is None:
            result = run.verdict or internal_failure("the step's task was cancelled from inside")
            result = await self._with_spending(run, result)
        if (watchdog := self._options.watchdog) is not None:
            result = structs.replace(result, waited_s=watchdog.waited(run.step.id))
        return _ended(run, self._without_next(run, result))

    def _without_next(self, run: StepRun, result: StepResult) -> StepResult:
        """Return an attempt's result. If the plan's budget has no room for the next attempt, the step ends with it."""
        left = left_after(run.step, run.attempt, result, cut=False)
        goes_on = left is Left.RETRYING and self._options.has_agent(run.step)
        lacks = self._options.shortage(run.step, run.attempt, result) if goes_on else ""
        if not lacks:
            return result
        models = run.step.models[run.attempt : run.attempt + 1]
        what = f"model {models[0]!r} was not tried" if models else "it was not tried again"
        result = structs.replace(result, detail=f"{result.detail}; {what}: {lacks}".removeprefix("; "), any_model=True)
        is_blocked = result.outcome is Outcome.BLOCKED
        return result if is_blocked else structs.replace(result, outcome=Outcome.LIMIT, reason=BUDGET_REASON)

    async def _with_spending(self, run: StepRun, result: StepResult) -> StepResult:
        """Return the result of a cancelled attempt with what it used and cost, which it could not report itself."""
        spent_by, watchdog = self._options.spent_by, self._options.watchdog
        if spent_by is None or run.step.command is not None:
            return result
        spent = structs.asdict(await anyio.to_thread.run_sync(spent_by, run.step.id, run.attempt))
        agent_id = watchdog.agent_of(run.step.id) if watchdog is not None else None
        agents = (AgentUsage(agent_id=agent_id, **spent),) if agent_id else ()
        return structs.replace(result, **spent, agent_id=agent_id, agents=agents)

    def _input(self, step_id: str) -> StepInput:
        """Return a dependency's result as input for a step; the summary of a failed one says why."""
        state, step = self._state, self._state.steps[step_id]
        result = step.last_result
        has_file = self._options.write_results and step.result is not None
        return StepInput(
            step_id=step_id,
            title=step.outline.title,
            status=WORDS[step.status],
            summary=result.summary or ("" if step.status is StepStatus.COMPLETED else result.detail),
            output=output_of(state, schedule_of(state).steps, step_id),
            files_changed=result.files_changed,
            result_file=str(self._store.folder.result_file(step_id)) if has_file else None,
        )

    def items(self, step_id: str) -> object:
        """Return the value that a step takes as its list; it may turn out not to be a list."""
        schedule = schedule_of(self._state)
        pattern = schedule.steps[step_id]
        source = list_of(pattern).source
        output = None if source is None else output_of(self._state, schedule.steps, source)
        return items_of(pattern, output, schedule.plan.values())

    async def _item(self, child: Child) -> GivenItem:
        """Return the item that a step is for; a long one is written to a file."""
        file = await anyio.to_thread.run_sync(self._store.write_item, child) if child.is_long else None
        pattern = schedule_of(self._state).steps[child.pattern]
        return GivenItem(file=file, writes=None if pattern.writes is None else tuple(pattern.writes))

    async def _execute(self, run: StepRun, stop: StopSignal) -> StepResult:
        """Give the attempt to the executor; any exception becomes a result."""
        options = self._options
        try:
            plan, step = schedule_of(self._state).plan, self._state.steps[run.step.id]
            limits = step_limits(run.step, options.step_limits, exhausted=step.exhausted)
            task = StepTask(
                step=run.step.at_attempt(run.attempt),
                before=_previous_attempt(run, step),
                goal=plan.goal,
                context=plan.context,
                max_tokens=limits.max_tokens,
                max_turns=limits.max_turns,
                attempt=run.attempt,
                continued=any(span.attempt == run.attempt for span in step.spans),
                inputs=tuple(self._input(edge.step) for edge in run.step.dependencies),
                item=await self._item(run.step) if isinstance(run.step, Child) else None,
                variables={**plan.variables(), **(variables_of(run.step.item) if isinstance(run.step, Child) else {})},
                told=tuple(told_message(fact) for fact in step.told),
            )
            run.has_task = True
            with options.steering.attempt(run.step.id) if options.has_agent(run.step) else nullcontext():
                return await self._executor.run(task, stop)
        except Exception as error:
            logger.exception("step %s raised", run.step.id)
            return ended_by(error)


def _previous_attempt(run: StepRun, step: StepState) -> str:
    """Return words about the previous attempt for the next one, or blank if none failed."""
    previous = step.attempts[-1] if step.attempts else None
    if previous is None or previous.number != run.attempt - 1 or previous.result.outcome is Outcome.COMPLETED:
        return ""
    result = previous.result
    lines = [f"It ended {result.outcome.value}, reason {result.reason or 'unknown'}. {result.detail}".rstrip()]
    if result.branch:
        lines.append(f"Its work is kept on the branch {result.branch}; your folder is as it was before it.")
    if result.printed:
        lines.append(f"The last it printed:\n{result.printed}")
    return both_ends("\n\n".join(lines), MOST_PREVIOUS - CUT_NOTE)


def _ended(run: StepRun, result: StepResult) -> AttemptEnded:
    """Return the command for an attempt with this result; one that is not JSON becomes an internal failure."""
    try:
        raw = Raw(json.encode(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        logger.exception("step %s handed in a value that is not JSON", run.step.id)
        result = internal_failure(f"the step's result cannot be written as JSON: {error}")
        raw = Raw(json.encode(result))
    cut = run.verdict is not None or (result.outcome is Outcome.INTERRUPTED and result.reason == LOST_REASON)
    return AttemptEnded(step_id=run.step.id, result=result, raw=raw, cut=cut)
