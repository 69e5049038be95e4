"""Answers one prompt without a terminal UI: ``vibe -p``."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ipc.events import SessionEndedEvent, SessionStartedEvent, WarningEvent
from ipc.sink import EventSink
from subagents.budget import Account, Limits
from vibe import __version__
from vibe.app.build import Engine, EngineRequest, build_engine
from vibe.app.host import Host
from vibe.app.publishing import Publishing, publishing
from vibe.app.result_record import EXIT_CODES, AgentRecord, RunRecord
from vibe.app.signals import handled_signals
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.agents.profiles import AgentProfile, agent_profile
from vibe.core.config.models import ModelConfig
from vibe.core.config.paths import VibePaths
from vibe.core.llm.errors import ModelAccessError
from vibe.core.outcome import Outcome
from vibe.core.session.folder import SessionFolder
from vibe.core.session.transcript import Transcript
from vibe.core.system_prompt import PromptParts, build_system_prompt
from vibe.core.tools.executor import Approvals, ToolExecutor
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace
from vibe.core.turn import AgentKit

TITLE_LENGTH = 80
ENVIRONMENT_EXIT = 3
"""The provider refuses the key, or events could not be recorded: the environment can't serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One prompt and how to answer it. ``max_price`` in USD; None: no limit."""

    prompt: str
    workdir: Path
    extra_roots: tuple[Path, ...] = ()
    agent: str = "default"
    model: str | None = None
    auto_approve: bool = False
    max_turns: int | None = None
    max_tokens: int | None = None
    max_price: float | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    trust: bool = False


async def run_chat(request: ChatRequest, host: Host, listeners: Sequence[EventSink]) -> RunRecord:
    """Answer the prompt; what goes wrong with the work is in the record.

    Raises:
        UsageError: a flag or the configuration is wrong.
        EnvironmentFailure, ipc.errors.IpcError: key, disk or bus.
    """
    profile, engine, model = await anyio.to_thread.run_sync(_prepare, request, host)
    async with publishing(host, listeners, address=engine.config.ipc.address) as opened:
        channel = await opened.about(request.workdir, request.prompt[:TITLE_LENGTH])
        chat = _Chat(request, profile, engine, model, channel)
        try:
            return await chat.run(VibePaths(host.home).sessions)
        finally:
            await engine.models.aclose()


def _prepare(request: ChatRequest, host: Host) -> tuple[AgentProfile, Engine, ModelConfig]:
    """See that the run can start; reads files."""
    profile = agent_profile(request.agent)
    engine = build_engine(host, EngineRequest(workdir=request.workdir, flags=request.flags, trust=request.trust))
    models = engine.models
    model = models.resolve_priced(request.model) if request.max_price else models.resolve(request.model)
    models.backend(model)
    return profile, engine, model


class _Chat:
    """One conversation of one prompt."""

    def __init__(
        self, request: ChatRequest, profile: AgentProfile, engine: Engine, model: ModelConfig, channel: Publishing
    ) -> None:
        self._request = request
        self._profile = profile
        self._engine = engine
        self._model = model
        self._channel = channel
        self._started = time.monotonic()

    async def run(self, sessions: Path) -> RunRecord:
        sink = self._channel.sink
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
        folder = await anyio.to_thread.run_sync(SessionFolder.create, sessions, self._channel.session_id, self._meta())
        transcript = Transcript(path=folder.transcript)
        loop = AgentLoop(self._kit(folder, transcript), max_turns=self._request.max_turns)
        scope = anyio.CancelScope()

        def on_signal(_which: signal.Signals, _count: int) -> None:
            scope.cancel()

        acted: ActResult | None = None
        async with handled_signals(on_signal) as signals:
            with scope:
                acted = await loop.act(self._request.prompt)
        if acted is None:
            transcript.close_dangling_calls()
            acted = loop.interrupted()
        record = self._record(acted, signals.exit_code)
        sink.publish(SessionEndedEvent(outcome=record.outcome.value, exit_code=record.exit_code))
        meta = {**self._meta(), "outcome": record.outcome.value, "ended": time.time()}
        await anyio.to_thread.run_sync(folder.write_meta, meta)
        return record

    def _kit(self, folder: SessionFolder, transcript: Transcript) -> AgentKit:
        request, engine = self._request, self._engine
        tools = engine.tools.filtered(self._profile.tools)
        account = Account("this run", Limits(max_tokens=request.max_tokens, max_price=request.max_price))
        return AgentKit(
            model=self._model,
            backend=engine.models.backend(self._model),
            tools=ToolExecutor(
                tools=tools,
                workspace=Workspace(root=request.workdir, extra_roots=request.extra_roots),
                approvals=Approvals(mode=self._approval_mode(), approver=None),
                sink=self._channel.sink,
                output_dir=folder.outputs,
                environ=engine.environ,
            ),
            schemas=tools.schemas(),
            system_prompt=build_system_prompt(
                PromptParts(
                    base=engine.base_prompt,
                    workspace=request.workdir,
                    tool_prompts=tuple(tools.prompts().values()),
                )
            ),
            transcript=transcript,
            sink=self._channel.sink,
            budget=account,
        )

    def _approval_mode(self) -> ApprovalMode:
        if self._request.auto_approve or self._engine.config.auto_approve or "*" in self._profile.approved:
            return ApprovalMode.ALL
        return ApprovalMode.EDITS if self._profile.approved else ApprovalMode.ASK

    def _meta(self) -> dict[str, Any]:
        return {
            "version": 1,
            "session_id": self._channel.session_id,
            "workspace": str(self._request.workdir),
            "model": self._model.key,
            "agent": self._profile.name,
            "title": self._request.prompt[:TITLE_LENGTH],
        }

    def _record(self, acted: ActResult, signal_exit: int | None) -> RunRecord:
        bus = self._channel.bus
        exit_code = EXIT_CODES[acted.outcome]
        if acted.outcome is Outcome.INTERRUPTED and signal_exit is not None:
            exit_code = signal_exit
        elif bus.failed or (isinstance(acted.error, ModelAccessError) and acted.outcome is Outcome.FAILED):
            exit_code = ENVIRONMENT_EXIT
        return RunRecord(
            outcome=acted.outcome,
            exit_code=exit_code,
            reason=acted.reason,
            session_id=self._channel.session_id,
            result=acted.text,
            detail=acted.detail,
            agents=[
                AgentRecord(
                    agent_id=self._channel.session_id,
                    parent_id=None,
                    step_id=None,
                    usage=acted.usage,
                    cost_usd=acted.cost_usd,
                )
            ],
            usage=acted.usage,
            cost_usd=acted.cost_usd,
            duration_s=time.monotonic() - self._started,
            denied=acted.denied,
            warnings=[*self._engine.warnings, *(warning.message for warning in bus.warnings)],
        )
