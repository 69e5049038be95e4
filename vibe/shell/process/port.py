"""The port for running commands. Our own processes implement it, and so do an editor's terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from vibe.shell.process.capture import OutputLimit, OutputPiece


class CommandOrder(Struct, frozen=True, kw_only=True):
    """A command to start.

    Attributes:
        line: The command as people read it.
        argv: The command as the system runs it, including what confines it.
        cwd: The folder it starts in.
        environ: All the variables it gets.
        timeout: Seconds after which it is stopped.
        limit: Limits of the output that is collected.
        reports: The command writes a report to its descriptor 9, if whoever runs it can provide one.
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

    Attributes:
        exit_code: As in a shell: 128 plus the signal's number if a signal ended the command.
        stdout: The output, with a note where bytes are missing. A terminal puts all output here.
        stderr: The same for standard error.
        timed_out: The command was stopped by its timeout.
        duration_s: Seconds from the start to the end.
        stdout_dropped: Bytes missing from ``stdout``.
        output_files: Files with all the output of the streams that were cut.
        report: The command's report from descriptor 9, if it had that.
        lost: Why it is unknown how the command ended, or "".
        left: The number of processes it left running, which were then stopped, and the names of some.
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
    def printed(self) -> str:
        """Both output streams as one text, standard output first."""
        return "\n".join(part.strip("\n") for part in (self.stdout, self.stderr) if part.strip())

    @property
    def left_running(self) -> str:
        """A sentence about the processes it left running, usually ""."""
        number, names = self.left
        if number == 0:
            return ""
        more = ", ..." if number > names.count(", ") + 1 else ""
        what = "1 process left running was" if number == 1 else f"{number} processes left running were"
        return f"{what} stopped when the command ended: {names}{more}"

    @property
    def is_success(self) -> bool:
        """True if the command ended in time, with exit code 0."""
        return self.exit_code == 0 and not self.timed_out and not self.lost


class StartedCommand(Protocol):
    """A running command. A failure of the command is part of its result, so no method raises for it."""

    async def next_output(self) -> Sequence[OutputPiece] | None:
        """Wait a moment and return the output since the last call, possibly none. None once the command has ended."""
        ...

    def run_on(self) -> None:
        """Drop the timeout, so that the command runs for as long as it takes."""

    async def stop(self) -> None:
        """Stop everything the command started, and read the rest of its output.

        Returns within seconds, even if it is cancelled. Calling it again does no harm.
        """

    def result(self) -> CommandResult:
        """Return the result once ``stop`` has returned. Before that it only tells the ``output_files`` so far."""
        ...


class Commands(Protocol):
    """Runs commands that have been approved, as their orders say."""

    async def start(self, order: CommandOrder) -> StartedCommand:
        """Start a command. The caller must ``stop`` it, whatever happens.

        Raises:
            CommandStartError: the command can't be started.
        """
        ...
