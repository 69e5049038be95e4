"""Runs a plan, new or interrupted, from its document to its result record."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from ipc.events import WarningEvent
from ipc.sink import EventSink
from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, PlanStatus
from planner.run.control import PlanControl
from planner.state.decide import look
from planner.state.spending import Spending
from planner.state.state import RemovedStep
from planner.store.current_plan import open_decisions
from planner.store.store import PlanStore
from subagents.agent.budget import Account
from vibe.app.engine.event_publishing import publishing
from vibe.app.engine.host import Host
from vibe.app.engine.request_board import RequestBoard
from vibe.app.engine.result_record import RunRecord
from vibe.app.engine.signals import handled_signals
from vibe.app.engine.tool_servers import tool_servers
from vibe.app.plan.control_handler import PlanCommands
from vibe.app.plan.dispatch import Audience, HeldRun, dispatch_steps
from vibe.app.plan.prepare import PlanRunOptions, PreparedRun, prepare_new, prepare_resumed
from vibe.app.plan.result import broken_off_record, plan_record
from vibe.app.plan.step_executor import plan_limits
from vibe.app.plan.usage_history import earlier_spending, removed_from, revision_agents
from vibe.core.errors import EnvironmentFailure

TERMINATION_GRACE_SECONDS = 5.0
"""After SIGTERM: how long running steps have to reach the end of their turn. Callers kill after about ten."""

PAUSING = "pausing: running steps finish their turn first, an open question must be answered; Ctrl-C again stops now"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRun:
    """End of a run. ``workspace`` is where the work was done, ``open_decisions`` are those a paused plan waits for.

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
            attached = HeldRun(
                prepared=run, host=host, audience=audience, store=store, channel=channel, account=account
            )
            outcome = await dispatch_steps(attached, control, stack)
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


def _pausing(control: PlanControl, sink: EventSink) -> Callable[[signal.Signals, int], None]:
    """Return what a signal does: the first pauses, a further one stops what still runs.

    The plan can be resumed either way.
    """

    def on_signal(which: signal.Signals, count: int) -> None:
        first_interrupt = count == 1 and which is signal.SIGINT
        if first_interrupt:
            sink.publish(WarningEvent(code="pausing", message=PAUSING))
        grace = None if first_interrupt else TERMINATION_GRACE_SECONDS if count == 1 else 0.0
        control.request_pause(which.name, grace_seconds=grace)

    return on_signal


def _open_decisions(store: PlanStore) -> tuple[Decision, ...]:
    """Return what the plan waits for; reads files."""
    state, loaded = store.folder.state(), store.effective()
    return open_decisions(loaded.plan, look(state, loaded, store.settings.decisions))


def _removed(store: PlanStore) -> list[tuple[RemovedStep, Spending]]:
    """Return what revisions took out of the plan, and what that took; reads files."""
    state = store.folder.state()
    return removed_from(store.effective().plan, state, store.folder) if state.revisions else []


def _open_account(plan: Plan, store: PlanStore) -> Account:
    """The plan's account with all that earlier runs spent; reads files."""
    account = Account("the plan", plan_limits(plan))
    earlier = earlier_spending(plan, store.state(), store.folder)
    account.book(earlier.usage, earlier.cost_usd)
    return account
