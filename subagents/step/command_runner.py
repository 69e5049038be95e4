"""The commands a plan names, run by the host and announced like any tool call; steps that are nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from anyio import CancelScope, move_on_after, to_thread
from msgspec.structs import replace

from ipc.events import CommandDisplay, ToolCallEvent, ToolResultEvent, ToolStreamEvent, WarningEvent
from ipc.sink import TaggingSink
from subagents.executor import StepResult, StepTask
from vibe.core.messages import Outcome
from vibe.core.session.write_turn import WAITS
from vibe.shell.process.capture import OutputLog
from vibe.shell.process.confined import MOST_STARTS, shell_command
from vibe.shell.process.runner import (
    NOT_INTERACTIVE,
    CommandResult,
    OutputLimit,
    OutputPiece,
    child_environ,
    run_command,
)
from vibe.shell.sandbox.confinement import Place
from vibe.system.failing_lines import failing_line, failing_part
from vibe.system.programs import command_environ
from vibe.system.redaction import redact

if TYPE_CHECKING:
    from subagents.agent.run_context import AgentContext

TOOL_NAME = "command"
MAX_EVENT_OUTPUT = 16_000
"""Characters of output in the closing event: its end."""
SUMMARY_CHARACTERS = 2_000
"""The length of the output that dependants are told: its end, where results stand."""
LOG_FILE = "output.log"
"""In a step's folder: all that its command and its checks printed, over its attempts."""


class Purpose(StrEnum):
    """The purpose of a command: the step's work, or a check of it."""

    STEP = "step"
    VERIFY = "verify"


class HostCommands:
    """Runs the shell commands of one attempt in the workspace of its ``context``, and tells about each.

    What they print is kept in the file that ``log`` returns, which blocks. What is told and kept is without secrets;
    what ``run`` returns is not.
    """

    def __init__(self, context: AgentContext, task: StepTask, log: Callable[[], Path]) -> None:
        self._log = OutputLog(log, self.masked)
        self._attempt = task.attempt
        self._run_context = context.run
        self._place = Place(roots=(context.workspace.root,), network=context.network)
        self._root = context.workspace.root
        self._environ = context.environ
        self._variables = task.variables
        self._sink = TaggingSink(context.sink, subagent_step_id=task.step_id)

    def masked(self, text: str) -> str:
        """The text without secrets."""
        return redact(text, self._environ)

    async def run(self, command: str, *, purpose: Purpose) -> CommandResult:
        """Run one command to its end.

        A step's own command gets the user's whole environment, as ``make`` would give it, and is confined only where
        everything must be; a check, which executes what a model wrote, gets no secrets, is confined where that can be
        and has a time limit. Cancelling kills everything it started before it returns.

        Raises:
            WorkspaceLockedError: others write in the folder for too long.
        """
        turns = self._run_context.turns
        async with nullcontext() if turns is None else turns(self._tell_wait):
            return await self._run(command, purpose=purpose)

    def _tell_wait(self, message: str) -> None:
        self._sink.publish(WarningEvent(code=WAITS, message=message))

    async def _run(self, command: str, *, purpose: Purpose) -> CommandResult:
        call_id = uuid4().hex
        own = purpose is Purpose.STEP
        common = command_environ(self._environ) | NOT_INTERACTIVE if own else child_environ(self._environ)
        environ = {**common, **self._variables}

        async def stream(piece: OutputPiece) -> None:
            self._sink.publish(
                ToolStreamEvent(
                    tool_call_id=call_id,
                    tool=TOOL_NAME,
                    text=self.masked(piece.text),
                    stream=piece.stream,
                    dropped_bytes=piece.dropped_bytes,
                )
            )

        self._sink.publish(
            ToolCallEvent(
                tool_call_id=call_id,
                tool=TOOL_NAME,
                arguments={"command": command, "purpose": purpose.value},
                summary=f"{purpose.value}: {command}",
            )
        )
        self._log.note(f"== {self._heading(purpose)}\n$ {command}")
        confinement = self._run_context.confinement
        if own and confinement is not None and not confinement.required:
            confinement = None
        starts = 0
        while True:
            starts += 1
            shell = await shell_command(command, environ, confinement, self._place)
            try:
                ended = await run_command(
                    shell.command.argv,
                    cwd=self._root,
                    environ=shell.command.environ,
                    timeout=None if own else self._run_context.verify_seconds,
                    on_output=stream,
                    limit=OutputLimit(log=self._log),
                )
            except BaseException:
                await self._close_log("stopped before it ended")
                raise
            finally:
                aside = await shell.put_aside()
            if starts == MOST_STARTS or not shell.is_unbegun(ended):
                break
        result = shell.annotated(ended)
        left = f"[{ended.left_running}]" if ended.left_running else ""
        if left:
            self._sink.publish(WarningEvent(code="left_running", message=f"{purpose.value}: {ended.left_running}"))
        for note in filter(None, (aside, left)):
            result = replace(result, stderr=f"{result.stderr.rstrip()}\n{note}\n".lstrip())
        told = result.stderr.removeprefix(ended.stderr.rstrip()).strip()
        await self._close_log(f"{ending_of(result)} after {result.duration_s:.1f} s", told)
        self._sink.publish(
            ToolResultEvent(
                tool_call_id=call_id,
                tool=TOOL_NAME,
                status="ok" if result.is_success else "error",
                content=self.masked(output_of(result))[-MAX_EVENT_OUTPUT:],
                duration_s=result.duration_s,
                display=CommandDisplay(
                    command=command,
                    exit_code=None if result.timed_out or result.lost else result.exit_code,
                    duration_s=result.duration_s,
                    timed_out=result.timed_out,
                ),
            )
        )
        return result

    def _heading(self, purpose: Purpose) -> str:
        what = "command" if purpose is Purpose.STEP else "check"
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, attempt {self._attempt}, {what}"

    async def _close_log(self, how: str, told: str = "") -> None:
        """Have all that a command printed on disk, with what the host has to say of it."""
        self._log.note(f"{told}\n== {how}\n" if told else f"== {how}\n")
        with CancelScope(shield=True):
            await to_thread.run_sync(self._log.write)


def output_of(result: CommandResult) -> str:
    """Both streams, standard output first."""
    return "\n".join(part.strip("\n") for part in (result.stdout, result.stderr) if part.strip())


def failure_of(command: str, result: CommandResult, after: str = "") -> str:
    """A command that failed, how, and what it said of that."""
    said = failing_line(output_of(result))
    return f"`{command}` {ending_of(result)}{after}{f': {said}' if said else ''}"


def ending_of(result: CommandResult) -> str:
    """Return how a command ended, as a phrase."""
    return f"was stopped after {result.duration_s:.0f} s" if result.timed_out else f"exited with {result.exit_code}"


async def run_commands(task: StepTask, commands: HostCommands) -> StepResult:
    """Do a step without a model: its command, then its checks; the first that does not exit with 0 fails the step."""
    summary = ""
    with move_on_after(task.step.timeout_seconds):
        for purpose, command in _lines(task):
            ended = await commands.run(command, purpose=purpose)
            printed = commands.masked(output_of(ended))
            output = printed[-SUMMARY_CHARACTERS:]
            summary = summary or output
            if not ended.is_success:
                return StepResult(
                    outcome=Outcome.FAILED,
                    reason="exit_code" if purpose is Purpose.STEP else "verify",
                    detail=commands.masked(failure_of(command, ended)),
                    summary=output,
                    printed=failing_part(printed),
                )
        return StepResult(outcome=Outcome.COMPLETED, summary=summary)
    what = "checking it" if task.only_checks else f"`{task.step.command}`"
    return StepResult(outcome=Outcome.LIMIT, reason="timeout", detail=f"{what} ran out of time")


def _lines(task: StepTask) -> Iterator[tuple[Purpose, str]]:
    if task.step.command is not None and not task.only_checks:
        yield Purpose.STEP, task.step.command
    for line in task.step.verify:
        yield Purpose.VERIFY, line
