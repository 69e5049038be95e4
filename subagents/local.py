"""LocalExecutor: steps done in this process, by a subagent or by a plain command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import structs

from ipc.sink import TaggingSink
from subagents.agent_step import AgentStep
from subagents.command_step import CommandStep
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.host_commands import HostCommands
from subagents.subagent import Belongings, SubAgent, SubAgentConfig, Surroundings
from vibe.core.agents.errors import UnknownAgentError
from vibe.core.agents.profiles import AgentProfile
from vibe.core.session.transcript import Transcript
from vibe.core.tools.background import BackgroundCommands, background_commands


class LocalExecutor:
    """Does steps in this process. ``step_folder`` says where a step keeps its conversation."""

    def __init__(self, surroundings: Surroundings, step_folder: Callable[[str], Path]) -> None:
        self._around = surroundings
        self._step_folder = step_folder

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do one attempt at a step within its time; see ``StepExecutor``."""
        started = self._around.clock()
        ended = await (self._run_command(task) if task.command else self._run_agent(task, stop))
        return structs.replace(ended, duration_s=self._around.clock() - started)

    async def _run_command(self, task: StepTask) -> StepResult:
        step = CommandStep(task, self._commands(task))
        with anyio.move_on_after(task.timeout_seconds):
            await step.do()
        return step.result

    async def _run_agent(self, task: StepTask, stop: StopSignal) -> StepResult:
        async with background_commands() as background:
            agent = await anyio.to_thread.run_sync(self._agent, task, background)
            step = AgentStep(task, agent, self._commands(task))
            try:
                with anyio.move_on_after(task.timeout_seconds):
                    await step.do(stop)
            finally:
                agent.finish(step.result.outcome.value, step.result.reason)
        return step.result

    def _agent(self, task: StepTask, background: BackgroundCommands) -> SubAgent:
        """The attempt's subagent, with the conversation it had if it was interrupted; reads and makes files."""
        folder = self._step_folder(task.step_id)
        conversation = Transcript.open(folder / transcript_name(task.attempt))
        belongings = Belongings(
            outputs=folder / "outputs", subagents=folder / subagents_name(task.attempt), background=background
        )
        return SubAgent(self._config(task), self._surroundings_of(task), conversation, belongings)

    def _commands(self, task: StepTask) -> HostCommands:
        sink = TaggingSink(self._around.sink, subagent_step_id=task.step_id)
        around = self._around
        return HostCommands(around.workspace.root, around.environ, sink, around.confinement)

    def _surroundings_of(self, task: StepTask) -> Surroundings:
        """The run's surroundings with the step's own claim on files as its boundary."""
        return replace(self._around, workspace=replace(self._around.workspace, writes=task.writes))

    def _profile(self, task: StepTask) -> AgentProfile | None:
        """The profile the step names. A plan that names one was checked before it started."""
        if task.agent is None:
            return None
        if self._around.agents is None:
            raise UnknownAgentError(task.agent, ())
        return self._around.agents.get(task.agent)

    def _config(self, task: StepTask) -> SubAgentConfig:
        return SubAgentConfig(
            step_id=task.step_id,
            title=task.title,
            mode=task.mode,
            allowed_tools=task.allowed_tools,
            denied_tools=task.denied_tools,
            max_tokens=task.max_tokens,
            max_turns=task.max_turns,
            max_price=task.max_price,
            model=task.model,
            profile=self._profile(task),
        )


def subagents_name(attempt: int) -> str:
    """Where the subagents of an attempt have their folders."""
    return "subagents" if attempt == 1 else f"subagents.{attempt}"


def transcript_name(attempt: int) -> str:
    """Each attempt has a conversation of its own; an interrupted attempt finds its own again."""
    return "messages.jsonl" if attempt == 1 else f"messages.{attempt}.jsonl"
