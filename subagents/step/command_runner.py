"""Runs the commands that a plan names, announced like any tool call, and the steps that consist only of those."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from uuid import uuid4

from anyio import CancelScope, move_on_after, to_thread
from msgspec.structs import replace

from ipc.events import CommandDisplay, ToolCallEvent, ToolResultEvent, ToolStreamEvent, WarningEvent
from ipc.sink import TaggingSink
from subagents.agent.run_context import AgentContext
from subagents.executor import StepResult, StepTask
from vibe.core.messages import Outcome
from vibe.core.session.write_turn import waits_told
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
from vibe.system.redaction import Mask, PieceMask, redact

TOOL_NAME = "command"
"""The name under which events announce these commands."""
MAX_EVENT_OUTPUT = 16_000
"""Characters of output in the closing event, from its end."""
SUMMARY_CHARACTERS = 2_000
"""Characters of output that dependent steps are told: from its end, where results usually are."""
LOG_FILE = "output.log"
"""The file in a step's folder with everything that its command and checks printed, over all attempts."""


class Purpose(StrEnum):
    """The purpose of a command: the step's work, or a check of it."""

    STEP = "step"
    VERIFY = "verify"


class HostCommands:
    """Runs the shell commands of one attempt in the workspace of its ``context``, and announces each.

    Their output is kept in the file that ``log`` returns; calling ``log`` blocks. Secrets are masked in events and in
    that file, and those of tools' output in what ``run`` returns too, since models are told that.
    """

    def __init__(self, context: AgentContext, task: StepTask, log: Callable[[], Path]) -> None:
        self.masked = partial(redact, environ=context.environ)
        """Returns a text with its secrets masked."""
        self._log = OutputLog(log, self.masked)
        self._task = task
        self._run_context = context.run
        self._place = Place(roots=(context.workspace.root,), network=context.network)
        self._root = context.workspace.root
        self._environ = context.environ
        self._sink = TaggingSink(context.sink, subagent_step_id=task.step_id)

    async def run(self, command: str, *, purpose: Purpose) -> CommandResult:
        """Run one command to its end.

        A step's own command gets the user's whole environment, as ``make`` would pass it on, and is confined only if
        confinement is required for everything. A check executes what a model wrote: it gets no secrets, is confined if
        possible, and has a time limit. A cancelled call returns only once everything it started has been killed.

        Raises:
            WorkspaceLockedError: others were writing in the folder for too long.
        """
        turns = self._run_context.turns
        async with nullcontext() if turns is None else turns(waits_told(self._sink)):
            return await self._run(command, purpose=purpose)

    async def _run(self, command: str, *, purpose: Purpose) -> CommandResult:
        call_id, shown = uuid4().hex, self.masked(command)
        event = ToolCallEvent(
            tool_call_id=call_id,
            tool=TOOL_NAME,
            arguments={"command": shown, "purpose": purpose.value},
            summary=f"{purpose.value}: {shown}",
        )
        self._sink.publish(event)
        self._log.note(f"== {self._heading(purpose)}\n$ {command}")
        try:
            result, notes = await self._ended(command, purpose, partial(self._show, call_id, PieceMask(self.masked)))
        except BaseException:
            await self._close_log("stopped before it ended")
            raise
        await self._close_log(f"{ending_of(result)} after {result.duration_s:.1f} s", notes)
        event = ToolResultEvent(
            tool_call_id=call_id,
            tool=TOOL_NAME,
            status="ok" if result.is_success else "error",
            content=self.masked(result.printed)[-MAX_EVENT_OUTPUT:],
            duration_s=result.duration_s,
            display=CommandDisplay(
                command=shown,
                exit_code=None if result.timed_out or result.lost else result.exit_code,
                duration_s=result.duration_s,
                timed_out=result.timed_out,
            ),
        )
        self._sink.publish(event)
        return result

    async def _show(self, call_id: str, masked: PieceMask, piece: OutputPiece) -> None:
        text = masked(piece.text, piece.stream)
        event = ToolStreamEvent(
            tool_call_id=call_id, tool=TOOL_NAME, text=text, stream=piece.stream, dropped_bytes=piece.dropped_bytes
        )
        self._sink.publish(event)

    async def _ended(
        self, command: str, purpose: Purpose, show: Callable[[OutputPiece], Awaitable[None]]
    ) -> tuple[CommandResult, str]:
        """Run a command, again if its sandbox fails to begin it, and return its result and the host's notes on it."""
        is_check = purpose is Purpose.VERIFY
        base = child_environ(self._environ) if is_check else command_environ(self._environ) | NOT_INTERACTIVE
        confinement = self._run_context.confinement
        if not is_check and confinement is not None and not confinement.required:
            confinement = None
        starts = 0
        while True:
            starts += 1
            shell = await shell_command(command, {**base, **self._task.variables}, confinement, self._place)
            try:
                ended = await run_command(
                    shell.command.argv,
                    cwd=self._root,
                    environ=shell.command.environ,
                    timeout=self._run_context.verify_seconds if is_check else None,
                    on_output=show,
                    limit=OutputLimit(log=self._log, masked=Mask(self._environ).printed),
                )
            finally:
                set_aside = await shell.put_aside()
            if starts == MOST_STARTS or not shell.is_unbegun(ended):
                break
        result = shell.annotated(ended)
        left_running = f"[{ended.left_running}]" if ended.left_running else ""
        if left_running:
            self._sink.publish(WarningEvent(code="left_running", message=f"{purpose.value}: {ended.left_running}"))
        for note in filter(None, (set_aside, left_running)):
            result = replace(result, stderr=f"{result.stderr.rstrip()}\n{note}\n".lstrip())
        return result, result.stderr.removeprefix(ended.stderr.rstrip()).strip()

    def _heading(self, purpose: Purpose) -> str:
        what = "command" if purpose is Purpose.STEP else "check"
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, attempt {self._task.attempt}, {what}"

    async def _close_log(self, how: str, notes: str = "") -> None:
        """Write the rest of a command's output to the log, then the host's notes on it and how it ended."""
        self._log.note(f"{notes}\n== {how}\n" if notes else f"== {how}\n")
        with CancelScope(shield=True):
            await to_thread.run_sync(self._log.write)


def failure_of(command: str, result: CommandResult, after: str = "") -> str:
    """Return a sentence that names a failed command, how it ended, and the line of its output that says why."""
    line = failing_line(result.printed)
    return f"`{command}` {ending_of(result)}{after}{f': {line}' if line else ''}"


def ending_of(result: CommandResult) -> str:
    """Return how a command ended, as a phrase."""
    return f"was stopped after {result.duration_s:.0f} s" if result.timed_out else f"exited with {result.exit_code}"


async def run_commands(task: StepTask, commands: HostCommands) -> StepResult:
    """Do a step without a model: its command, then its checks. The first that doesn't exit with 0 fails the step."""
    summary = ""
    with move_on_after(task.step.timeout_seconds):
        for purpose, command in _command_lines(task):
            ended = await commands.run(command, purpose=purpose)
            printed = commands.masked(ended.printed)
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


def _command_lines(task: StepTask) -> Iterator[tuple[Purpose, str]]:
    """Yield the command lines of a step, each with its purpose."""
    if task.step.command is not None and not task.only_checks:
        yield Purpose.STEP, task.step.command
    for line in task.step.verify:
        yield Purpose.VERIFY, line
