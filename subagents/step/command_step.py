"""CommandStep: a step that is a shell command, or nothing but its checks, with no model at all."""

from __future__ import annotations

from collections.abc import Iterator

from subagents.executor import StepResult, StepTask
from subagents.step.command_runner import HostCommands, Purpose, failure_of, output_of
from subagents.step.failing_lines import failing_part
from vibe.core.outcome import Outcome

SUMMARY_CHARACTERS = 2_000
"""The length of the output that dependants are told: its end, where results stand."""


class CommandStep:
    """Runs the step's command, then its checks; the first that does not exit with 0 fails the step."""

    def __init__(self, task: StepTask, commands: HostCommands) -> None:
        self._task = task
        self._commands = commands
        what = "checking it" if task.only_checks else f"`{task.step.command}`"
        self.result = StepResult(outcome=Outcome.LIMIT, reason="timeout", detail=f"{what} ran out of time")

    async def do(self) -> None:
        """Run it to the end; until then ``result`` is what a run out of time comes to."""
        summary = ""
        for purpose, command in self._lines():
            ended = await self._commands.run(command, purpose=purpose)
            printed = self._commands.masked(output_of(ended))
            output = printed[-SUMMARY_CHARACTERS:]
            summary = summary or output
            if not ended.is_success:
                self.result = StepResult(
                    outcome=Outcome.FAILED,
                    reason="exit_code" if purpose is Purpose.STEP else "verify",
                    detail=self._commands.masked(failure_of(command, ended)),
                    summary=output,
                    printed=failing_part(printed),
                )
                return
        self.result = StepResult(outcome=Outcome.COMPLETED, summary=summary)

    def _lines(self) -> Iterator[tuple[Purpose, str]]:
        if self._task.step.command is not None and not self._task.only_checks:
            yield Purpose.STEP, self._task.step.command
        for line in self._task.step.verify:
            yield Purpose.VERIFY, line
