"""Starts the subagents that agents ask for with the ``task`` tool, within the run's limits and the agents' rights."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio.to_thread
from msgspec import structs, to_builtins

from subagents.agent.agent_factory import TASK_TOOL, AgentState
from subagents.agent.run_context import AgentContext
from subagents.agent.subagent import TRANSCRIPT_FILE, SubAgent, SubAgentConfig, earlier_subagents
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.core.agent_loop import ActResult
from vibe.core.agents.manager import AgentManager
from vibe.core.agents.models import AgentProfile, AgentSafety
from vibe.core.config.models import SubagentsConfig
from vibe.core.messages import NeverStop, Outcome, StopSignal
from vibe.core.modes import ExecutionMode
from vibe.core.session.folder import Transcript
from vibe.core.tools.background import BackgroundCommands, background_commands
from vibe.core.tools.errors import ToolError
from vibe.core.tools.ports import SubagentOrder, SubagentReport
from vibe.system.errors import EnvironmentFailure, VibeError, error_as
from vibe.system.files import replace_file

RESULT_FILE = "result.json"
SAVE_SECONDS = 2.0
"""Seconds that saving a subagent's result may take."""
TITLE_LENGTH = 80
"""Characters of its task that make a subagent's title."""
OUT_OF_TIME = ActResult(outcome=Outcome.LIMIT, reason="timeout", detail="the subagent ran out of time")


class SpawnError(ToolError):
    """A subagent can't be started."""


class SpawnPool:
    """Limits the subagents of a whole run: how many may be started, and how many may work at once.

    ``spawned`` is the number that earlier runs of the same plan started.
    """

    def __init__(self, agents: AgentManager, limits: SubagentsConfig, *, spawned: int = 0) -> None:
        self.agents = agents
        self.limits = limits
        self.slots = anyio.Semaphore(limits.max_parallel)
        self._spawned = spawned

    def below(self, agent_id: str, context: AgentContext, folder: Path) -> Spawner:
        """Return the spawner of one agent's subagents; see ``Spawning``."""
        return Spawner(self, agent_id, context, folder)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """Count one more subagent, and wait until it may work for as long as the block runs.

        Raises:
            SpawnError: the run has started ``max_spawned`` subagents already.
        """
        if self._spawned >= self.limits.max_spawned:
            raise SpawnError(
                f"this run has started {self._spawned} subagents, the limit ([subagents] max_spawned): "
                "do the work yourself"
            )
        self._spawned += 1
        async with self.slots:
            yield

    def renew(self) -> None:
        """Count from 0 again."""
        self._spawned = 0


class Spawner:
    """Starts the subagents of one agent; see ``SubagentSpawner``.

    ``stop`` stops them, too. ``agents`` is what each has used so far, including those of an interrupted run before.
    """

    def __init__(self, pool: SpawnPool, agent_id: str, context: AgentContext, folder: Path) -> None:
        self.stop: StopSignal = NeverStop()
        self._pool = pool
        self._agent_id = agent_id
        self._context = context
        self._folder = folder
        self._earlier = tuple(earlier_subagents(folder, agent_id))
        self._started: list[SubAgent] = []

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """The usage of each subagent."""
        return (*self._earlier, *self.started)

    @property
    def started(self) -> tuple[AgentUsage, ...]:
        """The usage of the subagents that this spawner started itself, and of theirs."""
        return tuple(own for agent in self._started for own in agent.agents)

    async def spawn(self, order: SubagentOrder) -> SubagentReport:
        """Carry out an order with a fresh subagent. Its result is on disk before this returns."""
        with error_as(VibeError, lambda error: SpawnError(str(error))):
            profile = self._pool.agents.subagent(order.agent)
        async with self._pool.place(), background_commands() as background:
            agent = await anyio.to_thread.run_sync(self._make, order, profile, background)
            self._started.append(agent)
            acted = ActResult(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before the end")
            try:
                acted = await self._work(agent, order)
            finally:
                agent.finish(acted.outcome.value, acted.reason)
                report = _report(agent, order, acted, self._folder_of(order.agent, agent.subagent_id))
                with anyio.move_on_after(SAVE_SECONDS, shield=True):
                    await anyio.to_thread.run_sync(self._save, report, order)
        return report

    async def _work(self, agent: SubAgent, order: SubagentOrder) -> ActResult:
        with anyio.move_on_after(self._pool.limits.timeout_seconds):
            try:
                return await agent.execute(order.task, self.stop)
            except EnvironmentFailure as error:  # its conversation can no longer be written to disk
                return ActResult(outcome=Outcome.FAILED, reason=ENVIRONMENT_REASON, detail=str(error))
        return OUT_OF_TIME

    def _make(self, order: SubagentOrder, profile: AgentProfile, background: BackgroundCommands) -> SubAgent:
        """Make a subagent with a folder of its own. Writes files."""
        limits = self._pool.limits
        subagent_id = uuid4().hex
        folder = self._folder_of(profile.name, subagent_id)
        config = SubAgentConfig(
            step_id="",
            title=" ".join(order.task.split())[:TITLE_LENGTH],
            mode=ExecutionMode.RESEARCH if profile.safety is AgentSafety.SAFE else ExecutionMode.CODE,
            allowed_tools=("*",),
            denied_tools=(TASK_TOOL,),
            max_tokens=limits.max_tokens,
            max_turns=limits.max_turns,
            profile=profile,
            parent_id=self._agent_id,
            caller=profile.name,
        )
        state = AgentState(
            agent_id=subagent_id,
            conversation=Transcript(path=folder / TRANSCRIPT_FILE),
            outputs=folder / "outputs",
            background=background,
        )
        try:
            agent = SubAgent(config, self._context, state)
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise SpawnError(f"the subagent's folder can't be created ({error.strerror})") from error
        except VibeError as error:
            raise SpawnError(f"the subagent {profile.name!r} can't start: {error}") from error
        return agent

    def _folder_of(self, agent_name: str, subagent_id: str) -> Path:
        return self._folder / f"{agent_name}-{subagent_id[:12]}"

    def _save(self, report: SubagentReport, order: SubagentOrder) -> None:
        """Write the result file, as a whole or not at all."""
        ordered = {"parent_id": self._agent_id, "tool_call_id": order.tool_call_id, "task": order.task}
        document = to_builtins(structs.replace(report, transcript=None)) | ordered
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        file = self._folder_of(order.agent, report.subagent_id) / RESULT_FILE
        replace_file(file, text.encode(errors="replace"), sync=False)


def started_subagents(steps: Path) -> int:
    """Return how many subagents the steps with folders in ``steps`` have started so far. Reads files."""
    return sum(1 for path in steps.glob("*/subagents*/*") if path.is_dir())


def _report(agent: SubAgent, order: SubagentOrder, acted: ActResult, folder: Path) -> SubagentReport:
    return SubagentReport(
        agent=order.agent,
        subagent_id=agent.subagent_id,
        outcome=acted.outcome,
        reason=acted.reason,
        detail=acted.detail,
        response=acted.text or agent.last_words(),
        turns=agent.conversation.turns,
        denied=acted.denied,
        files_changed=acted.files_changed,
        transcript=folder / TRANSCRIPT_FILE,
    )
