"""Runs a plan, new or interrupted, from its document to its result record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from ipc.events import WarningEvent
from ipc.sink import EventSink
from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, PlanStatus
from planner.run.control import PlanControl
from planner.state.decide import look
from planner.state.state import RemovedStep
from planner.store.current_plan import open_decisions
from planner.store.store import PlanStore
from subagents.agent.budget import Account
from subagents.agent.steering import Steering
from vibe.app.engine.event_publishing import publishing
from vibe.app.engine.host import Host
from vibe.app.engine.request_board import RequestBoard
from vibe.app.engine.result_record import RunRecord
from vibe.app.engine.tool_servers import tool_servers
from vibe.app.plan.control_handler import plan_router
from vibe.app.plan.dispatch import Audience, HeldRun, dispatch_steps
from vibe.app.plan.prepare import PlanRunOptions, PreparedRun, prepare_new, prepare_resumed
from vibe.app.plan.result import broken_off_record, plan_record
from vibe.app.plan.step_executor import plan_limits
from vibe.app.plan.usage_history import earlier_spending, removed_from, revision_agents
from vibe.core.messages import Spending
from vibe.system.errors import EnvironmentFailure


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

    def after_signal(self, exit_code: int | None) -> PlanRun:
        """Return the same, if a signal with this exit code came while it ran (None: none did)."""
        return replace(self, record=self.record.after_signal(exit_code))


class PlanSession:
    """One run of a plan, and the control over it, which takes commands before the run, too.

    It owns neither signals nor the process; several may run side by side in one process, each on its own workspace.
    """

    def __init__(self, prepared: PreparedRun, host: Host, audience: Audience) -> None:
        self.control = PlanControl()
        """Pauses and cancels the run, decides, revises the plan, and acts on single steps."""
        self.steering = Steering()
        """Sends messages to the agents of running steps."""
        self.plan_id: str | None = None
        """The plan's id, once it has one."""
        self._prepared = prepared
        self._host = host
        self._audience = audience
        self._sink: EventSink | None = None

    @property
    def plan(self) -> Plan:
        """The plan as it was opened."""
        return self._prepared.loaded.plan

    def warn(self, code: str, message: str) -> None:
        """Announce something to those who watch the run; without effect before it began."""
        if self._sink is not None:
            self._sink.publish(WarningEvent(code=code, message=message))

    async def run(self, before_start: Callable[[], object] | None = None) -> PlanRun:
        """Run the plan until it ends or pauses; ``before_start`` is called when all is ready, before the first step.

        Raises:
            UsageError: the plan has ended, or its workspace is in use.
            EnvironmentFailure, ipc.errors.IpcError: key, disk, lock or bus.
        """
        run, host, audience, control = self._prepared, self._host, self._audience, self.control
        audience, board = _asking(audience)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(run.engine.models.aclose)
            opened = await stack.enter_async_context(
                publishing(
                    host,
                    audience.listeners,
                    address=run.bus_address,
                    named=run.engine.config.ipc.listeners,
                    control=plan_router(control, board, self.steering),
                )
            )
            self._sink = opened.sink
            store = stack.enter_context(await anyio.to_thread.run_sync(run.open_store))
            self.plan_id = store.plan_id
            workspace = Path(store.settings.workspace)
            name = f"plan {store.plan_id}"
            hold = await anyio.to_thread.run_sync(host.workspaces.enter, workspace, name)
            stack.callback(hold.release)
            hold.writing = True
            servers = await stack.enter_async_context(
                tool_servers(run.engine, host, workspace, attended=audience.user_input is not None)
            )
            channel = await opened.about(workspace, run.loaded.plan.goal, plan_id=store.plan_id)
            for warning in run.engine.warnings:
                channel.sink.publish(WarningEvent(code="start", message=warning))
            account = await anyio.to_thread.run_sync(_open_account, run.loaded.plan, store)
            try:
                run = replace(run, engine=await servers.equip(channel.sink))
                attached = HeldRun(
                    prepared=run,
                    host=host,
                    audience=audience,
                    store=store,
                    channel=channel,
                    account=account,
                    steering=self.steering,
                    turn=host.turn([workspace], name),
                )
                if weakness := run.engine.confinement.weakness:
                    channel.sink.publish(WarningEvent(code="sandbox", message=weakness))
                outcome = await dispatch_steps(attached, control, stack, before_start)
            except EnvironmentFailure as error:
                record = broken_off_record(error, store.plan_id, channel, run.engine.warnings, account)
                return PlanRun(record=record, status=PlanStatus.PAUSED, workspace=workspace)
            # The account also knows what attempts took that were cancelled and so have no result of their own.
            outcome = replace(outcome, usage=account.usage, cost_usd=account.cost_usd)
            revisers = await anyio.to_thread.run_sync(revision_agents, store.folder)
            removed = await anyio.to_thread.run_sync(_removed, store)
            record = plan_record(outcome, channel, run.engine.warnings, revisers, removed)
            waiting = (
                await anyio.to_thread.run_sync(_open_decisions, store) if outcome.status is PlanStatus.PAUSED else ()
            )
        return PlanRun(
            record=record,
            status=outcome.status,
            workspace=workspace,
            open_decisions=waiting,
            is_sample=store.settings.sample,
        )


async def open_plan(plan: LoadedPlan | str, options: PlanRunOptions, host: Host, audience: Audience) -> PlanSession:
    """Check that a plan can start, or, given its id, that it can go on; nothing is written and nothing run.

    One that goes on repeats no completed step; decisions, model and approvals in ``options`` replace those it had.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong; there is no such plan, or it has ended.
        EnvironmentFailure: a key is missing, or a file can't be read.
    """
    prepare = partial(prepare_resumed, plan) if isinstance(plan, str) else partial(prepare_new, plan)
    host = host.as_writer()
    return PlanSession(await anyio.to_thread.run_sync(prepare, options, host), host, audience)


def _asking(audience: Audience) -> tuple[Audience, RequestBoard | None]:
    """Return the audience whose requests a board puts to everyone, and that board (None: there are no requests)."""
    if audience.approver is None and audience.user_input is None and not audience.waits:
        return audience, None
    board = RequestBoard.before(audience.approver, audience.user_input)
    approver = board if audience.approver or audience.waits else None
    user_input = board.ask if audience.user_input or audience.waits else None
    return replace(audience, listeners=[board, *audience.listeners], approver=approver, user_input=user_input), board


def _open_decisions(store: PlanStore) -> tuple[Decision, ...]:
    """Return what the plan waits for; reads files."""
    state, loaded = store.folder.state(), store.effective()
    return open_decisions(loaded.plan, look(state, loaded, store.settings.decisions))


def _removed(store: PlanStore) -> list[tuple[RemovedStep, Spending]]:
    """Return what revisions took out of the plan, and what that took; reads files."""
    state = store.folder.state()
    return removed_from(store.effective().plan, state, store.folder) if state.revisions else []


def _open_account(plan: Plan, store: PlanStore) -> Account:
    """Return the plan's account, charged with the spending of earlier runs; reads files."""
    account = Account("the plan", plan_limits(plan))
    earlier = earlier_spending(plan, store.state(), store.folder)
    account.book(earlier.usage, earlier.cost_usd)
    return account
