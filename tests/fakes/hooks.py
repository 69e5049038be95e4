"""Results of hook commands."""

from __future__ import annotations

from vibe.shell.process.port import CommandResult


def hook_run(exit_code: int, *, stdout: str = "", stderr: str = "", timed_out: bool = False) -> CommandResult:
    """Return the result of a command that took no time."""
    return CommandResult(exit_code=exit_code, stdout=stdout, stderr=stderr, timed_out=timed_out, duration_s=0.0)
