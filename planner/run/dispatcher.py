"""The dispatcher carries out a plan's effects: one task per running step and one for the clock, in one task group."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, assert_never

import anyio.lowlevel
from anyio import to_thread
from msgspec import Struct, convert, field, structs

from ipc import events as e
from ipc.commands import Act, Cancel, Pause, Revise, Steer
from ipc.sink import EventSink
from planner.plan.loader import LoadedPlan
from planner.plan.revision import ProviderRefused
from planner.run.control import PlanControl, Request
from planner.run.revision_runner import RevisionRunner
from planner.run.step_runner import DispatchOptions, StepRun, StepRunner
from planner.run.watchdog import Timers, Watchdog
from planner.state import commands as c
from planner.state.changes import TOO_LATE
from planner.state.decide import carry_out, decide
from planner.state.lists import result_of_list
from planner.state.outcome import RunResult, result_of
from planner.state.schedule import MOST_PARKED, schedule_of
from planner.state.state import ACTIVE, IN_PROGRESS, State
from planner.store.store import PlanStore
from subagents.executor import StepExecutor, StopSignal
from vibe.core.messages import Outcome, Usage
from vibe.system.errors import UsageError, innermost

AttemptT = TypeVar("AttemptT")


class GroupCommit(Struct, Generic[AttemptT], eq=False):
    """Passes attempts to ``commit``, which puts them on disk, in batches, one batch at a time.

    A batch takes the best attempts by rank, 0 first, and at most twice as many as the batch before. So when many steps
    end at one moment, the plan continues behind the step with the longest chain at once rather than after all the
    others, and the disk is still flushed only a few times.
    """

    _commit: Callable[[Sequence[AttemptT]], Awaitable[None]]
    _waiting: list[tuple[int, int, AttemptT]] = field(default_factory=list["tuple[int, int, AttemptT]"])
    _order: Iterator[int] = field(default_factory=itertools.count)
    _is_busy: bool = False

    async def add(self, rank: int, attempt: AttemptT) -> None:
        """Have an attempt committed. The first call returns once all are; calls made in the meantime return at once.

        If ``commit`` raises, the error goes to the first caller and nothing more is committed.
        """
        heappush(self._waiting, (rank, next(self._order), attempt))
        if self._is_busy:
            return
        self._is_busy = True
        size = 1
        while self._waiting:
            batch = [heappop(self._waiting)[-1] for _ in range(min(size, len(self._waiting)))]
            await self._commit(batch)
            size *= 2
            if self._waiting:
                await anyio.lowlevel.checkpoint()  # lets the steps that the batch started begin
        self._is_busy = False


SNAPSHOT_SECONDS = 1.0
"""The shortest time between two snapshots of the plan's state; each change is in one of them after that time."""
STOPPED_SECONDS = 5.0
"""A timer that is late by more than this shows that the run's process was stopped, as by Ctrl-Z."""
PAUSING = "pausing, still at work: {}; agents stop at a safe point, commands when done, questions once answered{}"
NO_AGENT = "a program does step {!r}, not an agent: it hears nothing"
NOT_HEARD = "the agent of step {!r} is done: once the step has ended, `vibe plan retry` takes a --message"

_ENDS = frozenset({e.PlanPausedEvent, e.PlanCompletedEvent})
"""The facts that are announced only once they are on disk."""

_NONE_USED, _NO_USAGE = Usage(), e.WorkDone().usage


class Dispatcher:
    """Runs one plan until it ends, pauses or is cancelled; each instance is good for one ``run``.

    ``loaded`` is the current plan, and at most ``width`` of its steps run side by side. Only the dispatcher changes the
    plan's state. The facts of a command are in the journal before they are announced, and the result of a step is on
    disk before any other step learns of it.
    """

    def __init__(
        self,
        *,
        loaded: LoadedPlan,
        width: int,
        executor: StepExecutor,
        store: PlanStore,
        sink: EventSink,
        options: DispatchOptions | None = None,
    ) -> None:
        self._options = options or DispatchOptions()
        self._loaded = loaded
        self._width = width
        self._store = store
        self._clock = self._options.clock
        self._steering = self._options.steering
        self._state = store.state()
        self._sink = sink
        self._runner = StepRunner(self._state, executor, store, self._options)
        self._group_commit = GroupCommit(self._commit)
        self._timers = Timers(self._clock, self._options.sleep)
        self._snapshots = Timers()
        """Has the snapshots written, by the real clock: they are for other processes."""
        self._revisions = RevisionRunner(self._state, self._take, self._options.replanning)
        self._running: dict[str, StepRun] = {}
        self._is_marking_blocked = False
        self._is_snapshot_due = False
        self._writing_snapshot = anyio.Lock()
        self._end_fact: e.Fact | None = None
        self._busy_lists = set[str]()
        """Steps whose list is being read, or whose items' results are being kept."""
        self._held: dict[str, tuple[str, ...]] = {}
        """Steps that were announced as waiting for others' files, with the steps they wait for."""

    async def run(self, control: PlanControl) -> RunResult:
        """Run until the plan ends or pauses.

        Raises:
            StoreWriteError: the plan's folder can no longer be written to; the running steps were cancelled.
        """
        started = self._clock()
        self._stop = control
        try:
            async with anyio.create_task_group() as self._tasks:
                # Timers come first, so that an early command or a spent budget is handled before the first step starts.
                self._tasks.start_soon(self._timers.run)
                self._tasks.start_soon(self._snapshots.run)
                self._begin()
                # A timer serves requests in the run's task group, so that an error there ends the run, not the asker.
                control.attach(lambda request: self._timers.after(0.0, lambda: self._serve(request)))
        except ExceptionGroup as group:
            raise innermost(group) from group
        finally:
            control.detach()
        return await self._finish(started)

    # --- beginning and end ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start the budget's timer and the plan, and announce what was recorded while nobody ran it."""
        for warning in self._store.dropped:
            self._warn("journal.torn", warning)
        settings, budget = self._store.settings, self._loaded.plan.budget
        if budget is not None and budget.max_seconds is not None:
            left = budget.max_seconds - self._state.active_seconds
            self._later(max(0.0, left), c.BudgetSpent())
        start = c.Start(
            loaded=self._loaded,
            width=self._width,
            attended=self._options.attended,
            expected=self._options.expected,
            **settings.model_dump(include={"fail_fast", "decisions", "note", "reused_from", "workspace"}),
            pid=os.getpid(),
            version=self._options.version,
        )
        self._take(start)
        steps = self._state.steps.values()
        for message in (message for step in steps for message in step.told):  # sent while no process had the plan
            self._sink.publish(message)

    async def _finish(self, started: float) -> RunResult:
        """Put everything on disk, announce the end, and return the result."""
        state = self._state
        if state.status is ACTIVE:
            raise RuntimeError("the plan is stuck: this is a bug in vibe, please report it")
        await self._store.sync()
        await to_thread.run_sync(self._store.write_snapshot, state)
        if self._end_fact is not None:
            self._sink.publish(self._end_fact)
        return result_of(state, schedule_of(state).plan, self._store.dropped, self._clock() - started)

    # --- commands and effects ---------------------------------------------------------------------------------

    def _take(self, command: c.Command) -> None:
        """Carry out a command and all that follows: record, announce, start effects. Raises what ``decide`` raises."""
        facts: list[e.Fact] = []
        effects = carry_out(self._state, command, self._options.now(), facts.append)
        if facts:
            self._store.append(*facts)
        for fact in facts:
            self._announce(fact)
        self._perform(effects)
        self._announce_held()
        if self._state.status is not ACTIVE:
            self._timers.stop()
            self._snapshots.stop()
            self._revisions.stop()
        elif not self._is_marking_blocked and schedule_of(self._state).to_mark_blocked:
            self._is_marking_blocked = True
            self._tasks.start_soon(self._mark_blocked)
        if not self._is_snapshot_due:
            self._is_snapshot_due = True
            self._snapshots.after(SNAPSHOT_SECONDS, lambda: self._tasks.start_soon(self._write_snapshot))

    def _later(self, seconds: float, command: c.Command) -> None:
        self._timers.after(seconds, lambda: self._take(command))

    async def _mark_blocked(self) -> None:
        """Mark waiting steps as blocked, in portions, so that starting and running steps get their turn in between."""
        await anyio.lowlevel.checkpoint()
        while self._state.status is ACTIVE and schedule_of(self._state).to_mark_blocked:
            self._take(c.MarkBlocked())
            await anyio.lowlevel.checkpoint()
        self._is_marking_blocked = False

    async def _write_snapshot(self) -> None:
        async with self._writing_snapshot:  # else an old snapshot on a slow disk could replace a newer one
            self._is_snapshot_due = False
            await to_thread.run_sync(self._store.write_snapshot, self._state)

    def _perform(self, effects: Sequence[c.Effect]) -> None:
        for effect in effects:
            match effect:
                case c.StartAttempt(step_id, attempt):
                    self._start(step_id, attempt)
                case c.CancelAttempt(step_id, detail):
                    self._running[step_id].cancel(Outcome.INTERRUPTED, "cancelled", detail)
                case c.InterruptAll(reason, seconds):
                    self._interrupt_all(reason, seconds)
                case c.WaitForRetry(step_id, _, seconds):
                    self._announce_wait(step_id, "retry", seconds=seconds)
                    self._later(seconds, c.RetryDue(step_id))
                case c.WaitForAnswer(decision_id, seconds):
                    self._later(seconds, c.DecisionTimedOut(decision_id))
                case c.ReadItems() | c.KeepItems() | c.AskReviser():
                    self._begin_work(effect)
                case c.StopReviser(step_id):
                    self._revisions.stop(step_id)
                case _:
                    assert_never(effect)

    def _start(self, step_id: str, attempt: int) -> None:
        step = schedule_of(self._state).steps[step_id]
        run = self._running[step_id] = StepRun(step=step, attempt=attempt)
        if self._options.watchdog is not None and self._options.has_agent(step):
            self._options.watchdog.begin(step_id)
            self._watch(run, self._options.watchdog, step.idle_seconds)
        self._tasks.start_soon(self._run_attempt, run, self._stop)

    def _interrupt_all(self, reason: str, seconds: float) -> None:
        if seconds > 0:
            self._timers.after(seconds, lambda: self._interrupt_all(reason, 0.0))
            return
        for run in self._running.values():
            run.interrupt(reason)

    def _begin_work(self, effect: c.ReadItems | c.KeepItems | c.AskReviser) -> None:
        """Begin an effect that takes a while in a task of its own, unless it is under way for that step already."""
        step_id = effect.step_id
        if isinstance(effect, c.AskReviser):
            self._announce_wait(step_id, "revision")
            self._tasks.start_soon(self._ask_reviser, step_id)
        elif step_id not in self._busy_lists:
            self._busy_lists.add(step_id)
            work = self._unfold if isinstance(effect, c.ReadItems) else self._end_list
            self._tasks.start_soon(work, step_id)

    # --- what is announced ------------------------------------------------------------------------------------

    def _announce(self, fact: e.Fact) -> None:
        """Announce a recorded fact.

        The end of the run is held back, to come last. Attempts stay in the journal, since the step's own event has
        their results.
        """
        kind = type(fact)
        if kind in _ENDS:
            self._end_fact = fact
        elif kind is not e.PlanAttemptEvent:
            self._sink.publish(_with_work_done(fact, self._state))

    def _announce_held(self) -> None:
        """Announce which steps wait only for files that running steps hold, or by now only for a free slot."""
        schedule = schedule_of(self._state)
        for step_id in (*self._held, *schedule.queue.parked()):
            if step_id not in schedule.ready:
                self._held.pop(step_id, None)
                continue
            holders = schedule.queue.conflicting(step_id, self._state.running)
            if self._held.get(step_id, ()) != holders and (step_id in self._held or len(self._held) < MOST_PARKED):
                self._held[step_id] = holders
                self._announce_wait(step_id, "files" if holders else "slot", step_ids=holders)

    def _announce_wait(self, step_id: str, waits_for: str, **details: Any) -> None:
        waits = e.PlanWaitingEvent(plan_id=self._state.plan_id, step_id=step_id, waits_for=waits_for, **details)
        self._sink.publish(waits)

    def _warn(self, code: str, message: str) -> None:
        self._sink.publish(e.WarningEvent(plan_id=self._state.plan_id, code=code, message=message))

    # --- one step ---------------------------------------------------------------------------------------------

    async def _run_attempt(self, run: StepRun, stop: StopSignal) -> None:
        attempt = await self._runner.execute(run, stop)
        run.is_over = True
        if self._options.watchdog is not None:
            self._options.watchdog.end(run.step.id)
        await self._group_commit.add(schedule_of(self._state).queue.ranks[run.step.id], attempt)

    async def _commit(self, attempts: Sequence[c.AttemptEnded]) -> None:
        """Record the results of attempts and, once they are on disk, continue with the steps that follow."""
        for attempt in attempts:
            self._take(attempt)
            if self._options.write_results and attempt.result.outcome is not Outcome.INTERRUPTED:
                self._store.keep_result(attempt.step_id, attempt.result)
        await self._store.sync()
        for attempt in attempts:
            del self._running[attempt.step_id]
            self._take(c.AttemptSaved(attempt.step_id))

    def _watch(self, run: StepRun, watchdog: Watchdog, seconds: float) -> None:
        due = self._clock() + seconds
        self._timers.after(seconds, lambda: self._check_idle(run, watchdog, due))

    def _check_idle(self, run: StepRun, watchdog: Watchdog, due: float) -> None:
        if run.is_over:
            return
        limit = run.step.idle_seconds
        was_stopped = self._clock() - due > STOPPED_SECONDS
        left = limit if was_stopped else limit - watchdog.idle_seconds(run.step.id)
        if left > 0:
            self._watch(run, watchdog, left)
        else:
            run.cancel(Outcome.FAILED, "idle", f"the step was silent for {limit:g} seconds")

    # --- lists ------------------------------------------------------------------------------------------------

    async def _unfold(self, step_id: str) -> None:
        """Read the list of a step and put it on disk, then make the steps for its items."""
        items = self._runner.items(step_id)
        await to_thread.run_sync(self._store.write_items, step_id, items)
        taken, reused_from = await to_thread.run_sync(self._options.earlier, step_id, items)
        self._busy_lists.discard(step_id)
        if step_id in schedule_of(self._state).lists_due and self._runner.items(step_id) != items:  # revised meanwhile
            self._begin_work(c.ReadItems(step_id))
        else:
            self._take(c.Unfold(step_id=step_id, items=items, taken=taken, reused_from=reused_from))

    async def _end_list(self, step_id: str) -> None:
        """Put the results of a list's items on disk, then end the step with the list."""
        self._store.keep_result(step_id, result_of_list(self._state, schedule_of(self._state).steps, step_id))
        await self._store.sync()
        self._busy_lists.discard(step_id)
        self._take(c.AttemptSaved(step_id))

    # --- commands from outside --------------------------------------------------------------------------------

    def _serve(self, request: Request) -> None:
        command = request.command
        slow: dict[type, Callable[[Any, Request], Coroutine[Any, Any, None]]]
        slow = {Revise: self._revise, Act: self._act, Steer: self._steer}
        if (serve_slowly := slow.get(type(command))) is not None:
            self._tasks.start_soon(serve_slowly, command, request)
            return
        if isinstance(command, Cancel):
            self._revisions.stop()
        if isinstance(command, Pause) and command.grace_seconds is None and self._running:
            again = "; Ctrl-C again stops now" if command.by == signal.SIGINT.name else ""
            self._warn("pausing", PAUSING.format(", ".join(self._running), again))
        self._answer("decision.ignored", request, self._try_command(command))

    async def _act(self, command: Act, request: Request) -> None:
        with suppress(UsageError):  # ``_try_command`` reports it below
            for fact in decide(self._state, command, self._options.now()).facts:
                if isinstance(fact, e.PlanResetEvent):  # before the next attempt reads them
                    await to_thread.run_sync(self._store.forget_checks, fact.step_ids)
        self._answer("step.refused", request, self._try_command(command))

    async def _steer(self, command: Steer, request: Request) -> None:
        by = "" if command.by in e.OWN_ANSWERS else command.by
        heard = await self._steering.tell(command.step_id, command.text, by)
        run = self._running.get(command.step_id)
        if heard or run is None or not run.has_task or run.step.command is not None:
            problem = self._try_command(c.Tell(command, heard))
        else:
            problem = (NOT_HEARD if self._options.has_agent(run.step) else NO_AGENT).format(command.step_id)
        self._answer("step.refused", request, problem)

    def _try_command(self, command: c.Command) -> str | None:
        """Carry out a command from outside, and return why that was impossible, or None."""
        try:
            self._take(command)
        except UsageError as error:
            return str(error)
        return None

    async def _revise(self, command: Revise, request: Request) -> None:
        self._answer("revision.refused", request, await self._revisions.carry_out(command))

    def _answer(self, code: str, request: Request, problem: str | None) -> None:
        """Answer a request; if its sender is gone, a refusal becomes a warning."""
        if problem is not None and problem != TOO_LATE and request.is_answered:
            self._warn(code, problem)
        request.answer(problem)

    async def _ask_reviser(self, step_id: str) -> None:
        try:
            await self._revisions.answer_failure(step_id)
        except ProviderRefused as error:
            self._warn("provider", str(error))
            self._take(c.ReviserRefused(error.outcome))


def _with_work_done(fact: e.Fact, state: State) -> e.Fact:
    """Return a fact; if it ends an attempt, with the attempt's work added, which the journal has already."""
    if not isinstance(fact, e.PlanStepUpdateEvent) or fact.previous != IN_PROGRESS:
        return fact
    result = state.steps[fact.step_id].result
    if result is None:
        return fact
    work = convert(result, e.WorkDone, from_attributes=True)
    usage = _NO_USAGE if result.usage == _NONE_USED else work.usage
    return structs.replace(fact, work=structs.replace(work, summary=e.shortened(result.summary), usage=usage))
