"""HostCommands: the commands a plan names, run by the host and announced like any other tool call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from ipc.events import ToolCallEvent, ToolResultEvent, ToolStreamEvent
from ipc.sink import EventSink
from vibe.core.sandbox.confinement import Confinement, Place
from vibe.core.tools.process import NOT_INTERACTIVE, CommandResult, child_environ, run_command
from vibe.core.tools.shell_command import shell_command

TOOL_NAME = "command"
VERIFY_SECONDS = 600.0
"""How long a check may take, unless the settings say otherwise."""
MAX_EVENT_OUTPUT = 16_000
"""Characters of output in the closing event: its end."""


class Purpose(StrEnum):
    """Why a command runs: it is the step's work, or a check of it."""

    STEP = "step"
    VERIFY = "verify"


class HostCommands:
    """Runs shell commands in one folder and tells ``sink`` about each. A check may take ``verify_seconds``."""

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str],
        sink: EventSink,
        confinement: Confinement | None = None,
        *,
        verify_seconds: float = VERIFY_SECONDS,
    ) -> None:
        self._verify_seconds = verify_seconds
        self._root = root
        self._environ = environ
        self._sink = sink
        self._confinement = confinement

    async def run(self, command: str, *, purpose: Purpose) -> CommandResult:
        """Run one command to its end.

        A step's own command gets the user's whole environment, as ``make`` would give it, and is confined only where
        everything must be; a check, which executes what a model wrote, gets no secrets, is confined where that can be and
        has a time limit.
        Cancelling kills everything it started before it returns.
        """
        call_id = uuid4().hex
        own = purpose is Purpose.STEP
        environ = {**self._environ, **NOT_INTERACTIVE} if own else child_environ(self._environ)

        async def stream(text: str) -> None:
            self._sink.publish(ToolStreamEvent(tool_call_id=call_id, tool=TOOL_NAME, text=text))

        self._sink.publish(
            ToolCallEvent(
                tool_call_id=call_id,
                tool=TOOL_NAME,
                arguments={"command": command, "purpose": purpose.value},
                summary=f"{purpose.value}: {command}",
            )
        )
        confines = self._confinement is not None and (not own or self._confinement.required)
        shell = await shell_command(
            command, environ, self._confinement if confines else None, Place(roots=(self._root,))
        )
        try:
            ended = await run_command(
                shell.argv,
                cwd=self._root,
                environ=shell.environ,
                timeout=None if own else self._verify_seconds,
                on_output=stream,
            )
        finally:
            aside = await shell.put_aside()
        result = shell.annotated(ended)
        if aside:
            result = replace(result, stderr=f"{result.stderr.rstrip()}\n{aside}\n".lstrip())
        self._sink.publish(
            ToolResultEvent(
                tool_call_id=call_id,
                tool=TOOL_NAME,
                status="ok" if result.is_success else "error",
                content=output_of(result)[-MAX_EVENT_OUTPUT:],
                duration_s=result.duration_s,
            )
        )
        return result


def output_of(result: CommandResult) -> str:
    """Both streams, standard output first."""
    return "\n".join(part.strip("\n") for part in (result.stdout, result.stderr) if part.strip())


def ending_of(result: CommandResult) -> str:
    """How a command ended, as a phrase."""
    return f"was stopped after {result.duration_s:.0f} s" if result.timed_out else f"exited with {result.exit_code}"
