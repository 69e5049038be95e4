"""A shell line made ready to run: with its shell, and confined where there is something that confines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from vibe.shell.process.kept_state import stateful_argv
from vibe.shell.process.runner import CommandResult, shell_argv
from vibe.shell.sandbox.confinement import Confinement, Guard, Place
from vibe.shell.sandbox.port import Confined, ReadOnlyUnavailableError
from vibe.shell.sandbox.refusals import is_unbegun
from vibe.system.racing import shielded

MOST_STARTS = 4
"""How often a line is started that the sandbox does not begin, since worktrees go at that moment."""


class ConfinedCommand(Struct, frozen=True, kw_only=True):
    """A shell line as it is started. ``confined_by`` None: it runs as the user would run it.

    ``guard`` keeps what decides what runs later as it is. Whoever runs the line calls ``put_aside`` once it has ended,
    however it did.
    """

    command: Confined
    confined_by: Confinement | None = None
    place: Place | None = None
    guard: Guard | None = None

    async def put_aside(self) -> str:
        """Rename what it made and may not make, and say so; mostly nothing."""
        if self.guard is None or self.guard.end_at_once():
            return ""
        return await shielded(partial(to_thread.run_sync, self.guard.end))

    def note(self, result: CommandResult) -> str:
        """Return what to tell where the sandbox may have refused something; mostly nothing."""
        if self.confined_by is None or self.place is None:
            return ""
        return self.confined_by.note(f"{result.stdout}\n{result.stderr}", result.exit_code, self.place)

    def is_unbegun(self, result: CommandResult) -> bool:
        """Return whether the sandbox gave up before the line began, and would not if it were made ready again."""
        said = f"{result.stdout}{result.stderr}"
        return self.confined_by is not None and is_unbegun(self.command.options, result.exit_code, said)

    def annotated(self, result: CommandResult) -> CommandResult:
        """The result with the note at the end of what went to standard error."""
        note = self.note(result)
        return replace(result, stderr=f"{result.stderr.rstrip()}\n{note}\n".lstrip()) if note else result


async def shell_command(
    line: str, environ: Mapping[str, str], confinement: Confinement | None, place: Place, *, stateful: bool = False
) -> ConfinedCommand:
    """Make a line ready; a ``stateful`` one tells its folder and variables as it ends (see ``shell_state``).

    Raises:
        EnvironmentFailure: a sandbox is required and none works.
        ReadOnlyUnavailableError: the place is ``read_only``, and that can't be had.
    """
    argv = tuple(shell_argv(line))
    if stateful:
        argv = stateful_argv(argv)
    if confinement is None:
        if place.read_only:
            raise ReadOnlyUnavailableError("no sandbox")
        return ConfinedCommand(command=Confined(argv=argv, environ=environ))
    environ = confinement.without_keys(environ)
    found = await to_thread.run_sync(confinement.confine, argv, environ, place)
    if found is None:
        return ConfinedCommand(command=Confined(argv=argv, environ=environ))
    confined, guard = found
    return ConfinedCommand(command=confined, confined_by=confinement, place=place, guard=guard)
