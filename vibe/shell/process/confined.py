"""Prepares a shell line to run, confined if there is a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from anyio import to_thread
from msgspec import Struct, structs

from vibe.shell.process.kept_state import stateful_argv
from vibe.shell.process.runner import CommandResult, shell_argv
from vibe.shell.sandbox.confinement import Confinement, Guard, Place
from vibe.shell.sandbox.port import ReadOnlyUnavailableError, SandboxRun, bounded
from vibe.shell.sandbox.refusals import is_unbegun
from vibe.system.racing import shielded

MOST_STARTS = 4
"""Maximum number of starts of a line if the sandbox fails to begin, since worktrees may vanish at that moment."""


class ConfinedCommand(Struct, frozen=True, kw_only=True):
    """A shell line that is ready to start. It runs as the user would run it if ``confined_by`` is None.

    ``guard`` protects the files that decide what runs later. Whoever runs the line must call ``put_aside`` once it has
    ended, however it did.
    """

    command: SandboxRun
    confined_by: Confinement | None = None
    place: Place | None = None
    guard: Guard | None = None

    async def put_aside(self) -> str:
        """Rename files that the line made and was not allowed to, and return a note about them, usually ""."""
        if self.guard is None or self.guard.end_at_once():
            return ""
        return await shielded(partial(to_thread.run_sync, self.guard.end))

    def note(self, result: CommandResult) -> str:
        """Return a note about what the sandbox may have refused, usually ""."""
        if self.confined_by is None or self.place is None:
            return ""
        return self.confined_by.note(f"{result.stdout}\n{result.stderr}", result.exit_code, self.place)

    def is_unbegun(self, result: CommandResult) -> bool:
        """Return whether the sandbox failed before the line began, and would not if the line were prepared again."""
        output = f"{result.stdout}{result.stderr}"
        return self.confined_by is not None and is_unbegun(self.command.options, result.exit_code, output)

    def annotated(self, result: CommandResult) -> CommandResult:
        """Return the result with the sandbox's note added to the end of standard error."""
        note = self.note(result)
        return structs.replace(result, stderr=f"{result.stderr.rstrip()}\n{note}\n".lstrip()) if note else result


async def shell_command(
    line: str, environ: Mapping[str, str], confinement: Confinement | None, place: Place, *, stateful: bool = False
) -> ConfinedCommand:
    """Prepare a line. A ``stateful`` one reports its folder and variables as it ends (see ``kept_state``).

    Raises:
        EnvironmentFailure: a sandbox is required and none works.
        ReadOnlyUnavailableError: the place is ``read_only``, and no sandbox can enforce that.
    """
    argv = tuple(shell_argv(line))
    if stateful:
        argv = stateful_argv(argv)
    found = None
    if confinement is not None:
        environ = confinement.without_keys(environ)
        found = await to_thread.run_sync(confinement.confine, argv, environ, place)
    elif place.read_only:
        raise ReadOnlyUnavailableError("no sandbox")
    if found is None:
        return ConfinedCommand(command=SandboxRun(argv=bounded(argv, environ, place.bounds), environ=environ))
    confined, guard = found
    return ConfinedCommand(command=confined, confined_by=confinement, place=place, guard=guard)
