"""AgentStep: a step done by a subagent, then checked by the host until the checks pass or the repairs are used up."""

from __future__ import annotations

from subagents.briefing import REPAIR_HEADING, first_message, repair_message
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.host_commands import HostCommands, Purpose
from subagents.subagent import SubAgent, SubAgentResult
from vibe.core.llm.errors import ModelAccessError
from vibe.core.outcome import Outcome
from vibe.core.tools.process import CommandResult

CHECKABLE = frozenset({Outcome.COMPLETED, Outcome.BLOCKED})
"""Ends after which the checks decide: a blocked agent may have got the work done without the denied call."""


class AgentStep:
    """One attempt: the subagent's work, the checks, and the repairs between them."""

    def __init__(self, task: StepTask, agent: SubAgent, commands: HostCommands) -> None:
        self._task = task
        self._agent = agent
        self._commands = commands
        self._acted = SubAgentResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")
        self._files_changed: dict[str, None] = {}

    async def do(self, stop: StopSignal) -> None:
        """Work until the step has ended or stops; ``result`` tells how."""
        self._take(await self._agent.execute(first_message(self._task), stop))
        while self._task.verify and self._acted.outcome in CHECKABLE:
            failed = await self._failed_check()
            if failed is None:
                self._settle(Outcome.COMPLETED, None, "")
                return
            if self._acted.outcome is Outcome.BLOCKED:
                return  # a repair could do no more than the work: what it needs is an approval
            command, result = failed
            if self._repairs() >= self._task.max_repairs:
                ended = f"`{command}` exited with {result.exit_code} after {self._repairs()} repairs"
                self._settle(Outcome.FAILED, "verify", ended)
                return
            self._take(await self._agent.continue_with(repair_message(command, result), stop))

    @property
    def result(self) -> StepResult:
        """Where the step stands; before ``do`` has ended, what running out of time comes to."""
        acted, conversation = self._acted, self._agent.conversation
        usage, cost_usd = self._agent.spent
        return StepResult(
            outcome=acted.outcome,
            reason=acted.reason,
            detail=acted.detail,
            summary=acted.text,
            files_changed=tuple(self._files_changed),
            usage=usage,
            cost_usd=cost_usd,
            turns=conversation.turns,
            denied=acted.denied,
            agent_id=self._agent.subagent_id,
            agents=self._agent.agents,
            provider_refused=isinstance(acted.error, ModelAccessError),
        )

    async def _failed_check(self) -> tuple[str, CommandResult] | None:
        for command in self._task.verify:
            result = await self._commands.run(command, purpose=Purpose.VERIFY)
            if result.exit_code != 0:
                return command, result
        return None

    def _repairs(self) -> int:
        """How many repairs were asked for; counted in the conversation, so that a resume counts on."""
        return sum(prompt.content.startswith(REPAIR_HEADING) for prompt in self._agent.conversation.prompts)

    def _take(self, acted: SubAgentResult) -> None:
        self._acted = acted
        self._files_changed.update(dict.fromkeys(acted.files_changed))

    def _settle(self, outcome: Outcome, reason: str | None, detail: str) -> None:
        acted = self._acted
        self._acted = SubAgentResult(
            outcome=outcome, reason=reason, detail=detail, text=acted.text, denied=acted.denied, error=acted.error
        )
