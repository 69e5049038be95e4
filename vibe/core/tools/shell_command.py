"""A shell line made ready to run: with its shell, and confined where there is something that confines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anyio import to_thread

from vibe.core.sandbox.confinement import Confinement, Place
from vibe.core.tools.process import CommandResult, shell_argv


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """What to start for a line, and with which variables. ``confined_by`` None: it runs as the user would run it."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    confined_by: Confinement | None = None

    def note(self, result: CommandResult) -> str:
        """What to tell where the sandbox may have refused something; mostly nothing."""
        if self.confined_by is None:
            return ""
        return self.confined_by.note(f"{result.stdout}\n{result.stderr}", result.exit_code)

    def annotated(self, result: CommandResult) -> CommandResult:
        """The result with the note at the end of what went to standard error."""
        note = self.note(result)
        return replace(result, stderr=f"{result.stderr.rstrip()}\n{note}\n".lstrip()) if note else result


async def shell_command(
    line: str, environ: Mapping[str, str], confinement: Confinement | None, place: Place
) -> ShellCommand:
    """Make a line ready.

    Raises:
        SandboxUnavailableError: a sandbox is required and none works.
    """
    argv = tuple(shell_argv(line, environ))
    if confinement is None:
        return ShellCommand(argv=argv, environ=environ)
    environ = confinement.without_keys(environ)
    confined = await to_thread.run_sync(confinement.confine, argv, environ, place)
    if confined is None:
        return ShellCommand(argv=argv, environ=environ)
    return ShellCommand(argv=confined.argv, environ=confined.environ, confined_by=confinement)
