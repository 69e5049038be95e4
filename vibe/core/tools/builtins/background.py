"""background: reads or ends a command that bash has left running in the background."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from ipc.events import CommandDisplay
from vibe.core.tools.background import BackgroundReport
from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, ToolArgs, ToolError, UnaskedConfig

STILL_RUNNING = "still running after"
"""The state of a running command, as the model reads it."""


class BackgroundArgs(ToolArgs):
    """The command, and how long to wait or whether to stop it."""

    handle: Annotated[str, Field(min_length=1)]
    wait: Annotated[int, Field(ge=0, le=60, description="seconds to wait for news")] = 10
    stop: bool = False


class Background(BaseTool[BackgroundArgs, BackgroundReport, UnaskedConfig, BaseToolState]):
    """Reports on background commands and stops them."""

    changes_files: ClassVar[bool] = False
    description: ClassVar[str] = "Read the new output of a background command, or stop it."

    async def run(self, args: BackgroundArgs, ctx: InvokeContext) -> BackgroundReport:
        """Wait for new output, or stop the command.

        Raises:
            ToolError: there is no such command.
        """
        if ctx.background is None:
            raise ToolError("there are no background commands here")
        if args.stop:
            return await ctx.background.stop(args.handle)
        return await ctx.background.report(args.handle, wait_seconds=args.wait)

    def summarize(self, args: BackgroundArgs) -> str:
        """Return the call: ``background bg1`` or ``background stop bg1``."""
        return f"background {'stop ' if args.stop else ''}{args.handle}"

    def display(self, result: BackgroundReport) -> CommandDisplay:
        """Return the command and its state."""
        return CommandDisplay(
            command=result.command,
            exit_code=None if result.lost else result.exit_code,
            duration_s=result.seconds,
            timed_out=result.timed_out,
            output_files=tuple(map(str, result.output_files)),
            handle=result.handle,
        )

    def format_result(self, result: BackgroundReport) -> str:
        """Return the new output and the command's state. The time makes every answer different."""
        how = "was stopped at its timeout" if result.timed_out else "ended"
        ended = f"lost, {result.lost}," if result.lost else f"{how} with exit code {result.exit_code}"
        state = STILL_RUNNING if result.exit_code is None else f"{ended} after"
        parts = [
            f"[{result.dropped} characters left out]" if result.dropped else "",
            result.output.rstrip("\n"),
            f"[the whole output is in {' and '.join(map(str, result.output_files))}]" if result.output_files else "",
            f"[{result.handle}: {state} {result.seconds} s]",
        ]
        return "\n".join(filter(None, parts))
