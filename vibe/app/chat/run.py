"""Answers one prompt without a terminal UI: ``vibe -p``."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ipc.events import SessionEndedEvent, SessionStartedEvent, WarningEvent
from ipc.sink import EventSink, TaggingSink
from subagents.agent.agent_factory import AgentParts, AgentState, agent_kit
from subagents.agent.budget import Account, Limits
from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.spawner import Spawner, SpawnPool
from subagents.executor import AgentUsage, total_usage
from vibe import __version__
from vibe.app.chat.control import ChatControl
from vibe.app.chat.mentions import with_mentioned_files
from vibe.app.chat.session import ChatSession, SessionOpening
from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.event_publishing import Publishing, publishing
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import AgentRecord, RunRecord, exit_code_of
from vibe.app.engine.signals import handled_signals
from vibe.app.engine.tool_servers import ToolServers, tool_servers
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.agents.profiles import AgentProfile, AgentSafety
from vibe.core.config.models import ModelConfig
from vibe.core.config.paths import VibePaths
from vibe.core.errors import EnvironmentFailure, UsageError
from vibe.core.guidance import AgentGuidance, AgentPlace
from vibe.core.llm.errors import ModelAccessError
from vibe.core.middleware.file_history import FileHistory
from vibe.core.middleware.guard import ReadOnly
from vibe.core.middleware.port import Middleware
from vibe.core.outcome import Outcome
from vibe.core.tools.executor import closed_to_reading
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver
from vibe.core.tools.process.background import BackgroundCommands, background_commands
from vibe.core.tools.profile_view import profile_view, unattended
from vibe.core.tools.questions import UserInput
from vibe.core.tools.workspace import Workspace
from vibe.core.turn import AgentKit

TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One prompt and how to answer it. Limits count from here on; None: no limit."""

    prompt: str
    """Empty: continue a conversation that was cut off."""
    workdir: Path
    extra_roots: tuple[Path, ...] = ()
    agent: str | None = None
    model: str | None = None
    auto_approve: bool = False
    max_turns: int | None = None
    max_tokens: int | None = None
    max_price: float | None = None
    """In USD."""
    time_limit: float | None = None
    """In seconds."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    trust: bool = False
    resume: str | None = None
    """The session to continue: its id or the beginning of it. Empty: the workspace's last; None: a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The person who watches a run."""

    approver: Approver
    """Says yes or no to calls."""
    user_input: UserInput
    """Answers the agents' questions."""


async def run_chat(
    request: ChatRequest, host: Host, listeners: Sequence[EventSink], person: Person | None = None
) -> RunRecord:
    """Answer the prompt; failures of the work are in the record. ``person`` None: there is no one to ask.

    Raises:
        UsageError: a flag or the configuration is wrong.
        EnvironmentFailure, ipc.errors.IpcError: key, disk or bus.
    """
    parts = await anyio.to_thread.run_sync(_prepare, request, host, person)
    control = ChatControl()
    try:
        async with (
            tool_servers(parts.engine, host, request.workdir) as servers,
            publishing(
                host,
                listeners,
                address=parts.engine.config.ipc.address,
                kept=parts.engine.config.session_logging.enabled,
                control=control,
            ) as opened,
        ):
            own = replace(opened, session_id=parts.session.session_id)
            channel = await own.about(request.workdir, request.prompt[:TITLE_LENGTH])
            try:
                return await _Chat(request, parts, channel, servers).run(control)
            finally:
                await parts.engine.models.aclose()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(parts.session.release)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a chat."""

    host: Host
    profile: AgentProfile
    prompt: str
    engine: Engine
    model: ModelConfig
    tools: ToolManager
    session: ChatSession
    writes: bool
    """Its tools can change something."""
    person: Person | None


def _prepare(request: ChatRequest, host: Host, person: Person | None) -> _Parts:
    """See that the run can start, and open its session; reads and writes files."""
    wanted = EngineRequest(
        workdir=request.workdir, flags=request.flags, agent=request.agent or "", trust=request.trust, snapshot=True
    )
    engine = build_engine(host, wanted)
    profile = engine.chosen
    models, alias = engine.models, request.model or profile.active_model
    model = models.resolve_priced(alias) if request.max_price else models.resolve(alias)
    models.backend(model)
    prompt = engine.guidance.started(request.prompt)
    engine.guidance.base_prompt(profile.system_prompt_id, engine.base_prompt)  # a prompt that is missing is told now
    tools = profile_view(engine.tools, profile, may_widen=True)
    if person is None:
        tools = unattended(tools)
    writes = not all(tool.read_only for tool in tools.available.values())
    opening = SessionOpening(
        workspace=request.workdir,
        model=model.key,
        agent=profile.name,
        title=request.prompt[:TITLE_LENGTH],
        resume=request.resume,
        writes=writes,
        kept=engine.config.session_logging.enabled,
    )
    session = ChatSession.open(VibePaths(host.home), opening)
    if not request.prompt and not session.transcript.messages:
        session.release()
        raise UsageError(f"session {session.session_id} has no message to go on from: give a prompt")
    return _Parts(
        host=host,
        profile=profile,
        prompt=prompt,
        engine=engine,
        model=model,
        tools=tools,
        session=session,
        writes=writes,
        person=person,
    )


class _Chat:
    """One conversation of one prompt."""

    def __init__(self, request: ChatRequest, parts: _Parts, channel: Publishing, servers: ToolServers) -> None:
        self._request = request
        self._host = parts.host
        self._profile = parts.profile
        self._prompt = parts.prompt
        self._engine = parts.engine
        self._model = parts.model
        self._tools = parts.tools
        self._writes = parts.writes
        self._session = parts.session
        self._person = parts.person
        self._account = Account("this run", Limits(max_tokens=request.max_tokens, max_price=request.max_price))
        self._channel = channel
        self._servers = servers
        self._sink = TaggingSink(channel.sink, session_id=lambda: parts.session.session_id)
        self._taught = self._guidance()
        self._started = time.monotonic()
        self._environment_failed = False
        self._spawner: Spawner | None = None

    async def run(self, control: ChatControl) -> RunRecord:
        sink = self._sink
        deadline = anyio.current_time() + (self._request.time_limit or float("inf"))
        starting, scope = anyio.CancelScope(deadline=deadline), anyio.CancelScope(deadline=deadline)

        def stop() -> None:
            starting.cancel()
            scope.cancel()

        def on_signal(_which: signal.Signals, _count: int) -> None:
            stop()

        acted: ActResult | None = None
        missing: EnvironmentFailure | None = None
        async with handled_signals(self._host, on_signal) as signals, background_commands() as background:
            control.serve(stop)
            self._say_hello()
            with starting:
                missing = await self._equip()
            kit = await anyio.to_thread.run_sync(self._kit, background)
            turns_before = self._session.transcript.turns
            loop = AgentLoop(kit, max_turns=self._request.max_turns, turns_before=turns_before)
            with scope:
                acted = await self._act(loop) if missing is None else loop.broken_off(missing)
        if acted is None:
            self._session.transcript.close_dangling_calls()
            acted = loop.interrupted() if signals.exit_code or control.cancelled else self._out_of_time(loop)
        if weakness := self._engine.confinement.weakness:
            sink.publish(WarningEvent(code="sandbox", message=weakness))
        record = self._record(acted, signals.exit_code)
        sink.publish(SessionEndedEvent(outcome=record.outcome.value, exit_code=record.exit_code))
        await anyio.to_thread.run_sync(self._session.close, record.outcome)
        return record

    def _say_hello(self) -> None:
        """Publish the first events of the run."""
        sink = self._sink
        sink.publish(
            SessionStartedEvent(
                workspace=str(self._request.workdir),
                model=self._model.key,
                agent=self._profile.name,
                version=__version__,
            )
        )
        for warning in self._engine.warnings:
            sink.publish(WarningEvent(code="start", message=warning))
        if self._session.repaired:
            sink.publish(WarningEvent(code="session.repaired", message=self._session.repaired))

    async def _equip(self) -> EnvironmentFailure | None:
        """Wait for the tools of the servers; return the failure if a required one is missing."""
        try:
            self._engine = await self._servers.equip(self._sink)
        except EnvironmentFailure as error:
            self._environment_failed = True
            return error
        return None

    def _out_of_time(self, loop: AgentLoop) -> ActResult:
        said = f"the time limit of {self._request.time_limit:g} s is used up"
        return replace(loop.interrupted(), outcome=Outcome.LIMIT, reason="timeout", detail=said)

    async def _act(self, loop: AgentLoop) -> ActResult:
        try:
            prompt = await anyio.to_thread.run_sync(self._told)
            return await (loop.act(prompt) if prompt else loop.resume())
        except EnvironmentFailure as error:  # the conversation can't be written down any more
            self._environment_failed = True
            return loop.broken_off(error)

    def _told(self) -> str:
        """Return the prompt with the skill it names and the files it mentions, read."""
        return with_mentioned_files(self._taught.calls.prompt(self._prompt), self._workspace())

    def _workspace(self) -> Workspace:
        return self._engine.workspace(
            self._request.workdir, extra_roots=self._request.extra_roots, read_roots=self._session.earlier_outputs
        ).not_reading(closed_to_reading(self._engine.tools))

    def _guidance(self) -> AgentGuidance:
        engine = self._engine
        place = AgentPlace(
            root=self._request.workdir,
            sink=self._sink,
            environ=engine.environ,
            conversation=self._session.transcript.messages,
        )
        return replace(engine.guidance, session_id=self._session.session_id).for_agent(place)

    def _middleware(self) -> tuple[Middleware, ...]:
        every = self._engine.tools.available
        if not self._writes:
            refused = [name for name, tool in every.items() if name not in self._tools.available and not tool.read_only]
            return (ReadOnly(self._profile.name, refused),) if self._profile.safety is AgentSafety.SAFE else ()
        harmless = [name for name, tool in every.items() if tool.read_only and name != "task"]  # whose agent may write
        return (FileHistory(partial(self._session.snapshots, self._engine.environ), harmless),)

    def _context(self) -> AgentContext:
        """Return the context of this agent, which those it starts inherit."""
        engine = self._engine
        return AgentContext(
            run=RunContext(base_prompt=engine.base_prompt, confinement=engine.confinement),
            models=engine.models,
            default_model=self._model.key,
            tools=self._tools,
            workspace=self._workspace(),
            approvals=engine.approvals(self._approval_mode(), self._person and self._person.approver),
            sink=self._sink,
            account=self._account,
            environ=engine.environ,
            agents=engine.agents,
            guidance=engine.guidance.below(self._taught),
            user_input=self._person and self._person.user_input,
        )

    def _kit(self, background: BackgroundCommands) -> AgentKit:
        """Return the agent's kit; reads files."""
        engine, session = self._engine, self._session
        context, folder = self._context(), session.folder.path / "subagents"
        self._spawner = SpawnPool(engine.agents, engine.config.subagents).below(session.session_id, context, folder)
        return agent_kit(
            context,
            AgentParts(
                state=AgentState(
                    agent_id=session.session_id,
                    conversation=session.transcript,
                    outputs=session.folder.outputs,
                    background=background,
                ),
                model=self._model,
                profile=self._profile,
                taught=self._taught,
                subagents=self._spawner,
                middleware=self._middleware(),
                fork=session.fork,
            ),
        )

    def _approval_mode(self) -> ApprovalMode:
        unasked = self._request.auto_approve or self._engine.config.auto_approve or self._profile.auto_approve
        return ApprovalMode.ALL if unasked else ApprovalMode.ASK

    def _agents(self) -> list[AgentRecord]:
        """Return the records of the agent and of those it started, each with its own usage alone."""
        started = self._spawner.started if self._spawner else ()
        theirs, their_cost = total_usage(started)
        total, cost = self._account.usage, self._account.cost_usd
        own_cost = None if cost is None or their_cost is None else cost - their_cost
        main = AgentUsage(agent_id=self._session.session_id, usage=total - theirs, cost_usd=own_cost)
        return [
            AgentRecord(
                agent_id=agent.agent_id,
                parent_id=agent.parent_id,
                step_id=None,
                usage=agent.usage,
                cost_usd=agent.cost_usd,
            )
            for agent in (main, *started)
        ]

    def _record(self, acted: ActResult, signal_exit: int | None) -> RunRecord:
        bus = self._channel.bus
        refused = isinstance(acted.error, ModelAccessError) and acted.outcome is Outcome.FAILED
        unserved = refused or bus.failed or self._environment_failed
        return RunRecord(
            outcome=acted.outcome,
            exit_code=exit_code_of(acted.outcome, signal_exit, unserved=unserved),
            reason=acted.reason,
            session_id=self._session.session_id,
            result=acted.text,
            detail=acted.detail,
            agents=self._agents(),
            usage=self._account.usage,
            cost_usd=self._account.cost_usd,
            duration_s=time.monotonic() - self._started,
            denied=acted.denied,
            warnings=self._channel.warnings(self._engine.warnings),
        )
