"""Has a plan written for a goal: ``vibe plan new``. Nothing is run and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from ipc.events import SessionEndedEvent, SessionStartedEvent, WarningEvent
from ipc.sink import EventSink
from planner.author.output_repair import Repaired
from planner.author.planner_agent import CALLER, Draft, PlannerAgent, PlanningLimits
from planner.plan.estimate import estimate, notes
from subagents.agent.budget import Account, Limits
from subagents.agent.run_context import AgentContext, RunContext
from vibe import __version__
from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.event_publishing import Publishing, publishing
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import AgentRecord, RunRecord, exit_code_of
from vibe.app.engine.signals import handled_signals
from vibe.app.plan.replanning import check_enabled, limits_of, step_limits_of
from vibe.core.config.models import ModelConfig
from vibe.core.llm.errors import ModelAccessError
from vibe.core.outcome import Outcome
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.questions import UserInput

TITLE_LENGTH = 80
"""The provider refuses the key, or events could not be recorded: the environment can't serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlanRequest:
    """A goal and how far to go for it. None: as configured; ``max_price`` in USD."""

    goal: str
    workdir: Path
    model: str | None = None
    max_tokens: int | None = None
    max_price: float | None = None
    trust: bool = False
    bus_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """Result of writing a plan. ``plan`` is None if there is none; ``notes`` are what to know before it runs."""

    record: RunRecord
    plan: Repaired | None
    notes: tuple[str, ...]


async def new_plan(
    request: NewPlanRequest, host: Host, listeners: Sequence[EventSink], user_input: UserInput | None = None
) -> NewPlan:
    """Have the plan written; what goes wrong with that is in the record. ``user_input`` None: nobody is there to ask.

    Raises:
        UsageError: a flag or the configuration is wrong.
        EnvironmentFailure, ipc.errors.IpcError: key, disk or bus.
    """
    engine, model, limits = await anyio.to_thread.run_sync(_prepare, request, host)
    try:
        address = request.bus_address or engine.config.ipc.address
        scope = anyio.CancelScope()
        async with (
            handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
            publishing(host, listeners, address=address) as opened,
        ):
            channel = await opened.about(request.workdir, request.goal[:TITLE_LENGTH])
            channel.sink.publish(
                SessionStartedEvent(workspace=str(request.workdir), model=model.key, agent=CALLER, version=__version__)
            )
            for warning in engine.warnings:
                channel.sink.publish(WarningEvent(code="start", message=warning))
            context = _context(request, engine, limits, channel, user_input)
            started = time.monotonic()
            draft: Draft | None = None
            with scope:
                draft = await PlannerAgent(context, limits).plan(request.goal)
            record = _record(draft, engine, context.account, channel, signals.exit_code)
            record = replace(record, duration_s=time.monotonic() - started)
            channel.sink.publish(SessionEndedEvent(outcome=record.outcome.value, exit_code=record.exit_code))
        return _made(draft, record, engine)
    finally:
        await engine.models.aclose()


def _prepare(request: NewPlanRequest, host: Host) -> tuple[Engine, ModelConfig, PlanningLimits]:
    """See that planning can start; reads files."""
    engine = build_engine(host, EngineRequest(workdir=request.workdir, trust=request.trust, snapshot=True))
    check_enabled(engine, "vibe plan new")
    model = engine.models.resolve_priced(request.model) if request.max_price else engine.models.resolve(request.model)
    engine.models.backend(model)
    limits = limits_of(engine.config.planner, max_tokens=request.max_tokens, max_price=request.max_price)
    return engine, model, limits


def _context(
    request: NewPlanRequest,
    engine: Engine,
    limits: PlanningLimits,
    channel: Publishing,
    user_input: UserInput | None,
) -> AgentContext:
    return AgentContext(
        run=RunContext(base_prompt=engine.base_prompt),
        models=engine.models,
        default_model=request.model,
        tools=engine.tools,
        workspace=engine.workspace(request.workdir),
        approvals=engine.approvals(ApprovalMode.ASK, None),
        sink=channel.sink,
        account=Account("this run", Limits(max_tokens=limits.max_tokens, max_price=limits.max_price)),
        environ=engine.environ,
        guidance=replace(engine.guidance, session_id=channel.session_id),
        user_input=user_input,
    )


def _made(draft: Draft | None, record: RunRecord, engine: Engine) -> NewPlan:
    plan = draft.plan if draft else None
    if plan is None:
        return NewPlan(record=record, plan=None, notes=())
    at_once = plan.loaded.plan.max_parallel_steps or engine.config.planner.max_parallel_steps
    usual = step_limits_of(engine.config)
    found = estimate(plan.loaded.plan, plan.loaded.dag, max_parallel=at_once, usual=usual)
    return NewPlan(record=record, plan=plan, notes=notes(found))


def _record(
    draft: Draft | None, engine: Engine, account: Account, channel: Publishing, signal_exit: int | None
) -> RunRecord:
    acted = draft.acted if draft else None
    outcome = acted.outcome if acted else Outcome.INTERRUPTED
    refused = acted is not None and isinstance(acted.error, ModelAccessError) and outcome is Outcome.FAILED
    agent = AgentRecord(
        agent_id=channel.session_id, parent_id=None, step_id=None, usage=account.usage, cost_usd=account.cost_usd
    )
    repairs = draft.plan.repairs if draft and draft.plan else ()
    return RunRecord(
        outcome=outcome,
        exit_code=exit_code_of(outcome, signal_exit, unserved=refused or channel.bus.failed),
        reason=acted.reason if acted else "stopped",
        detail=acted.detail if acted else "stopped before there was a plan",
        session_id=channel.session_id,
        result=acted.text if acted else "",
        duration_s=0.0,
        usage=account.usage,
        cost_usd=account.cost_usd,
        agents=[agent],
        denied=acted.denied if acted else (),
        warnings=channel.warnings((*engine.warnings, *repairs)),
    )
