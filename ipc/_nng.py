"""The only module that knows pynng: its sockets, its exceptions and its traps.

- ``arecv`` answers a cancellation with a bare CancelledError that escapes anyio's scopes, and is ten times dearer than
  ``recv(block=False)`` once the descriptor is readable: nothing here uses it.
- Both buffers hold 8192 messages, the most NNG allows. A full one drops its oldest message in silence.
- ``listen`` replaces whatever file is at an ipc path: callers check first.
- A forked child hangs in pynng's exit handler and aborts when it closes a socket of its parent: neither happens there.
"""

from __future__ import annotations

import atexit
import errno
import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from typing import Any, ParamSpec

import anyio

from ipc.errors import AddressInUseError, BusUnavailableError

BUFFERED_MESSAGES = 8192
RECONNECT_MS = 50
NEVER = -1

P = ParamSpec("P")


@cache
def load() -> Any:
    """The pynng module, loaded when a socket is first needed.

    Raises:
        BusUnavailableError: It can't be loaded.
    """
    try:
        pynng = importlib.import_module("pynng")
    except (ImportError, OSError) as error:
        raise BusUnavailableError(
            "any address", f"the package pynng can't be loaded ({error})", "reinstall it with pip install pynng"
        ) from error
    os.register_at_fork(after_in_child=lambda: _disarm(pynng))
    return pynng


def _disarm(pynng: Any) -> None:
    """In a forked child: leave the parent's sockets alone, at exit and when they are collected."""
    exit_handler = getattr(pynng.nng, "_pynng_atexit", None)
    if exit_handler is not None:
        atexit.unregister(exit_handler)
    pynng.Socket.close = _leave_open


def _leave_open(_: object) -> None:
    return


def _opening(make: Callable[P, None]) -> Callable[P, None]:
    """Have what makes a socket raise ``OSError`` where the system has run out of memory or of files."""

    @wraps(make)
    def made(*args: P.args, **options: P.kwargs) -> None:
        exceptions = load().exceptions
        try:
            make(*args, **options)
        except exceptions.NoMemory as error:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from error
        except exceptions.OutOfFiles as error:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from error

    return made


class ConnectionLostError(Exception):
    """The other side went away before it answered; who asks says what that means."""


class PubSocket:
    """Sends to all listeners; never blocks."""

    @_opening
    def __init__(self, address: str) -> None:
        self._socket = load().Pub0(send_buffer_size=BUFFERED_MESSAGES)
        _listen(self._socket, address)
        self.send = self._socket.send
        """Queue one message for every subscriber, in 2 to 7 microseconds."""

    @property
    def subscribers(self) -> int:
        """Number of connected peers."""
        return len(self._socket.pipes)

    def close(self) -> None:
        """Close at once; what is still queued is dropped."""
        self._socket.close()


class ReceivedRequest:
    """A request, answered by the message it came in: that knows the way back."""

    def __init__(self, socket: Any, message: Any) -> None:
        self._socket = socket
        self._message = message
        self.data: bytes = message.bytes

    def answer(self, data: bytes) -> None:
        """Answer it, once, without waiting. An asker that is gone is ignored: it asks again if it still lives."""
        pynng, message = load(), self._message
        body = message._nng_msg  # noqa: SLF001  pynng has no other way to keep its header
        pynng.lib.nng_msg_clear(body)
        pynng.lib.nng_msg_append(body, data, len(data))
        with suppress(pynng.exceptions.NNGException):
            self._socket.send_msg(message, block=False)


class RepSocket:
    """Answers requests in whatever order their answers are known; receives and sends without waiting.

    NNG's raw mode: who sends a request of more than ``limit`` bytes is cut off.
    """

    @_opening
    def __init__(self, address: str, *, limit: int) -> None:
        pynng = self._pynng = load()
        self._socket = pynng.Rep0(
            opener=pynng.lib.nng_rep0_open_raw, recv_max_size=limit, send_buffer_size=BUFFERED_MESSAGES
        )
        _listen(self._socket, address)
        self.fd: int = self._socket.recv_fd

    def receive(self) -> ReceivedRequest | None:
        """The next request, or None if none is waiting."""
        try:
            return ReceivedRequest(self._socket, self._socket.recv_msg(block=False))
        except self._pynng.TryAgain:
            return None

    async def wait(self) -> None:
        """Wait until a request may have come."""
        await anyio.wait_readable(self.fd)

    def close(self) -> None:
        """Close at once; no task may be waiting."""
        self._socket.close()


class SubSocket:
    """Takes everything a publisher sends; connects, and connects again, by itself."""

    @_opening
    def __init__(self, address: str, buffered: int = BUFFERED_MESSAGES) -> None:
        self._pynng = load()
        self._socket = self._pynng.Sub0(
            recv_buffer_size=buffered, reconnect_time_min=RECONNECT_MS, reconnect_time_max=RECONNECT_MS
        )
        self._socket.subscribe(b"")
        _dial(self._socket, address)
        self._fd: int = self._socket.recv_fd

    def receive(self, limit: int) -> list[bytes]:
        """Return what has come, at most ``limit`` messages, without waiting."""
        frames: list[bytes] = []
        receive = self._socket.recv
        try:
            while len(frames) < limit:
                frames.append(receive(block=False))
        except self._pynng.TryAgain:
            pass
        return frames

    async def wait(self) -> None:
        """Wait until a message may have come."""
        await anyio.wait_readable(self._fd)

    def close(self) -> None:
        """Close; a task that waits is woken with an error."""
        _wake_waiters(self._fd)
        self._socket.close()


class ReqSocket:
    """Asks and waits for the answer; a cancelled question is forgotten.

    ``once``: a question is never sent a second time, whatever becomes of the connection. NNG otherwise repeats it after
    a minute, and when the other side comes back.
    """

    @_opening
    def __init__(self, address: str, *, once: bool = False) -> None:
        self._pynng = load()
        self._socket = self._pynng.Req0(reconnect_time_min=RECONNECT_MS, reconnect_time_max=RECONNECT_MS)
        if once:
            self._socket.resend_time = NEVER
        _dial(self._socket, address)
        self._send_fd: int = self._socket.send_fd
        self._recv_fd: int = self._socket.recv_fd

    async def ask(self, question: bytes) -> bytes:
        """The answer. Waits for a listener and for the answer for as long as it takes.

        Raises:
            ConnectionLostError: with ``once``: the other side went away before it answered. NNG tells of that only
                where it happens before the wait; look yourself whether the other side lives.
        """
        while True:
            try:
                self._socket.send(question, block=False)
                break
            except self._pynng.TryAgain:
                await anyio.wait_readable(self._send_fd)  # NNG makes it readable when there is room to send
        while True:
            try:
                return self._socket.recv(block=False)
            except self._pynng.TryAgain:
                await anyio.wait_readable(self._recv_fd)
            except self._pynng.ConnectionReset as error:
                raise ConnectionLostError from error

    def close(self) -> None:
        """Close; a task that waits is woken with an error."""
        _wake_waiters(self._send_fd)
        _wake_waiters(self._recv_fd)
        self._socket.close()


def _wake_waiters(fd: int) -> None:
    with suppress(anyio.NoEventLoopError):  # without a loop no task waits
        anyio.notify_closing(fd)


def _listen(socket: Any, address: str) -> None:
    pynng = load()
    # The folder protects a socket; where the user chose an open one, its own mode must.
    mask = os.umask(0o077)
    try:
        socket.listen(address)
    except pynng.AddressInUse as error:
        socket.close()
        raise AddressInUseError(address) from error
    except pynng.exceptions.NNGException as error:
        socket.close()
        raise BusUnavailableError(
            address, f"it can't be bound ({error})", "check the folder or the port, or choose another --bus"
        ) from error
    finally:
        os.umask(mask)


def _dial(socket: Any, address: str) -> None:
    pynng = load()
    try:
        socket.dial(address, block=False)
    except pynng.exceptions.NNGException as error:
        socket.close()
        raise BusUnavailableError(address, f"can't connect ({error})", "check the address") from error
