"""AgentStep: a step done by a subagent, then checked by the host until the checks pass or the repairs are used up."""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread

from subagents.briefing import REPAIR_HEADING, first_message, repair_message
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.host_commands import HostCommands, Purpose, ending_of
from subagents.subagent import SubAgent, SubAgentResult
from subagents.verification import Verification
from vibe.core.llm.errors import ModelAccessError
from vibe.core.outcome import Outcome
from vibe.core.tools.process import CommandResult

CHECKABLE = frozenset({Outcome.COMPLETED, Outcome.BLOCKED})
"""Ends after which the checks decide: a blocked agent may have got the work done without the denied call."""
SHOWN_FILES = 5
OUT_OF_TIME = SubAgentResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")


class AgentStep:
    """One attempt: the subagent's work, the checks, and the repairs between them.

    The checks are the plan's, and so are the files they consist of: if one of those is changed, the step has failed.
    """

    def __init__(self, task: StepTask, agent: SubAgent, commands: HostCommands, verification: Verification) -> None:
        self._task = task
        self.agent = agent
        self._commands = commands
        self._verification = verification
        self._acted = OUT_OF_TIME
        self._ended = False
        self._files_changed: dict[str, None] = {}

    async def do(self, stop: StopSignal) -> None:
        """Work until the step has ended or stops; ``result`` tells how."""
        await self._work_until_checked(stop)
        self._ended = True

    async def _work_until_checked(self, stop: StopSignal) -> None:
        if await self._tampered():
            return  # by an earlier attempt: not worth a token
        self._take(await self.agent.execute(first_message(self._task), stop))
        while self._task.verify and self._acted.outcome in CHECKABLE:
            failed = await self._failed_check()
            if await self._tampered():
                return
            if failed is None:
                self._settle(Outcome.COMPLETED, None, "")
                return
            if self._acted.outcome is Outcome.BLOCKED:
                return  # a repair could do no more than the work: what it needs is an approval
            command, result = failed
            if self._repairs() >= self._task.max_repairs:
                ended = f"`{command}` {ending_of(result)} after {self._repairs()} repairs"
                self._settle(Outcome.FAILED, "verify", ended)
                return
            self._take(await self.agent.continue_with(repair_message(self._task, command, result), stop))

    @property
    def result(self) -> StepResult:
        """Where the step stands; before ``do`` has ended, what running out of time comes to, whatever the agent says."""
        acted, conversation = self._acted, self.agent.conversation
        if not self._ended:
            acted = replace(acted, outcome=OUT_OF_TIME.outcome, reason=OUT_OF_TIME.reason, detail=OUT_OF_TIME.detail)
        usage, cost_usd = self.agent.spent
        return StepResult(
            outcome=acted.outcome,
            reason=acted.reason,
            detail=acted.detail,
            summary=acted.text,
            output=acted.output if acted.outcome is Outcome.COMPLETED else None,
            files_changed=tuple(self._files_changed),
            usage=usage,
            cost_usd=cost_usd,
            turns=conversation.turns,
            denied=acted.denied,
            agent_id=self.agent.subagent_id,
            agents=self.agent.agents,
            provider_refused=isinstance(acted.error, ModelAccessError),
        )

    async def _failed_check(self) -> tuple[str, CommandResult] | None:
        """The first check that fails; none is run once a file they consist of was changed."""
        for command in self._task.verify:
            if await self._tampered():
                return None
            result = await self._commands.run(command, purpose=Purpose.VERIFY)
            if not result.is_success:
                return command, result
        return None

    async def _tampered(self) -> bool:
        """Whether the checks are no longer those of the plan; then the step has failed."""
        changed = await anyio.to_thread.run_sync(self._verification.changed)
        if changed:
            named = ", ".join(changed[:SHOWN_FILES]) + (
                f" and {len(changed) - SHOWN_FILES} more" if changed[SHOWN_FILES:] else ""
            )
            detail = (
                f"{named}, which the checks of this step consist of, changed since the step first started: "
                "put that back, or name it in `writes` if the step is there to change it"
            )
            self._settle(Outcome.FAILED, "verify", detail)
        return bool(changed)

    def _repairs(self) -> int:
        """How many repairs were asked for; counted in the conversation, so that a resume counts on."""
        return sum(prompt.content.startswith(REPAIR_HEADING) for prompt in self.agent.conversation.prompts)

    def _take(self, acted: SubAgentResult) -> None:
        self._acted = acted
        self._files_changed.update(dict.fromkeys(acted.files_changed))

    def _settle(self, outcome: Outcome, reason: str | None, detail: str) -> None:
        self._acted = replace(self._acted, outcome=outcome, reason=reason, detail=detail)
