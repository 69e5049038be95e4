"""The three standard streams as a command uses them: always there, always UTF-8, and patient where asked."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Outlet(io.FileIO):
    """A standard descriptor to write to.

    ``forgiving``: what can't be written (the reader is gone, the disk is full) is dropped instead of raised, and the
    first ``problem`` kept: for runs whose work is worth more than the words about it.
    """

    def __init__(self, descriptor: int, *, forgiving: bool = False) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.forgiving = forgiving
        self.problem: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of it; waits where the descriptor is one that does not."""
        if self.problem is not None and self.forgiving:
            return memoryview(data).nbytes
        try:
            while (written := cast("int | None", super().write(data))) is None:  # it would block
                select.select([], [self], [])
        except OSError as error:
            self.problem = error
            if not self.forgiving:
                raise
            return memoryview(data).nbytes
        return written


def standard_streams() -> tuple[TextIO, TextIO, TextIO]:
    """Stdin, stdout and stderr. One that was closed is the null device; a redirection within Python is kept."""
    _hold_closed_descriptors()
    stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  lives as long as the process
    stdout = _text(1) if sys.stdout is sys.__stdout__ else sys.stdout
    stderr = _text(2, forgiving=True) if sys.stderr is sys.__stderr__ else sys.stderr
    return stdin, stdout, stderr


def forgive(stream: TextIO) -> None:
    """From now on what can't be written to ``stream`` is dropped; ``problem_of`` tells what was the matter."""
    outlet = _outlet(stream)
    if outlet is not None:
        outlet.forgiving = True


def problem_of(stream: TextIO) -> OSError | None:
    """Why something could not be written, if so; a reader that went away is none."""
    outlet = _outlet(stream)
    problem = outlet.problem if outlet else None
    return None if isinstance(problem, BrokenPipeError) else problem


def _text(descriptor: int, *, forgiving: bool = False) -> TextIO:
    buffer = io.BufferedWriter(Outlet(descriptor, forgiving=forgiving))
    return io.TextIOWrapper(
        buffer, encoding="utf-8", errors="replace", line_buffering=os.isatty(descriptor) or forgiving
    )


def _outlet(stream: TextIO) -> Outlet | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, Outlet) else None


def _hold_closed_descriptors() -> None:
    """Put the null device where a standard descriptor is closed, so that no file of ours is opened in its place."""
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free: this one
