"""The keyboard of a terminal: lines awaited without a thread or a blocked loop, and keys kept off the picture."""

from __future__ import annotations

import os
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from errno import ENODEV
from types import TracebackType
from typing import Any, Self, TextIO

import anyio

CHUNK = 4096
TERMINAL_DEVICE = "/dev/tty"
_LOCAL_FLAGS = 3
"""Where termios keeps ECHO in the list of a terminal's attributes."""


class KeyboardGoneError(OSError):
    """The terminal cannot be read, or has been closed."""


class Keyboard:
    """Reads a terminal through a descriptor of its own; a context manager.

    A descriptor of its own, because reading must not block and ``O_NONBLOCK`` would otherwise be shared with
    everything that writes to the same terminal, the user's shell included.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._fd = -1
        self._held = b""

    def __enter__(self) -> Self:
        """Open it.

        Raises:
            KeyboardGoneError: ``terminal`` is no terminal, or cannot be opened.
        """
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self._fd = os.open(self._device(), flags)
        except OSError as error:
            raise KeyboardGoneError(*error.args) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def forget(self) -> None:
        """Throw away what has been typed and not been read.

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        self._held = b""
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error as error:
            raise KeyboardGoneError(*error.args) from error

    async def line(self) -> str | None:
        """The next line without its end; None when the person closed the input (Ctrl-D).

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        while b"\n" not in self._held:
            await anyio.wait_readable(self._fd)
            try:
                piece = os.read(self._fd, CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise KeyboardGoneError(*error.args) from error
            if not piece:
                return None
            self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        return line.decode(errors="replace")

    def _device(self) -> str:
        try:
            return os.ttyname(self._terminal)
        except OSError as error:
            if error.errno != ENODEV:
                raise
            return TERMINAL_DEVICE  # it is one, of a name that is unknown in this container


@contextmanager
def hushed(out: TextIO) -> Generator[None]:
    """Keys typed at the terminal behind ``out`` are not echoed while the block runs, so they can't disturb a picture.

    Does nothing where there is no terminal or its foreground belongs to others: changing it would stop this process.
    """
    fd = _foreground(out)
    if fd is None:
        yield
        return
    before = termios.tcgetattr(fd)
    silent = list(before)
    silent[_LOCAL_FLAGS] &= ~termios.ECHO
    _set(fd, silent)
    try:
        yield
    finally:
        _set(fd, before)


def _foreground(out: TextIO) -> int | None:
    """The descriptor of a terminal that listens to this process; None if ``out`` is none."""
    with suppress(OSError):
        fd = out.fileno()
        return fd if os.tcgetpgrp(fd) == os.getpgrp() else None
    return None


def _set(fd: int, attributes: list[Any]) -> None:
    """Change a terminal; one that has gone away needs no change."""
    with suppress(termios.error):
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
