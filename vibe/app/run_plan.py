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
from planner.control import PlanControl
from planner.dispatcher import Dispatcher, DispatchOptions
from planner.idle import ActivitySink
from planner.loader import LoadedPlan
from planner.model import Plan, PlanStatus
from planner.records import Approvals as ApprovalSetting
from planner.replay import Spending
from planner.scheduler import Scheduler
from planner.store import PlanStore
from subagents.budget import Account, Limits
from subagents.local import LocalExecutor
from subagents.spawner import SpawnPool
from subagents.subagent import Surroundings
from vibe import __version__
from vibe.app.host import Host
from vibe.app.plan_ledger import earlier_spending
from vibe.app.plan_record import broken_off_record, plan_record
from vibe.app.plan_start import PlanRunOptions, PreparedRun, prepare_new, prepare_resumed
from vibe.app.publishing import Publishing, publishing
from vibe.app.result_record import RunRecord
from vibe.app.signals import handled_signals
from vibe.app.tool_servers import tool_servers
from vibe.core.errors import EnvironmentFailure
from vibe.core.guidance import Guidance
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver
from vibe.core.tools.workspace import Workspace

TERMINATION_GRACE_SECONDS = 5.0
"""After SIGTERM: how long running steps have to reach the end of their turn. Callers kill after about ten."""

PAUSING = "pausing: running steps finish their turn first; Ctrl-C again stops them now"

APPROVAL_MODES = {
    ApprovalSetting.ASK: ApprovalMode.ASK,
    ApprovalSetting.EDITS: ApprovalMode.EDITS,
    ApprovalSetting.AUTO: ApprovalMode.ALL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who watches a run from this process: ``listeners`` get every event, ``approver`` can say yes (None: nobody)."""

    listeners: Sequence[EventSink] = ()
    approver: Approver | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRun:
    """How a run ended. ``workspace`` is where the work was done."""

    record: RunRecord
    status: PlanStatus
    workspace: Path


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


async def _carry_out(run: PreparedRun, host: Host, audience: Audience) -> PlanRun:
    """Open the bus, then the plan's folder (an address in use leaves nothing behind), and dispatch."""
    control = PlanControl()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(run.engine.models.aclose)
        opened = await stack.enter_async_context(publishing(host, audience.listeners, address=run.bus_address))
        signals = await stack.enter_async_context(handled_signals(_pausing(control, opened.sink)))
        store = stack.enter_context(await anyio.to_thread.run_sync(run.open_store))
        workspace = Path(store.settings.workspace)
        servers = await stack.enter_async_context(tool_servers(run.engine, host, workspace))
        channel = await opened.about(workspace, run.loaded.plan.goal, plan_id=store.plan_id)
        for warning in run.engine.warnings:
            channel.sink.publish(WarningEvent(code="start", message=warning))
        account = await anyio.to_thread.run_sync(_open_account, run.loaded.plan, store)
        try:
            run = replace(run, engine=await servers.equip(channel.sink))
            dispatcher = _dispatcher(run, store, channel, audience, account)
            gc.freeze()  # what is there now lives to the end of the run: never look through thousands of steps again
            outcome = await dispatcher.run(control)
        except EnvironmentFailure as error:
            spent = Spending(account.usage, account.cost_usd)
            record = broken_off_record(error, store.plan_id, channel, run.engine.warnings, spent)
            return PlanRun(record=record, status=PlanStatus.PAUSED, workspace=workspace)
        # The account also knows what attempts took that were cancelled and so have no result of their own.
        outcome = replace(outcome, usage=account.usage, cost_usd=account.cost_usd)
        record = plan_record(outcome, channel, run.engine.warnings, signals.exit_code)
    return PlanRun(record=record, status=outcome.status, workspace=workspace)


def _pausing(control: PlanControl, sink: EventSink) -> Callable[[signal.Signals, int], None]:
    """What a signal does: the first pauses, a further one stops what still runs; the plan can be resumed either way."""

    def on_signal(which: signal.Signals, count: int) -> None:
        first_interrupt = count == 1 and which is signal.SIGINT
        if first_interrupt:
            sink.publish(WarningEvent(code="pausing", message=PAUSING))
        grace = None if first_interrupt else TERMINATION_GRACE_SECONDS if count == 1 else 0.0
        control.request_pause(which.name, grace_seconds=grace)

    return on_signal


def _open_account(plan: Plan, store: PlanStore) -> Account:
    """The plan's account with all that earlier runs spent; reads files."""
    account = Account("the plan", _limits(plan))
    earlier = earlier_spending(plan, store.replay(), store.folder)
    account.book(earlier.usage, earlier.cost_usd)
    return account


def _dispatcher(
    run: PreparedRun, store: PlanStore, channel: Publishing, audience: Audience, account: Account
) -> Dispatcher:
    plan, settings, restored = run.loaded.plan, store.settings, store.replay()
    activity = ActivitySink(channel.sink)
    surroundings = Surroundings(
        models=run.engine.models,
        default_model=settings.model,
        tools=run.engine.tools,
        workspace=Workspace(root=Path(settings.workspace)),
        approvals=run.engine.approvals(APPROVAL_MODES[settings.approvals], audience.approver),
        sink=activity,
        account=account,
        base_prompt=run.engine.base_prompt,
        guidance=Guidance() if settings.sample else replace(run.engine.guidance, session_id=channel.session_id),
        environ=run.engine.environ,
        agents=run.engine.agents,
        confinement=run.engine.confinement,
        spawning=SpawnPool(run.engine.agents, run.engine.config.subagents),
    )
    scheduler = Scheduler(
        plan,
        run.loaded.dag,
        max_parallel=settings.max_parallel,
        fail_fast=settings.fail_fast,
        restored=restored.steps,
        decisions={**settings.decisions, **restored.decisions},
        wait_for_decisions=True,
    )
    return Dispatcher(
        plan=plan,
        scheduler=scheduler,
        executor=LocalExecutor(surroundings, store.step_folder),
        store=store,
        sink=channel.sink,
        options=DispatchOptions(activity=activity, version=__version__),
    )


def _limits(plan: Plan) -> Limits:
    budget = plan.budget
    return Limits(max_tokens=budget.max_tokens, max_price=budget.max_price) if budget else Limits()
