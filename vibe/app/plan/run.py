"""Runs a plan, new or resumed, from its document to its result record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, structs

from ipc.events import Fact, WarningEvent
from planner.plan.diagnostics import listed
from planner.plan.loader import LoadedPlan
from planner.plan.model import Decision, Plan, PlanStatus, StepStatus
from planner.run.control import PlanControl
from planner.state.decide import break_off
from planner.state.outcome import BAD_END, RunResult, result_of
from planner.state.schedule import align_steps, schedule_of
from planner.state.state import BUDGET_REASON, State
from planner.store.current_plan import effective_plan, open_decisions
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, PlanRunOptions
from planner.store.store import PlanStore
from subagents.agent.budget import Account
from subagents.agent.steering import Steering
from subagents.executor import until_requested
from subagents.step_result import ENVIRONMENT_REASON
from vibe.app.engine.event_publishing import Publishing, publishing
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import RunRecord, exit_code_of
from vibe.app.engine.tool_servers import ToolServers, tool_servers
from vibe.app.plan.control_handler import plan_router
from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.dispatch import Audience, HeldRun, dispatch_steps
from vibe.app.plan.prepare import PreparedRun, prepare_new, prepare_resumed
from vibe.app.plan.step_executor import agents_to_come, plan_limits
from vibe.app.plan.usage_history import earlier_spending, removed_steps, revision_agents
from vibe.core.messages import Outcome
from vibe.system.errors import EnvironmentFailure
from vibe.system.racing import unless


class PlanRun(Struct, frozen=True, kw_only=True):
    """The end of a run.

    ``workspace`` is where the work was done; ``open_decisions`` are those that a paused plan waits for.

    With ``is_sample``, the workspace is a temporary copy of a demonstration's project.
    """

    record: RunRecord
    status: PlanStatus
    workspace: Path
    open_decisions: tuple[Decision, ...] = ()
    is_sample: bool = False


class PlanSession:
    """One run of a plan, and the control over it, which takes commands even before the run.

    It owns neither signals nor the process. Several may run side by side in one process, each in its own workspace.
    """

    def __init__(self, prepared: PreparedRun, host: Host, audience: Audience) -> None:
        self._audience, board = audience.with_board(waits=audience.waits)
        self.control = PlanControl()
        """Pauses and cancels the run, takes decisions, revises the plan, and acts on single steps."""
        self.steering = Steering()
        """Sends messages to the agents of running steps."""
        self.plan = prepared.loaded.plan
        """The plan as it was opened."""
        self.plan_id: str | None = None
        """The plan's id, once it has one."""
        self.commands = plan_router(self.control, board, self.steering)
        """Carries out what others ask of the run."""
        self.channel: Publishing | None = None
        """The channel of its events, once it runs."""
        self._prepared = prepared
        self._host = host

    async def run(self, before_start: Callable[[], object] | None = None) -> PlanRun:
        """Run the plan until it ends or pauses. ``before_start`` is called when all is ready, before the first step.

        Raises:
            UsageError: the plan has ended, or its workspace is in use.
            EnvironmentFailure, ipc.errors.IpcError: a key is missing, or the disk, a lock or the bus refuses.
        """
        run, host, audience = self._prepared, self._host, self._audience
        started, problem = anyio.current_time(), ""
        decider = None if audience.decide is None else DecisionPrompter(audience.decide)
        listeners = [*audience.listeners, *([] if decider is None else [decider])]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(run.engine.aclose)
            bus = publishing(host, run.engine.config, listeners, address=run.options.bus_address, control=self.commands)
            opened = self.channel = await stack.enter_async_context(bus)
            store = stack.enter_context(await anyio.to_thread.run_sync(run.open_store))
            self.plan_id = store.plan_id
            workspace = Path(store.settings.workspace)
            name = f"plan {store.plan_id}"
            hold = await anyio.to_thread.run_sync(host.workspaces.enter, workspace, name)
            stack.callback(host.workspaces.leave, hold)
            hold.writing = True
            starting = tool_servers(run.engine, host, workspace, attended=audience.user_input is not None)
            servers = await stack.enter_async_context(starting)
            channel = await opened.about(workspace, run.loaded.plan.goal, plan_id=store.plan_id)
            for warning in run.engine.warnings:
                channel.sink.publish(WarningEvent(code="start", message=warning))
            state, folder = await anyio.to_thread.run_sync(store.state), store.folder
            account = await anyio.to_thread.run_sync(_open_account, run.loaded.plan, store)
            held = HeldRun(
                prepared=run,
                host=host,
                audience=audience,
                decider=decider,
                store=store,
                channel=channel,
                account=account,
                steering=self.steering,
                turn=host.turn([workspace], name),
            )
            try:
                outcome = await self._equip_and_dispatch(held, servers, stack, before_start)
            except Exception as error:
                elapsed = anyio.current_time() - started
                state, outcome, facts = await anyio.to_thread.run_sync(_broken_off, store, state, elapsed)
                for fact in facts:
                    channel.sink.publish(fact)
                if not isinstance(error, EnvironmentFailure):
                    raise
                problem = str(error)
            # The account also counts cancelled attempts, which have no result of their own.
            outcome = structs.replace(outcome, usage=account.usage, cost_usd=account.cost_usd)
            run = self._prepared  # with what the servers' start had to say
            record = await anyio.to_thread.run_sync(plan_record, outcome, channel, run.engine.warnings, state, folder)
            if problem:
                record = structs.replace(record, result=problem, detail=problem)
            is_waiting = outcome.status is PlanStatus.PAUSED and not problem
            waiting = await anyio.to_thread.run_sync(_open_decisions, store) if is_waiting else ()
        is_sample = store.settings.sample
        return PlanRun(
            record=record, status=outcome.status, workspace=workspace, open_decisions=waiting, is_sample=is_sample
        )

    async def _equip_and_dispatch(
        self, run: HeldRun, servers: ToolServers, stack: AsyncExitStack, before_start: Callable[[], object] | None
    ) -> RunResult:
        """Give the agents the servers' tools, unless the run is to stop before these are there, and run the steps."""
        equip = partial(servers.equip, run.channel.sink, waits=agents_to_come(self.plan, run.store) > 0)
        for engine in await unless(partial(until_requested, self.control), equip):
            self._prepared = structs.replace(run.prepared, engine=engine)
        if weakness := run.prepared.engine.confinement.weakness:
            run.channel.sink.publish(WarningEvent(code="sandbox", message=weakness))
        return await dispatch_steps(structs.replace(run, prepared=self._prepared), self.control, stack, before_start)


async def open_plan(plan: LoadedPlan | str, options: PlanRunOptions, host: Host, audience: Audience) -> PlanSession:
    """Check that a plan can start or, given its id, be resumed. Nothing is written and nothing is run.

    A resumed plan repeats no completed step. Decisions, model and approvals in ``options`` replace the ones it had.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong, there is no such plan, or it has ended.
        EnvironmentFailure: a key is missing, or a file can't be read.
    """
    prepare = partial(prepare_resumed, plan) if isinstance(plan, str) else partial(prepare_new, plan)
    host = host.as_writer()
    return PlanSession(await anyio.to_thread.run_sync(prepare, options, host), host, audience)


def _open_decisions(store: PlanStore) -> tuple[Decision, ...]:
    """Return the decisions that the plan waits for. Reads files."""
    loaded, state = store.preview()
    return open_decisions(loaded.plan, state)


def _open_account(plan: Plan, store: PlanStore) -> Account:
    """Return the plan's account, charged with the spending of earlier runs. Reads files."""
    account = Account("the plan", plan_limits(plan))
    earlier = earlier_spending(store.state(), store.folder)
    account.book(earlier.usage, earlier.cost_usd)
    return account


def plan_record(
    outcome: RunResult, channel: Publishing, warnings: Sequence[str], state: State, folder: PlanFolder
) -> RunRecord:
    """Return the record that a run prints at its end. Reads files."""
    refused = outcome.status is PlanStatus.PAUSED and outcome.outcome is Outcome.FAILED  # by a provider or by the OS
    return RunRecord(
        outcome=outcome.outcome,
        exit_code=exit_code_of(outcome.outcome, unserved=refused or channel.bus.failed),
        reason=outcome.reason,
        session_id=channel.session_id,
        plan_id=outcome.plan_id,
        result=_closing_text(outcome),
        steps=outcome.steps,
        removed_steps=removed_steps(state, folder),
        agents=[
            *((step.id, agent) for step in outcome.steps if step.result for agent in step.result.agents),
            *revision_agents(folder),
        ],
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        duration_s=outcome.duration_s,
        denied=[denial for step in outcome.steps if step.result for denial in step.result.denied],
        warnings=channel.warnings((*warnings, *outcome.warnings)),
    )


def _broken_off(store: PlanStore, state: State, duration_s: float) -> tuple[State, RunResult, list[Fact]]:
    """Return the state and result of a run that can't record its end, and the facts that tell it. Reads files.

    ``state`` is the run's own, which may be ahead of what was recorded. It counts if that can't be read back.
    """
    try:
        recorded = store.folder.state()
        state, plan = recorded, effective_plan(store.folder, recorded).plan
    except BrokenPlanError:
        if state.schedule is None:  # nothing has begun
            raise
        plan = schedule_of(state).plan
    align_steps(state, plan)
    facts = break_off(state, time.time())
    return state, result_of(state, plan, store.dropped, duration_s), facts if state.attached else []


def _closing_text(outcome: RunResult) -> str:
    """Return the summary of the last completed step if the plan completed, else the reason why it did not."""
    if outcome.status is PlanStatus.COMPLETED:
        done = [step.result for step in outcome.steps if step.status is StepStatus.COMPLETED and step.result]
        return done[-1].summary if done else ""
    words = BAD_END if outcome.status is not PlanStatus.CANCELLED else {StepStatus.FAILED: "failed"}
    spoilt = [step for step in outcome.steps if step.status in words and not step.tolerated and not step.pattern]
    if spoilt:
        return "; ".join(f"step {step.id!r} {words[step.status]}: {step.detail or step.reason}" for step in spoilt)
    cut = [step for step in outcome.steps if not step.status.is_final and step.reason == outcome.reason]
    if outcome.reason == ENVIRONMENT_REASON and cut:
        return f"{outcome.status.value}: {cut[0].detail}, then resume the plan"
    named = f" (max_seconds), at work: {listed(step.id for step in cut)}" if outcome.reason == BUDGET_REASON else ""
    return f"{outcome.status.value}: {outcome.reason or 'no reason given'}{named}"
