"""Dispatches a plan whose folder is held, with the executor, worktrees and replanner for its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from ipc.events import PlanExpectation, WarningEvent
from planner.plan.loader import load_plan
from planner.plan.step_limits import usual_limits
from planner.plan.write_claims import accepted_writes
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher, DispatchOptions
from planner.run.revision_runner import ReplanPolicy
from planner.run.watchdog import Watchdog
from planner.state.outcome import RunResult
from planner.store.folder import STEPS_FOLDER
from planner.store.store import PlanStore
from subagents.agent.budget import Account
from subagents.agent.run_services import RunServices
from subagents.agent.spawner import SpawnPool, started_subagents
from subagents.agent.steering import Steering
from subagents.executor import KeptBy
from subagents.step.local_executor import attempt_spending
from vibe import __version__
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.host import Host, steps_at_once
from vibe.app.engine.request_board import Company
from vibe.app.plan.decision_prompter import DecisionAsker, DecisionPrompter
from vibe.app.plan.preflight import shortage
from vibe.app.plan.prepare import PreparedRun
from vibe.app.plan.replanning import replan_policy
from vibe.app.plan.reuse import items_reused, note_commit
from vibe.app.plan.rewind import recording_executor
from vibe.app.plan.step_context import StepPlace, step_context
from vibe.app.plan.step_executor import APPROVAL_MODES, PlanSteps, step_executor
from vibe.app.plan.usage_history import expectation, revisions_folder
from vibe.app.plan.worktrees import clear_worktrees, worktree_executor
from vibe.core.session.write_turn import WriteTurn


class Audience(Company, frozen=True, kw_only=True):
    """Those who watch and answer a plan's run. ``decide`` takes the plan's decisions (None: nobody does).

    With ``waits``, decisions and approvals are waited for in any case; they come over the control address.
    """

    decide: DecisionAsker | None = None
    waits: bool = False


class HeldRun(Struct, frozen=True, kw_only=True):
    """A run that holds its plan's folder and has a channel for its events. ``account`` pays for it."""

    prepared: PreparedRun
    host: Host
    audience: Audience
    decider: DecisionPrompter | None
    store: PlanStore
    channel: Publishing
    account: Account
    steering: Steering
    turn: WriteTurn


async def dispatch_steps(
    run: HeldRun, control: PlanControl, stack: AsyncExitStack, before_start: Callable[[], object] | None = None
) -> RunResult:
    """Run the steps of a plan, in this process or in others, in the shared workspace or in worktrees.

    ``stack`` closes executors and worktrees only after a failure has been recorded, because task groups would wrap it.
    ``before_start`` is called once everything is ready.
    """
    prepared, store, sink = run.prepared, run.store, run.channel.sink
    engine, plan = prepared.engine, prepared.loaded.plan
    watchdog = Watchdog(sink, anyio.current_time)
    steps = await anyio.to_thread.run_sync(_plan_steps, run, watchdog)
    inner = await stack.enter_async_context(step_executor(steps))
    worktrees = await stack.enter_async_context(worktree_executor(inner, store, engine, run.host, steps.services))
    await worktrees.recover()
    executor = recording_executor(worktrees, store, engine, plan, sink, run.turn)
    width = await _width(run)
    options = await anyio.to_thread.run_sync(_dispatch_options, run, steps, watchdog, worktrees.kept)
    dispatcher = Dispatcher(
        loaded=prepared.loaded, width=width, executor=executor, store=store, sink=sink, options=options
    )
    if run.decider is not None:
        await stack.enter_async_context(run.decider.at_work(control))
    if before_start is not None:
        before_start()
    outcome = await dispatcher.run(control)
    await clear_worktrees(worktrees, outcome, sink)
    await anyio.to_thread.run_sync(note_commit, store, engine.environ)
    return outcome


def _plan_steps(run: HeldRun, watchdog: Watchdog) -> PlanSteps:
    """Return the steps and what they are done with. Reads files."""
    store, engine = run.store, run.prepared.engine
    started = started_subagents(store.folder.path / STEPS_FOLDER)
    settings = store.settings
    return PlanSteps(
        plan=run.prepared.loaded.plan,
        store=store,
        host=run.host,
        engine=engine,
        program=run.prepared.options.program,
        place=StepPlace(
            workspace=Path(settings.workspace),
            model=settings.model,
            sample=settings.sample,
            session_id=run.channel.session_id,
            accepted_writes=_accepted_writes(store),
        ),
        services=RunServices(
            sink=watchdog,
            account=run.account,
            approvals=engine.approvals(APPROVAL_MODES[settings.approvals], run.audience.approver),
            spawning=SpawnPool(engine.agents, engine.config.subagents, spawned=started),
            limiter_of=engine.models.limiter,
            user_input=run.audience.user_input,
            steering=run.steering,
            turns=run.turn.held,
        ),
    )


def _accepted_writes(store: PlanStore) -> frozenset[str]:
    """Return the files that steps may edit unasked because the user accepted that. Reads files."""
    if not store.settings.accept_writes:
        return frozenset()
    accepted = load_plan(store.folder.source(), where=store.plan_id).plan
    return accepted_writes(accepted, store.state().revisions)


def _dispatch_options(run: HeldRun, steps: PlanSteps, watchdog: Watchdog, kept_by: KeptBy) -> DispatchOptions:
    """Return the options for running the steps. Reads earlier plans if this is a new one."""
    store = run.store
    return DispatchOptions(
        watchdog=watchdog,
        step_limits=usual_limits(steps.engine.config),
        attended=run.audience.waits or run.decider is not None,
        has_agent=lambda step: step.command is None and not store.settings.by_program(step),
        version=__version__,
        expected=_expected(steps) if not store.state().attached else None,
        replanning=_replanning(steps, kept_by),
        earlier=partial(items_reused, store, steps.host.home),
        steering=run.steering,
        shortage=partial(shortage, run.account, steps.engine, steps.place.model),
        spent_by=lambda step_id, attempt: attempt_spending(store.folder.step_folder(step_id), attempt),
    )


def _expected(steps: PlanSteps) -> PlanExpectation | None:
    store = steps.store
    settings, plan = store.settings, steps.plan.resolved()
    done = {step_id for step_id, step in store.state().steps.items() if step.status.is_final}
    place = (steps.host.home, Path(settings.workspace))
    return expectation(place, steps.engine, settings.model, plan, settings.max_parallel, done)


def _replanning(steps: PlanSteps, kept_by: KeptBy) -> ReplanPolicy:
    """Return the policy for replanning."""
    context = step_context(steps.engine, steps.place, steps.services)
    config, settings, folder = steps.engine.config.planner, steps.store.settings, revisions_folder(steps.store.folder)
    return replan_policy(context, config, settings, folder=folder, kept_by=kept_by)


async def _width(run: HeldRun) -> int:
    """Return how many steps may run side by side, and warn if that is fewer than were asked for."""
    wanted = run.store.settings.max_parallel
    width = await anyio.to_thread.run_sync(steps_at_once, wanted)
    if width < wanted:
        message = (
            f"steps run {width} at once, not {wanted}: the limit of open files is too low; raise it with `ulimit -n`"
        )
        run.channel.sink.publish(WarningEvent(code="files.limit", message=message))
    return width
