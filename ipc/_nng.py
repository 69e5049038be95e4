"""The only module that knows pynng: its sockets, its exceptions and its traps.

- ``arecv`` answers a cancellation with a bare CancelledError that escapes anyio's scopes, and it costs ten times as
  much as ``recv(block=False)`` on a readable descriptor. Nothing here uses it.
- Send and receive buffers hold 8192 messages, the most NNG allows. A full one silently drops its oldest message.
- ``listen`` replaces whatever file is at an ipc path, so callers check first.
- A forked child would hang in pynng's exit handler, and abort on opening a socket or closing one of its parent.
  ``load`` prevents all three.
"""

from __future__ import annotations

import atexit
import errno
import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from threading import Thread
from typing import Any, ParamSpec

import anyio

from ipc.errors import AddressInUseError, BusUnavailableError

BUFFERED_MESSAGES = 8192
"""Messages that a socket buffers in each direction: the most NNG allows."""

RECONNECT_MS = 50
"""Milliseconds between two attempts to reconnect."""

NEVER = -1
"""The ``resend_time`` with which NNG never repeats a question."""

P = ParamSpec("P")


@cache
def load() -> Any:
    """Return the pynng module, loaded when a socket is first needed.

    Raises:
        BusUnavailableError: it can't be loaded.
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
    """Make a forked child leave its parent's sockets alone, at exit and when they are garbage-collected, and open none.

    NNG would abort the child.
    """
    exit_handler = getattr(pynng.nng, "_pynng_atexit", None)
    if exit_handler is not None:
        atexit.unregister(exit_handler)
    pynng.Socket.__init__ = _refuse
    pynng.Socket.close = _leave_open


def _leave_open(_: object) -> None:
    """Do nothing."""


def _refuse(*_: object, **_options: object) -> None:
    problem, remedy = "this process was forked from one that had used it", "start processes by spawn, not by fork"
    raise BusUnavailableError("any address", problem, remedy)


def _raising_os_error(make: Callable[P, None]) -> Callable[P, None]:
    """Make a socket's constructor raise ``OSError`` when the system has run out of memory or of file descriptors."""

    @wraps(make)
    def wrapper(*args: P.args, **options: P.kwargs) -> None:
        exceptions = load().exceptions
        try:
            make(*args, **options)
        except exceptions.NoMemory as error:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from error
        except exceptions.OutOfFiles as error:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from error

    return wrapper


class ConnectionLostError(Exception):
    """The other side went away before it answered; what that means is for the caller to say."""


class PubSocket:
    """Sends to all subscribers and never blocks."""

    @_raising_os_error
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
    """A request, with the NNG message it came in, which knows the way back to the sender."""

    def __init__(self, socket: Any, message: Any) -> None:
        self._socket = socket
        self._message = message
        self.data: bytes = message.bytes

    def answer(self, data: bytes) -> None:
        """Answer the request, once, without waiting. If the sender is gone, the answer is dropped silently."""
        pynng, message = load(), self._message
        body = message._nng_msg  # noqa: SLF001  pynng has no other way to keep the message's header
        pynng.lib.nng_msg_clear(body)
        pynng.lib.nng_msg_append(body, data, len(data))
        with suppress(pynng.exceptions.NNGException):
            self._socket.send_msg(message, block=False)


class RepSocket:
    """Answers requests in any order; receives and sends without waiting.

    It uses NNG's raw mode. The connection of whoever sends a request of more than ``limit`` bytes is cut.
    """

    @_raising_os_error
    def __init__(self, address: str, *, limit: int) -> None:
        pynng = self._pynng = load()
        self._socket = pynng.Rep0(
            opener=pynng.lib.nng_rep0_open_raw, recv_max_size=limit, send_buffer_size=BUFFERED_MESSAGES
        )
        _listen(self._socket, address)
        self.fd: int = self._socket.recv_fd

    def receive(self) -> ReceivedRequest | None:
        """Return the next request, or None if none is waiting."""
        with suppress(self._pynng.TryAgain, self._pynng.Closed):  # pynng closes all at the end of a program
            return ReceivedRequest(self._socket, self._socket.recv_msg(block=False))
        return None

    async def wait(self) -> None:
        """Wait until a request may have come."""
        await anyio.wait_readable(self.fd)

    def close(self) -> None:
        """Close at once; no task may be waiting."""
        self._socket.close()


class SubSocket:
    """Receives everything a publisher sends, and connects and reconnects by itself."""

    @_raising_os_error
    def __init__(self, address: str, buffered: int = BUFFERED_MESSAGES) -> None:
        self._pynng = load()
        self._socket = self._pynng.Sub0(
            recv_buffer_size=buffered, reconnect_time_min=RECONNECT_MS, reconnect_time_max=RECONNECT_MS
        )
        self._socket.subscribe(b"")
        _dial(self._socket, address)
        self._fd: int = self._socket.recv_fd

    def receive(self, limit: int) -> list[bytes]:
        """Return the messages that have arrived, at most ``limit``, without waiting."""
        frames: list[bytes] = []
        receive = self._socket.recv
        with suppress(self._pynng.TryAgain):
            while len(frames) < limit:
                frames.append(receive(block=False))
        return frames

    async def wait(self) -> None:
        """Wait until a message may have come."""
        await anyio.wait_readable(self._fd)

    def close(self) -> None:
        """Close; a waiting task is woken with an error."""
        _wake_waiters(self._fd)
        Thread(target=self._socket.close).start()  # with dozens of sockets it may wait for others in this process


class ReqSocket:
    """Asks a question and waits for the answer. Asked again after a cancellation, it goes on waiting for the same one.

    With ``once``, a question is never sent a second time, whatever happens to the connection. Otherwise NNG repeats it
    after a minute, and when the other side comes back.
    """

    @_raising_os_error
    def __init__(self, address: str, *, once: bool = False) -> None:
        self._pynng = load()
        self._socket = self._pynng.Req0(reconnect_time_min=RECONNECT_MS, reconnect_time_max=RECONNECT_MS)
        if once:
            self._socket.resend_time = NEVER
        _dial(self._socket, address)
        self._send_fd: int = self._socket.send_fd
        self._recv_fd: int = self._socket.recv_fd
        self._open: bytes | None = None

    async def ask(self, question: bytes) -> bytes:
        """Send the question and return the answer. Waits without limit for a listener and for its answer.

        Raises:
            ConnectionLostError: with ``once``: the other side went away before it answered. NNG reports that only if it
                happens before the wait, so callers must watch for themselves whether the other side is alive.
        """
        while self._open != question:
            try:
                self._socket.send(question, block=False)
                self._open = question
            except self._pynng.TryAgain:
                await anyio.wait_readable(self._send_fd)  # NNG makes it readable when there is room to send
        while True:
            try:
                answer: bytes = self._socket.recv(block=False)
            except self._pynng.TryAgain:
                await anyio.wait_readable(self._recv_fd)
            except self._pynng.ConnectionReset as error:
                raise ConnectionLostError from error
            else:
                self._open = None
                return answer

    def close(self) -> None:
        """Close; a waiting task is woken with an error."""
        _wake_waiters(self._send_fd)
        _wake_waiters(self._recv_fd)
        Thread(target=self._socket.close).start()  # as above


def _wake_waiters(fd: int) -> None:
    with suppress(anyio.NoEventLoopError):  # without a loop no task waits
        anyio.notify_closing(fd)


def _listen(socket: Any, address: str) -> None:
    pynng = load()
    listener, check = pynng.ffi.new("nng_listener *"), pynng.exceptions.check_err
    try:
        check(pynng.lib.nng_listener_create(listener, socket.socket, address.encode()))
        # The run's folder protects its sockets. In a folder of the user's choice the socket's own mode has to. A umask
        # would do the same to the files of all threads.
        if address.startswith("ipc:"):
            check(pynng.lib.nng_listener_set_int(listener[0], b"ipc:permissions", 0o600))
        check(pynng.lib.nng_listener_start(listener[0], 0))
    except pynng.exceptions.NNGException as error:
        socket.close()
        if isinstance(error, pynng.AddressInUse):
            raise AddressInUseError(address) from error
        if isinstance(error, pynng.exceptions.NoMemory | pynng.exceptions.OutOfFiles):
            raise
        raise BusUnavailableError(
            address, f"it can't be bound ({error})", "check the folder or the port, or choose another --bus"
        ) from error


def _dial(socket: Any, address: str) -> None:
    pynng = load()
    try:
        socket.dial(address, block=False)
    except pynng.exceptions.NNGException as error:
        socket.close()
        raise BusUnavailableError(address, f"can't connect ({error})", "check the address") from error
