"""A command line of the user's own: run as they would run it, and put into words for the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from ipc.sink import EventSink
from ipc.tool_events import CommandDisplay, ToolCallEvent, ToolResultEvent, ToolStreamEvent
from vibe.core.tools.process.runner import CommandResult, OutputPiece, run_command

SHELL = "shell"
"""The tool that events name for it."""


async def run_for_user(command: str, workdir: Path, environ: Mapping[str, str], sink: EventSink) -> CommandResult:
    """Run a line unconfined, without an input or a terminal; cancelling ends it with all it started.

    Raises:
        CommandStartError: it can't be started.
    """
    call_id = uuid4().hex

    async def show(piece: OutputPiece) -> None:
        sink.publish(
            ToolStreamEvent(
                tool_call_id=call_id,
                tool=SHELL,
                text=piece.text,
                stream=piece.stream,
                dropped_bytes=piece.dropped_bytes,
            )
        )

    sink.publish(ToolCallEvent(tool_call_id=call_id, tool=SHELL, arguments={"command": command}, summary=command))
    status, display = "cancelled", CommandDisplay(command=command)
    content, seconds = "", 0.0
    try:
        result = await run_command(command, cwd=workdir, environ=environ, on_output=show)
        status, content, seconds = "ok" if result.is_success else "error", _output(result), result.duration_s
        display = CommandDisplay(command=command, exit_code=result.exit_code, duration_s=seconds)
    finally:
        sink.publish(
            ToolResultEvent(
                tool_call_id=call_id, tool=SHELL, status=status, content=content, duration_s=seconds, display=display
            )
        )
    return result


def as_told(command: str, result: CommandResult) -> str:
    """Return a command and its output as the model is told of it."""
    return f"I ran this in the shell:\n$ {command}\n{_output(result)}\n[exit code {result.exit_code}]"


def _output(result: CommandResult) -> str:
    return "\n".join(text.rstrip("\n") for text in (result.stdout, result.stderr) if text.strip())
