"""AgentStep: a step done by a subagent, then checked by the host until the checks pass or the repairs are used up."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread
from msgspec import Struct, structs
from msgspec.structs import replace

from subagents.agent.subagent import SubAgent
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.step.command_runner import HostCommands, Purpose, failure_of, output_of
from subagents.step.config_files import ConfigChange
from subagents.step.failing_lines import failing_part
from subagents.step.prompts import REPAIR_HEADINGS, config_message, first_message, repair_message
from subagents.step.tamper_guard import TamperGuard
from vibe.core.agent_loop import ActResult
from vibe.core.modes import WRITE_TOOLS
from vibe.core.outcome import Outcome
from vibe.system.plain_text import some_of

CHECKABLE = frozenset({Outcome.COMPLETED, Outcome.BLOCKED})
"""Ends after which the checks decide: a blocked agent may have got the work done without the denied call."""
SHOWN_FILES = 5
OUT_OF_TIME = ActResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")


class _Finding(Struct, frozen=True, kw_only=True):
    """An objection to the step: ``prompt`` asks its agent for a repair, ``detail`` says it for people.

    ``printed`` is what the check that failed had to say.
    """

    prompt: str
    detail: str
    printed: str = ""


class AgentStep:
    """One attempt: the subagent's work, the checks, and the repairs between them.

    If a file that the checks consist of has changed, the step fails. If a config file of the checks has changed, no
    check is run: that is to be repaired like a failed check.
    """

    def __init__(self, task: StepTask, agent: SubAgent, commands: HostCommands, guard: TamperGuard) -> None:
        self._task = task
        self._step = task.step
        self.agent = agent
        self._commands = commands
        self._guard = guard
        self._acted = OUT_OF_TIME
        self._ended = False
        self._printed = ""
        self._files_changed: dict[str, None] = {}

    async def do(self, stop: StopSignal) -> None:
        """Work until the step has ended or stops; ``result`` tells how."""
        await self._work_until_checked(stop)
        self._fail_if_all_was_refused()
        self._ended = True

    async def _work_until_checked(self, stop: StopSignal) -> None:
        if await self._tampered():
            return  # by an earlier attempt: not worth a token
        prompt, left = first_message(self._task), await self._reconfigured()
        self._take(await self.agent.execute(f"{prompt}\n\n{left.prompt}" if left else prompt, stop))
        while self._step.verify and self._acted.outcome in CHECKABLE:
            finding = await self._finding()
            if await self._tampered():
                return
            if finding is None:
                self._settle(Outcome.COMPLETED, None, "")
                return
            if self._acted.outcome is Outcome.BLOCKED:
                return  # a repair could do no more than the work: what it needs is an approval
            if self._repairs() >= self._step.max_repairs:
                self._settle(Outcome.FAILED, "verify", finding.detail)
                self._printed = finding.printed
                return
            self._take(await self.agent.continue_with(finding.prompt, stop))

    @property
    def result(self) -> StepResult:
        """The result so far; before ``do`` has ended, that of running out of time, whatever the agent says."""
        acted, conversation = self._acted, self.agent.conversation
        if not self._ended:
            acted = replace(acted, outcome=OUT_OF_TIME.outcome, reason=OUT_OF_TIME.reason, detail=OUT_OF_TIME.detail)
        return StepResult(
            outcome=acted.outcome,
            reason=acted.reason,
            detail=acted.detail,
            summary=acted.text,
            printed=self._printed,
            output=acted.output if acted.outcome is Outcome.COMPLETED else None,
            files_changed=tuple(self._files_changed),
            **structs.asdict(self.agent.spent),
            turns=conversation.turns,
            denied=acted.denied,
            agent_id=self.agent.subagent_id,
            agents=self.agent.agents,
            provider_refused=acted.error is not None and acted.error.halts,
        )

    async def _finding(self) -> _Finding | None:
        """Return the first check that fails.

        No check is run once one of its files, or a config file, was changed.
        """
        for command in self._step.verify:
            if await self._tampered():
                return None
            if (reconfigured := await self._reconfigured()) is not None:
                return reconfigured
            result = await self._commands.run(command, purpose=Purpose.VERIFY)
            await anyio.to_thread.run_sync(self._guard.checked)
            if not result.is_success:
                repairs = self._repairs()
                after = f" after {repairs} {'repair' if repairs == 1 else 'repairs'}" if repairs else ""
                return _Finding(
                    prompt=repair_message(self._task, command, result),
                    detail=self._commands.masked(failure_of(command, result, after)),
                    printed=failing_part(self._commands.masked(output_of(result))),
                )
        return await self._reconfigured()

    async def _reconfigured(self) -> _Finding | None:
        """Return the finding about changed config files of the checks, if there are any."""
        found = await anyio.to_thread.run_sync(self._guard.config_changes)
        if not found:
            return None
        return _Finding(prompt=config_message(self._task, found), detail=_config_detail(found))

    async def _tampered(self) -> bool:
        """Return whether a file of the checks was changed; then the step has failed."""
        changed = await anyio.to_thread.run_sync(self._guard.tampered)
        if changed:
            detail = (
                f"{some_of(changed, SHOWN_FILES)}, which this step's checks run, changed since the step "
                "first started: restore it, or list it in `writes` if the step is meant to change it"
            )
            self._settle(Outcome.FAILED, "verify", detail)
        return bool(changed)

    def _repairs(self) -> int:
        """Return how many repairs were asked for; counted in the conversation, so that it survives a resume."""
        return sum(prompt.content.startswith(REPAIR_HEADINGS) for prompt in self.agent.conversation.prompts)

    def _take(self, acted: ActResult) -> None:
        self._acted = acted
        self._files_changed.update(dict.fromkeys(acted.files_changed))

    def _fail_if_all_was_refused(self) -> None:
        if self._step.verify:
            return  # its checks have told
        refused = [one for one in self._acted.denied if one.by == "rule" and one.tool in WRITE_TOOLS]
        if self._acted.outcome is Outcome.COMPLETED and refused and not self._files_changed:
            detail = f"every write was refused, so the step changed nothing: {refused[0].reason}"
            self._settle(Outcome.FAILED, "refused", detail)

    def _settle(self, outcome: Outcome, reason: str | None, detail: str) -> None:
        self._acted = replace(self._acted, outcome=outcome, reason=reason, detail=detail)


def _config_detail(found: Sequence[ConfigChange]) -> str:
    is_one = len(found) == 1
    return (
        f"{some_of([f'{one.name} {one.how}' for one in found], SHOWN_FILES)} in this step, and "
        f"{'it configures' if is_one else 'they configure'} "
        f"its checks: restore {'it' if is_one else 'them'}, or list {'it' if is_one else 'them'} in `writes` if the "
        f"step is meant to write {'it' if is_one else 'them'}"
    )
