"""Commands, the port: a command in, whoever runs it out. Met by our own processes, or by an editor's terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from vibe.shell.process.capture import OutputLimit, OutputPiece


class CommandOrder(Struct, frozen=True, kw_only=True):
    """A command to start: ``line`` for people, ``argv`` for the system, with what confines it.

    ``environ`` is all it gets. It is stopped after ``timeout`` seconds. ``limit`` is for whoever collects what it
    prints. One that ``reports`` does so by its descriptor 9, where it can be given one.
    """

    line: str = ""
    argv: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str]
    timeout: float | None = None
    limit: OutputLimit = field(default_factory=OutputLimit)
    reports: bool = False


class CommandResult(Struct, frozen=True, kw_only=True):
    """Result of a command.

    ``exit_code`` is the shell's: 128 plus the signal when one ended it. ``stdout`` and ``stderr`` are text, with a
    note where bytes are missing; a terminal has all in the first. ``output_files`` hold the whole of what
    was cut. ``report`` is what it told by its descriptor 9, if it had one. ``lost`` says why nobody knows how it ended.
    ``left`` is how many processes it left running, and names of those; they were stopped.
    """

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool
    duration_s: float
    stdout_dropped: int = 0
    output_files: tuple[Path, ...] = ()
    report: bytes | None = None
    lost: str = ""
    left: tuple[int, str] = (0, "")

    @property
    def left_running(self) -> str:
        """Say which processes it left running were stopped with it; mostly nothing."""
        number, names = self.left
        if number == 0:
            return ""
        more = ", ..." if number > names.count(", ") + 1 else ""
        what = "1 process left running was" if number == 1 else f"{number} processes left running were"
        return f"{what} stopped when the command ended: {names}{more}"

    @property
    def is_success(self) -> bool:
        """True if it came to its end in time, and that with exit code 0."""
        return self.exit_code == 0 and not self.timed_out and not self.lost


class StartedCommand(Protocol):
    """A command under way. Whatever becomes of it is its result: neither of these raises for that."""

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Wait for a moment and return what it printed since the last call, if anything; None once it has ended."""
        ...

    def run_on(self) -> None:
        """Have it run for as long as it takes."""
        ...

    async def stop(self) -> None:
        """End everything it started and take what it printed last.

        Returns in seconds, cancelled or not; harmless twice.
        """
        ...

    def result(self) -> CommandResult:
        """Return the result once ``stop`` has returned; before, its ``output_files`` so far."""
        ...


class Commands(Protocol):
    """Runs commands that were let run, where and as they are told to."""

    async def start(self, order: CommandOrder) -> StartedCommand:
        """Start one; whoever called must ``stop`` it, whatever happens.

        Raises:
            CommandStartError: it can't be started.
        """
        ...
