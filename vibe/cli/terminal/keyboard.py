"""Reads a terminal's keyboard without a thread or a blocked event loop, and keeps typed keys off the picture."""

from __future__ import annotations

import os
import re
import select
import termios
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from errno import ENODEV
from typing import Any, Self, TextIO

import anyio

from vibe.system.errors import error_as, os_error_as
from vibe.system.plain_text import ESCAPE

CHUNK = 4096
TERMINAL_DEVICE = "/dev/tty"
SEQUENCE_SECONDS = 0.05
"""Seconds within which the rest of a key's escape sequence arrives; anything later was typed by itself."""
_SEQUENCE = re.compile(rb"[\[O][0-9;?]*[A-Za-z~]")
_ARROWS = {b"A": "up", b"B": "down"}
_NAMES = {"\n": "enter", "\r": "enter", "k": "up", "j": "down"}
_ONE_BY_ONE = termios.ICANON | termios.ECHO
"""Terminal flags that, when cleared, deliver each key as it is pressed and show none."""
_LOCAL_FLAGS, _CONTROL_CHARACTERS = 3, 6
"""Positions of ECHO and of the control characters in termios's list of a terminal's attributes."""


class KeyboardGoneError(OSError):
    """The terminal can't be read, or has been closed."""


class Keyboard:
    """Reads a terminal through a descriptor of its own; a context manager.

    It needs its own descriptor because reading must not block, and ``O_NONBLOCK`` would otherwise be shared with
    everything that writes to the same terminal, including the user's shell. With ``escape``, the Esc key also ends a
    line; ``line`` then returns ESCAPE, whatever was typed before it.
    """

    def __init__(self, terminal: int, *, escape: bool = False) -> None:
        self._terminal = terminal
        self._alters = escape
        self._before: list[Any] | None = None
        self._fd = -1
        self._held = b""

    def __enter__(self) -> Self:
        """Open the terminal.

        Raises:
            KeyboardGoneError: ``terminal`` is no terminal, or can't be opened.
        """
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with os_error_as(lambda error: KeyboardGoneError(*error.args)):
            self._fd = os.open(self._device(), flags)
        if self._alters and not is_in_background(self._fd):
            self._before = termios.tcgetattr(self._fd)
            _set(self._fd, self._altered(list(self._before)))
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _set(self._fd, self._before)
        os.close(self._fd)

    def forget(self) -> None:
        """Discard what was typed but not read.

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        self._held = b""
        with error_as(termios.error, lambda error: KeyboardGoneError(*error.args)):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def has_input(self) -> bool:
        """Return whether there is a line that ``line`` has not read, or the input was closed."""
        return bool(select.select([self._fd], [], [], 0)[0])

    async def line(self) -> str | None:
        """Return the next line without its line break, or None if the person closed the input (Ctrl-D).

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        while b"\n" not in self._held:
            await anyio.wait_readable(self._fd)
            piece = self._read()
            if piece is None:
                continue
            if not piece:
                return None
            self._held += piece
            if self._before is not None and piece.endswith(b"\x1b"):
                behind = await self._behind_sequence()
                if behind is None:
                    self._held = b""
                    return ESCAPE
                self._held = self._held[:-1] + behind
        line, _, self._held = self._held.partition(b"\n")
        return line.decode(errors="replace")

    def _read(self) -> bytes | None:
        """Return the bytes that can be read now, or None if there are none yet.

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        try:
            return os.read(self._fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            raise KeyboardGoneError(*error.args) from error

    def _altered(self, attributes: list[Any]) -> list[Any]:
        """Return terminal attributes under which the Esc key also ends a line."""
        attributes[_CONTROL_CHARACTERS] = list(attributes[_CONTROL_CHARACTERS])
        attributes[_CONTROL_CHARACTERS][termios.VEOL] = ESCAPE.encode()
        return attributes

    async def _behind_sequence(self) -> bytes | None:
        """Return the text typed after another key's sequence, such as an arrow's; None if it was Esc.

        Only a terminal that doesn't wait for the end of a line delivers what follows.
        """
        with_lines = termios.tcgetattr(self._fd)
        _set(self._fd, _without(_ONE_BY_ONE, with_lines))
        try:
            await anyio.sleep(SEQUENCE_SECONDS)
            sequence = _SEQUENCE.match(typed := self._read() or b"")
            return None if sequence is None else typed[sequence.end() :]
        finally:
            _set(self._fd, with_lines)

    def _device(self) -> str:
        try:
            return os.ttyname(self._terminal)
        except OSError as error:
            if error.errno != ENODEV:
                raise
            return TERMINAL_DEVICE  # a terminal whose name is unknown in this container


class Keys(Keyboard):
    """Reads single keys as they are pressed, without echo, if it is opened with ``escape``; a context manager."""

    def _altered(self, attributes: list[Any]) -> list[Any]:
        return _without(_ONE_BY_ONE, attributes)

    async def key(self) -> str | None:
        """Return the next key: ``up``, ``down``, ``enter``, ``escape`` or a character; None if the input was closed.

        Raises:
            KeyboardGoneError: the terminal has been closed.
        """
        while not self._held:
            await anyio.wait_readable(self._fd)
            piece = self._read()
            if piece == b"":
                return None
            self._held = piece or b""
        if self._held == ESCAPE.encode():
            with anyio.move_on_after(SEQUENCE_SECONDS):
                await anyio.wait_readable(self._fd)
                self._held += self._read() or b""
        if self._held.startswith(ESCAPE.encode()):
            sequence = _SEQUENCE.match(self._held, 1)
            name = "escape" if sequence is None else _ARROWS.get(sequence.group()[-1:], "")
            self._held = self._held[1 if sequence is None else sequence.end() :]
            return name
        character, self._held = self._held[:1].decode(errors="replace"), self._held[1:]
        return None if character == "\x04" else _NAMES.get(character, character)


@contextmanager
def hushed(out: TextIO) -> Generator[None]:
    """Turn off echo at the terminal behind ``out`` while the block runs, so that keys can't disturb a picture.

    Does nothing if there is no terminal or others own its foreground, because changing it would stop this process.
    """
    fd = _foreground(out)
    with nullcontext() if fd is None else unseen(fd):
        yield


@contextmanager
def unseen(terminal: int) -> Generator[None]:
    """Hide what is typed while the block runs, for a secret.

    Raises:
        KeyboardGoneError: the terminal can't do that, or is gone.
    """
    with error_as(termios.error, lambda error: KeyboardGoneError(*error.args)):
        before = termios.tcgetattr(terminal)
        termios.tcsetattr(terminal, termios.TCSANOW, _without(termios.ECHO, before))
    try:
        yield
    finally:
        _set(terminal, before)


def _without(flags: int, attributes: list[Any]) -> list[Any]:
    """Return terminal attributes with some local flags cleared."""
    changed = list(attributes)
    changed[_LOCAL_FLAGS] &= ~flags
    return changed


def _foreground(out: TextIO) -> int | None:
    """Return the descriptor of the terminal whose foreground this process owns, or None if ``out`` is none."""
    with suppress(OSError):
        fd = out.fileno()
        return fd if os.tcgetpgrp(fd) == os.getpgrp() else None
    return None


def is_in_background(fd: int) -> bool:
    """Return whether reading or changing the terminal would stop this process as a background job."""
    with suppress(OSError):
        return os.tcgetpgrp(fd) != os.getpgrp()
    return False


def _set(fd: int, attributes: list[Any]) -> None:
    """Change a terminal's attributes; one that is gone needs no change."""
    with suppress(termios.error):
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
