"""The three standard streams for commands: always open, always UTF-8, and tolerant of lost readers if asked."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_WAITING = 64_000_000
"""Bytes that may wait for a slow reader."""
FULL = 1_000_000
"""Once this many bytes wait for the reader of standard output, nothing more is taken from a source that can wait."""
READER_SECONDS = 0.05
"""Interval between checks on a slow reader."""
AT_ONCE = select.PIPE_BUF
"""Bytes that a pipe takes in one piece."""
CHUNK = 65_536


CI_SERVICES = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of CI services that take lines of the output as commands.

The services are GitHub (and Gitea and Forgejo), Azure and TeamCity.
"""


class OutputStream(io.FileIO):
    """A standard descriptor to write to.

    A ``forgiving`` stream is for runs whose work is worth more than their output. Output that can't be written, because
    the reader is gone or the disk is full, is dropped instead of raising an error, and the first error is kept as
    ``problem``. A slow reader doesn't block the run: up to ``MOST_WAITING`` bytes wait here for a thread to write them.
    Anything beyond that is dropped, and becomes the problem.
    """

    def __init__(self, descriptor: int, *, forgiving: bool = False) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.forgiving = forgiving
        self.problem: OSError | None = None
        self._chunks: deque[bytes] = deque()
        self.waiting = 0
        """Bytes still to be written."""
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of the data; on a non-blocking descriptor this waits too."""
        if self.forgiving:
            self._put(bytes(data))
            return memoryview(data).nbytes
        try:
            return self._write_now(data)
        except OSError as error:
            self.problem = error
            raise

    @property
    def is_deserted(self) -> bool:
        """True once nobody reads any more."""
        ready = select.poll()
        ready.register(self.fileno(), 0)
        return any(what & (select.POLLERR | select.POLLHUP) for _, what in ready.poll(0))

    def settle(self, seconds: float | None) -> bool:
        """Wait until the reader has taken everything, and return whether it did so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._chunks, seconds)

    def _put(self, data: bytes) -> None:
        with self._changed:
            if self.problem is not None:
                return
            try:
                rest = data if self._chunks else self._write_what_goes(data)
            except OSError as error:
                self.problem = error
                return
            if rest:
                self._leave_to_writer(rest)

    def _write_what_goes(self, data: bytes) -> bytes:
        """Write as much as the descriptor takes without waiting, and return the rest."""
        if stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            while data:
                data = data[self._write_now(data) :]
            return data
        ready = select.poll()
        ready.register(self.fileno(), select.POLLOUT)
        while data and ready.poll(0):
            data = data[self._write_now(data[:AT_ONCE]) :]
        return data

    def _leave_to_writer(self, data: bytes) -> None:
        if self.waiting + len(data) > MOST_WAITING:
            self.problem = OSError(errno.ENOBUFS, "its reader stopped reading")
            return
        self._chunks.extend(data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
        self.waiting += len(data)
        if self._writer is None:  # a daemon: the process may end before it is done
            self._writer = threading.Thread(target=self._write_on, name="standard output", daemon=True)
            self._writer.start()

    def _write_on(self) -> None:
        while data := self._next():
            try:
                while data:
                    data = data[self._write_now(data) :]
            except OSError as error:
                with self._changed:
                    self.problem = error
                    self._chunks.clear()
            with self._changed:
                if self._chunks:
                    self.waiting -= len(self._chunks.popleft())
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        with self._changed:
            if self._chunks:
                return self._chunks[0]
            self._writer, self.waiting = None, 0
            return None

    def _write_now(self, data: ReadableBuffer) -> int:
        while (written := cast("int | None", super().write(data))) is None:  # writing would block
            select.select([], [self], [])
        return written


def standard_streams(environ: Mapping[str, str]) -> tuple[TextIO, TextIO, TextIO]:
    """Return stdin, stdout and stderr. A closed stdin reads as empty; redirections within Python are kept."""
    _hold_closed_descriptors()
    stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  lives as long as the process
    if sys.stdin and sys.stdin is sys.__stdin__:
        cast("io.TextIOWrapper", stdin).reconfigure(encoding="utf-8", errors="surrogateescape")
    ci = any(environ.get(name, "").lower() not in ("", "false", "0") for name in CI_SERVICES)
    stdout = _text(1, ci=ci) if sys.stdout is sys.__stdout__ else sys.stdout
    stderr = _text(2, ci=ci, forgiving=True) if sys.stderr is sys.__stderr__ else sys.stderr
    return stdin, stdout, stderr


def forgive(stream: TextIO) -> None:
    """From now on, drop output that can't be written to ``stream``; ``problem_of`` returns the reason."""
    output = _output_stream(stream)
    if output is not None:
        output.forgiving = True


def settle(stream: TextIO, seconds: float | None = None) -> None:
    """Wait at most ``seconds`` until the reader has taken everything; drop the rest."""
    forgive(stream)
    finish = getattr(stream, "finish", None)  # only a CiLog has one
    if finish is not None:
        finish()
    stream.flush()
    output = _output_stream(stream)
    if output is not None:
        output.settle(seconds)


def waiting(stream: TextIO) -> int:
    """Return the number of bytes that the stream's reader has yet to take."""
    output = _output_stream(stream)
    return output.waiting if output else 0


def has_failed(stream: TextIO) -> bool:
    """Return whether nothing more can be written to the stream, because its reader is gone or writing failed."""
    output = _output_stream(stream)
    return output is not None and (output.problem is not None or output.is_deserted)


def problem_of(stream: TextIO) -> OSError | None:
    """Return the error that writing ran into, if any; a reader that went away is not an error."""
    output = _output_stream(stream)
    problem = output.problem if output else None
    return None if isinstance(problem, BrokenPipeError) else problem


def unwritten(problem: OSError) -> str:
    """Return the sentence about a problem with standard output."""
    why = "it is closed" if problem.errno == errno.EBADF else problem.strerror
    return f"standard output can't be written ({why}): send it to another place, or free space"


def _text(descriptor: int, *, ci: bool, forgiving: bool = False) -> TextIO:
    """Return a text stream to a descriptor.

    Only the log of a CI service is guarded against commands; a regular file gets every character as it is.
    """
    buffer = io.BufferedWriter(OutputStream(descriptor, forgiving=forgiving))
    kind = io.TextIOWrapper
    if ci and not stat.S_ISREG(os.fstat(descriptor).st_mode):
        from vibe.front.ci_log import CiLog as kind  # noqa: N813, PLC0415  few runs write to a CI service
    return kind(buffer, encoding="utf-8", errors="replace", line_buffering=os.isatty(descriptor) or forgiving)


def _output_stream(stream: TextIO) -> OutputStream | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, OutputStream) else None


def _hold_closed_descriptors() -> None:
    """Open the null device for each closed standard descriptor, so that no file of ours takes its place.

    Writing to a closed stdout then fails, and the exit code says so.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
