"""Runs the user's own command line as their shell would, and puts it into words for the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from ipc.events import CommandDisplay, ToolCallEvent, ToolResultEvent, ToolStreamEvent
from ipc.sink import EventSink
from vibe.shell.process import runner
from vibe.shell.process.port import CommandOrder
from vibe.shell.process.screen import shown
from vibe.system.plain_text import plain
from vibe.system.programs import command_environ
from vibe.system.redaction import Mask, PieceMask

SHELL = "shell"
"""The tool name in the events of such a command."""
SHELLS = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})
NO_PAGER = MappingProxyType(dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"))
"""Variables that turn pagers off, since a pager at a terminal would wait for keys."""


async def run_for_user(
    command: str, workdir: Path, environ: Mapping[str, str], sink: EventSink, mask: Mask, *, in_colour: bool = False
) -> runner.CommandResult:
    """Run a line in the user's shell, unconfined and without input. Cancelling ends it with everything it started.

    With ``in_colour`` it prints to a terminal. ``mask`` removes secrets from what it prints, since a model is told it.

    Raises:
        CommandStartError: it can't be started.
    """
    call_id, live = uuid4().hex, PieceMask(mask.printed)

    async def show(piece: runner.OutputPiece) -> None:
        text = live(piece.text, piece.stream)
        event = ToolStreamEvent(
            tool_call_id=call_id, tool=SHELL, text=text, stream=piece.stream, dropped_bytes=piece.dropped_bytes
        )
        sink.publish(event)

    sink.publish(ToolCallEvent(tool_call_id=call_id, tool=SHELL, arguments={"command": command}, summary=command))
    status, display = "cancelled", CommandDisplay(command=command)
    content, seconds = "", 0.0
    try:
        argv, limit = tuple(_argv(command, environ)), runner.OutputLimit(raw=in_colour, masked=mask.printed)
        order = CommandOrder(argv=argv, cwd=workdir, environ={**command_environ(environ), **NO_PAGER}, limit=limit)
        running = await runner.RunningCommand.start(order, in_terminal=in_colour)
        result = await runner.run_to_end(running, show)
        status, content, seconds = "ok" if result.is_success else "error", result.printed, result.duration_s
        display = CommandDisplay(command=command, exit_code=result.exit_code, duration_s=seconds)
    finally:
        event = ToolResultEvent(
            tool_call_id=call_id, tool=SHELL, status=status, content=content, duration_s=seconds, display=display
        )
        sink.publish(event)
    return result


def as_message(command: str, result: runner.CommandResult) -> str:
    """Return a command and its output in words for the model: without colours, and only the last of rewritten lines."""
    printed = plain(shown(result.printed))
    return f"I ran this in the shell:\n$ {command}\n{printed}\n[exit code {result.exit_code}]"


def _argv(command: str, environ: Mapping[str, str]) -> list[str]:
    """Return the arguments that run a line: the user's own shell if it is a known one, else our usual shell."""
    shell = environ.get("SHELL", "")
    known = Path(shell).name in SHELLS and os.access(shell, os.X_OK)
    return [shell, "-c", command] if known else runner.shell_argv(command)
