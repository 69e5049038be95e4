"""Runs a plan, new or interrupted, from its document to its result record."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from ipc.events import WarningEvent
from ipc.sink import EventSink
from planner.plan.accepted_writes import accepted_writes
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import Decision, Plan, PlanStatus
from planner.run.control import PlanControl
from planner.run.dispatcher import Dispatcher, DispatchOptions
from planner.run.replanner import ReplanPolicy
from planner.run.watchdog import ActivitySink
from planner.state.decide import look
from planner.state.spending import Spending
from planner.state.state import RemovedStep
from planner.store.current_plan import open_decisions
from planner.store.folder import STEPS_FOLDER
from planner.store.outcome import RunResult
from planner.store.records import Approvals as ApprovalSetting
from planner.store.store import PlanStore
from subagents.agent.budget import Account
from subagents.agent.run_services import RunServices
from subagents.agent.spawner import SpawnPool, started_subagents
from subagents.executor import StepExecutor
from subagents.step.usage_recovery import attempt_spending
from subagents.worktree.failed_work import KeptBy
from vibe import __version__
from vibe.app.engine.event_publishing import Publishing, publishing
from vibe.app.engine.host import Host, steps_at_once
from vibe.app.engine.request_board import RequestBoard
from vibe.app.engine.result_record import RunRecord
from vibe.app.engine.signals import handled_signals
from vibe.app.engine.tool_servers import tool_servers
from vibe.app.plan.control_handler import PlanCommands
from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.prepare import PlanRunOptions, PreparedRun, prepare_new, prepare_resumed
from vibe.app.plan.replanning import replan_policy, step_limits_of
from vibe.app.plan.result import broken_off_record, plan_record
from vibe.app.plan.reuse import note_commit
from vibe.app.plan.rewind import recorded
from vibe.app.plan.step_context import StepPlace, step_context
from vibe.app.plan.step_executor import APPROVAL_MODES, PlanSteps, plan_limits, step_executor
from vibe.app.plan.usage_history import earlier_spending, removed_from, revision_agents, revisions_folder
from vibe.app.plan.worktrees import clear_worktrees, worktree_executor
from vibe.core.errors import EnvironmentFailure
from vibe.core.tools.ports import Approver
from vibe.core.tools.questions import UserInput

TERMINATION_GRACE_SECONDS = 5.0
"""After SIGTERM: how long running steps have to reach the end of their turn. Callers kill after about ten."""

PAUSING = "pausing: running steps finish their turn first, an open question must be answered; Ctrl-C again stops now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who watches a run from this process: ``listeners`` get every event.

    ``approver`` can say yes, ``user_input`` answers agents and ``decider`` takes the plan's decisions (None: nobody).
    ``waits``: decisions and approvals are waited for in any case; somebody answers them over the control address.
    """

    listeners: Sequence[EventSink] = ()
    approver: Approver | None = None
    user_input: UserInput | None = None
    decider: DecisionPrompter | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRun:
    """How a run ended. ``workspace`` is where the work was done, ``open_decisions`` are those a paused plan waits for.

    ``is_sample``: the workspace is a temporary copy of a demonstration's project.
    """

    record: RunRecord
    status: PlanStatus
    workspace: Path
    open_decisions: tuple[Decision, ...] = ()
    is_sample: bool = False


async def run_new_plan(loaded: LoadedPlan, options: PlanRunOptions, host: Host, audience: Audience) -> PlanRun:
    """Check that the plan can start, make its folder, and run it.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong; nothing was written.
        EnvironmentFailure, ipc.errors.IpcError: key, disk, lock or bus.
    """
    return await _carry_out(await anyio.to_thread.run_sync(prepare_new, loaded, options, host), host, audience)


async def resume_plan(reference: str, options: PlanRunOptions, host: Host, audience: Audience) -> PlanRun:
    """Go on with a plan whose process ended or that was paused; completed steps are not repeated.

    Decisions, model and approvals given now replace those of the first run.

    Raises:
        UsageError: no such plan, or it has ended.
        EnvironmentFailure, ipc.errors.IpcError: as ``run_new_plan``.
    """
    return await _carry_out(await anyio.to_thread.run_sync(prepare_resumed, reference, options, host), host, audience)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attached:
    """A run that holds its plan's folder and has a channel to be followed on; ``account`` pays for it."""

    prepared: PreparedRun
    host: Host
    audience: Audience
    store: PlanStore
    channel: Publishing
    account: Account


async def _carry_out(run: PreparedRun, host: Host, audience: Audience) -> PlanRun:
    """Open the bus, then the plan's folder (an address in use leaves nothing behind), and dispatch."""
    control = PlanControl()
    if audience.approver is None and not audience.waits:
        board = None
    else:
        board = RequestBoard(audience.approver)
        audience = replace(audience, approver=board)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(run.engine.models.aclose)
        opened = await stack.enter_async_context(
            publishing(host, audience.listeners, address=run.bus_address, control=PlanCommands(control, board))
        )
        signals = await stack.enter_async_context(handled_signals(host, _pausing(control, opened.sink)))
        store = stack.enter_context(await anyio.to_thread.run_sync(run.open_store))
        workspace = Path(store.settings.workspace)
        servers = await stack.enter_async_context(tool_servers(run.engine, host, workspace))
        channel = await opened.about(workspace, run.loaded.plan.goal, plan_id=store.plan_id)
        for warning in run.engine.warnings:
            channel.sink.publish(WarningEvent(code="start", message=warning))
        account = await anyio.to_thread.run_sync(_open_account, run.loaded.plan, store)
        try:
            run = replace(run, engine=await servers.equip(channel.sink))
            attached = _Attached(
                prepared=run, host=host, audience=audience, store=store, channel=channel, account=account
            )
            outcome = await _dispatch(attached, control, stack)
            if weakness := run.engine.confinement.weakness:
                channel.sink.publish(WarningEvent(code="sandbox", message=weakness))
        except EnvironmentFailure as error:
            spent = Spending(account.usage, account.cost_usd)
            record = broken_off_record(error, store.plan_id, channel, run.engine.warnings, spent)
            return PlanRun(record=record, status=PlanStatus.PAUSED, workspace=workspace)
        # The account also knows what attempts took that were cancelled and so have no result of their own.
        outcome = replace(outcome, usage=account.usage, cost_usd=account.cost_usd)
        revisers = await anyio.to_thread.run_sync(revision_agents, store.folder)
        removed = await anyio.to_thread.run_sync(_removed, store)
        record = plan_record(outcome, channel, run.engine.warnings, signals.exit_code, revisers, removed)
        waiting = await anyio.to_thread.run_sync(_open_decisions, store) if outcome.status is PlanStatus.PAUSED else ()
    return PlanRun(
        record=record,
        status=outcome.status,
        workspace=workspace,
        open_decisions=waiting,
        is_sample=store.settings.sample,
    )


async def _dispatch(run: _Attached, control: PlanControl, stack: AsyncExitStack) -> RunResult:
    """Have every step done that can be: in this process or in others, in the shared workspace or in worktrees.

    ``stack`` closes what that takes, after a failure has become a record: task groups would wrap it.
    """
    prepared, store, sink = run.prepared, run.store, run.channel.sink
    engine, plan = prepared.engine, prepared.loaded.plan
    activity = ActivitySink(sink)
    steps = await anyio.to_thread.run_sync(_plan_steps, run, activity)
    inner = await stack.enter_async_context(step_executor(steps))
    worktrees = await stack.enter_async_context(worktree_executor(inner, store, engine, run.host, activity))
    await worktrees.recover()
    executor = recorded(worktrees, store, plan, engine.environ, sink)
    width = await _width(store.settings.max_parallel, run.channel.sink)
    dispatcher = _dispatcher(run, executor, _dispatch_options(run, steps, activity, worktrees.kept), width)
    if run.audience.decider is not None:
        await stack.enter_async_context(run.audience.decider.at_work(control))
    if run.host.owns_process:
        gc.freeze()  # what is there now lives to the end of the run: never look through thousands of steps again
    outcome = await dispatcher.run(control)
    await clear_worktrees(worktrees, outcome, sink)
    await anyio.to_thread.run_sync(note_commit, store, engine.environ)
    return outcome


def _plan_steps(run: _Attached, activity: ActivitySink) -> PlanSteps:
    """What steps are done with; reads files."""
    store, engine = run.store, run.prepared.engine
    started = started_subagents(store.folder.path / STEPS_FOLDER)
    settings = store.settings
    return PlanSteps(
        plan=run.prepared.loaded.plan,
        store=store,
        host=run.host,
        engine=engine,
        place=StepPlace(
            workspace=settings.workspace,
            model=settings.model,
            sample=settings.sample,
            session_id=run.channel.session_id,
            accepted_writes=_accepted_writes(store),
        ),
        services=RunServices(
            sink=activity,
            account=run.account,
            approvals=engine.approvals(APPROVAL_MODES[settings.approvals], run.audience.approver),
            spawning=SpawnPool(engine.agents, engine.config.subagents, spawned=started),
            limiter_of=engine.models.limiter,
            user_input=run.audience.user_input,
        ),
    )


def _accepted_writes(store: PlanStore) -> frozenset[str]:
    """The files steps may edit unasked, as whoever ran the plan accepted; reads files."""
    if not store.settings.accept_writes:
        return frozenset()
    accepted = load_plan(store.folder.source(), where=store.plan_id).plan
    return accepted_writes(accepted, store.state().revisions)


def _dispatch_options(run: _Attached, steps: PlanSteps, activity: ActivitySink, kept_by: KeptBy) -> DispatchOptions:
    store = run.store
    return DispatchOptions(
        activity=activity,
        step_limits=step_limits_of(steps.engine.config),
        attended=run.audience.waits or run.audience.decider is not None,
        version=__version__,
        replanning=_replanning(steps, kept_by),
        spent_by=lambda step_id, attempt: attempt_spending(store.folder.step_folder(step_id), attempt),
    )


def _pausing(control: PlanControl, sink: EventSink) -> Callable[[signal.Signals, int], None]:
    """What a signal does: the first pauses, a further one stops what still runs; the plan can be resumed either way."""

    def on_signal(which: signal.Signals, count: int) -> None:
        first_interrupt = count == 1 and which is signal.SIGINT
        if first_interrupt:
            sink.publish(WarningEvent(code="pausing", message=PAUSING))
        grace = None if first_interrupt else TERMINATION_GRACE_SECONDS if count == 1 else 0.0
        control.request_pause(which.name, grace_seconds=grace)

    return on_signal


def _open_decisions(store: PlanStore) -> tuple[Decision, ...]:
    """What the plan waits for; reads files."""
    state, loaded = store.folder.state(), store.effective()
    return open_decisions(loaded.plan, look(state, loaded, store.settings.decisions))


def _removed(store: PlanStore) -> list[tuple[RemovedStep, Spending]]:
    """What revisions took out of the plan, and what that took; reads files."""
    state = store.folder.state()
    return removed_from(store.effective().plan, state, store.folder) if state.revisions else []


def _open_account(plan: Plan, store: PlanStore) -> Account:
    """The plan's account with all that earlier runs spent; reads files."""
    account = Account("the plan", plan_limits(plan))
    earlier = earlier_spending(plan, store.state(), store.folder)
    account.book(earlier.usage, earlier.cost_usd)
    return account


def _replanning(steps: PlanSteps, kept_by: KeptBy) -> ReplanPolicy:
    """Who mends the plan; new commands run only where all that no rule denies does."""
    context = step_context(steps.engine, steps.place, steps.services)
    unread = steps.store.settings.approvals is ApprovalSetting.AUTO
    folder = revisions_folder(steps.store.folder)
    return replan_policy(context, steps.engine.config.planner, new_commands=unread, folder=folder, kept_by=kept_by)


async def _width(wanted: int, sink: EventSink) -> int:
    """How many steps may run side by side; said where it is fewer than was asked for."""
    width = await anyio.to_thread.run_sync(steps_at_once, wanted)
    if width < wanted:
        message = (
            f"at most {width} steps run side by side, not {wanted}: the limit of open files is too low; "
            "raise it with `ulimit -n`"
        )
        sink.publish(WarningEvent(code="files.limit", message=message))
    return width


def _dispatcher(run: _Attached, executor: StepExecutor, options: DispatchOptions, width: int) -> Dispatcher:
    return Dispatcher(
        loaded=run.prepared.loaded,
        width=width,
        executor=executor,
        store=run.store,
        sink=run.channel.sink,
        options=options,
    )
