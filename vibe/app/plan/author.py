"""Runs in which a model plans: ``vibe plan new`` and ``edit --ask``. No plan is run, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field, structs

from ipc.events import SessionEndedEvent, SessionStartedEvent, WarningEvent
from ipc.sink import EventSink
from planner.author.planner_agent import CALLER, PlanningLimits, ProposedChange
from subagents.agent.budget import Account, Limits
from subagents.agent.run_context import AgentContext, RunContext
from subagents.step_result import AgentUsage
from vibe import __version__
from vibe.app.conversation.control import route_messages
from vibe.app.conversation.opening import TITLE_LENGTH, PromptResult
from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.command_router import CommandRouter
from vibe.app.engine.event_publishing import Publishing, publishing
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.replanning import check_enabled, limits_of
from vibe.app.plan.usage_history import PlanningLog, expectation
from vibe.core.agent_loop import ActResult
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Outcome
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.questions import UserInput
from vibe.system.errors import explained_by


class PlanningRequest(Struct, frozen=True, kw_only=True):
    """Options of a planning run: goal, folder and limits (None: as configured; ``max_price`` in USD).

    ``subject`` is its title: the goal, or the sentence that changes a plan. ``wanted_by`` is the command that asks for
    a model to plan.
    """

    subject: str
    workdir: Path
    model: str | None = None
    max_tokens: int | None = None
    max_price: float | None = None
    trust: bool = False
    bus_address: str | None = None
    wanted_by: str = "vibe plan new"
    piped: bytes = b""
    """Data that came with the goal on standard input."""
    notes: tuple[str, ...] = ()
    """Warnings from before it began."""


class Planning(Struct, eq=False):
    """A planning run: the context of its agents, its events, and the record at its end."""

    _engine: Engine
    context: AgentContext
    limits: PlanningLimits
    channel: Publishing
    _home: Path
    has_ended: bool = False
    _started: float = field(default_factory=time.monotonic)
    _draft: PlanDraft | None = None

    def draft(self, goal: str) -> PlanDraft:
        """Return a proposal for a goal, without a version yet. From now on, what others say to this run is about it."""
        engine, context = self._engine, self.context
        expects = partial(expectation, (self._home, context.workspace.root), engine, context.default_model)
        self._draft = PlanDraft(goal=goal, context=context, limits=self.limits, engine=engine, expects=expects)
        return self._draft

    def tell(self, text: str, by: str) -> bool:
        """Pass something said from outside to the planner; return False if no plan is being written or asked about."""
        return self._draft is not None and self._draft.tell(text, by)

    def end(self, found: PlanDraft | ProposedChange | None, signal_exit: int | None = None) -> RunRecord:
        """Announce the end, and return the record of the run.

        ``found`` is None if it was cancelled. ``signal_exit`` is the exit code of a signal that arrived meanwhile, if
        one did.
        """
        acted = (found and found.acted) or ActResult(
            outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before the plan was done"
        )
        repairs = found.versions[-1].repairs if isinstance(found, PlanDraft) and found.versions else ()
        spent, channel = self.context.account, self.channel
        own = AgentUsage(agent_id="", usage=spent.usage, cost_usd=spent.cost_usd)
        seconds = time.monotonic() - self._started
        result = PromptResult(acted=acted, usage=own.usage, cost_usd=own.cost_usd, duration_s=seconds, agents=(own,))
        warnings = (*self._engine.warnings, *repairs)
        record = result.record(channel.session_id, channel, warnings).after_signal(signal_exit)
        self.has_ended = True
        channel.sink.publish(SessionEndedEvent(outcome=record.outcome.value, exit_code=record.exit_code))
        return record


@asynccontextmanager
async def planning(
    request: PlanningRequest, host: Host, listeners: Sequence[EventSink], user_input: UserInput | None = None
) -> AsyncGenerator[Planning]:
    """Open a planning run, and close it at the end. It handles no signals.

    Without ``user_input``, no user is there to ask.

    Raises:
        UsageError: a flag or the configuration is wrong.
        EnvironmentFailure, ipc.errors.IpcError: a key is missing, or the disk or the bus refuses.
    """
    engine, model, limits = await anyio.to_thread.run_sync(_prepare, request, host)
    sinks = [*listeners, PlanningLog(host.home, model.key, str(request.workdir))]
    router = CommandRouter("this run only plans: stop it with Ctrl-C or SIGTERM")
    async with (
        aclosing(engine.models),
        publishing(host, engine.config, sinks, address=request.bus_address, control=router) as opened,
    ):
        channel = await opened.about(request.workdir, request.subject[:TITLE_LENGTH])
        channel.sink.publish(
            SessionStartedEvent(workspace=str(request.workdir), model=model.key, agent=CALLER, version=__version__)
        )
        for warning in (*engine.warnings, *request.notes):
            channel.sink.publish(WarningEvent(code="start", message=warning))
        run = Planning(engine, _context(request, engine, channel, user_input), limits, channel, host.home)
        route_messages(router, channel.session_id, run.tell)
        try:
            yield run
        finally:
            if not run.has_ended:
                run.end(None)


def _prepare(request: PlanningRequest, host: Host) -> tuple[Engine, ModelConfig, PlanningLimits]:
    """Check that planning can start. Reads files."""
    engine = build_engine(host, EngineRequest(workdir=request.workdir, trust=request.trust, snapshot=True))
    check_enabled(engine.config.planner, request.wanted_by, engine.loaded.origins)
    find_model = engine.models.resolve_priced if request.max_price else engine.models.resolve
    with explained_by(engine.warnings):
        engine.models.backend(model := find_model(request.model))
    limits = limits_of(engine.config.planner, max_tokens=request.max_tokens, max_price=request.max_price)
    return engine, model, limits


def _context(
    request: PlanningRequest, engine: Engine, channel: Publishing, user_input: UserInput | None
) -> AgentContext:
    return AgentContext(
        run=RunContext(base_prompt=engine.base_prompt),
        models=engine.models,
        default_model=request.model,
        tools=engine.tools,
        workspace=engine.workspace(request.workdir),
        approvals=engine.approvals(ApprovalMode.ASK, None),
        sink=channel.sink,
        account=Account("this run", Limits(max_tokens=request.max_tokens, max_price=request.max_price)),
        environ=engine.environ,
        guidance=structs.replace(engine.guidance, session_id=channel.session_id),
        user_input=user_input,
    )
