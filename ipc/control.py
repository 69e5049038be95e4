"""Wishes for a run: a server on its control address, in a thread of its own, and the client that asks it."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
import msgspec
from anyio import to_thread

from ipc._nng import ConnectionLostError, RepSocket, ReqSocket
from ipc.commands import (
    COMMAND_VERSION,
    KINDS,
    MAX_REQUEST_BYTES,
    Command,
    Ping,
    Reply,
    Wish,
    decode_command,
    decode_envelope,
    decode_reply,
    encode_command,
    encode_reply,
    tag_of,
)
from ipc.errors import RequestInvalidError, RunGoneError
from ipc.registry import Entry

TRANSPORT_LIMIT_BYTES = 4 * MAX_REQUEST_BYTES
"""A message larger than this is not even read: NNG cuts the connection."""

LINGER_S = 0.05
"""Time that the last answer has to leave before the socket closes. NNG itself flushes nothing."""

LOOK_S = 0.1
"""A caller that waits for an answer checks that often whether the run still lives."""

_logger = logging.getLogger(__name__)


class ControlServer:
    """Takes wishes at the control address of ``entry`` and hands them to ``serve``, one after the other, in its thread.

    ``serve`` may wait some seconds, and must not raise; where it does, the asker is told. A request without the entry's
    token, of another version or of an unknown kind, and anything that is no request, is answered with what is the
    matter and changes nothing. Opening and closing wait: call them off the loop, or use ``control_server``.

    Raises:
        BusUnavailableError: The address can't be bound or is in use.
    """

    def __init__(self, entry: Entry, serve: Callable[[Wish], Reply]) -> None:
        self._entry = entry
        self._serve_wish = serve
        self._socket = RepSocket(entry.control, limit=TRANSPORT_LIMIT_BYTES)
        self._ending = False
        self._closed = False
        self._answered = 0.0
        self._wake_out, self._wake_in = os.pipe()
        self._service = threading.Thread(target=self._run, name="control", daemon=True)
        self._service.start()

    def close(self) -> None:
        """Refuse what still comes, then close. A second call does nothing."""
        if self._closed or os.getpid() != self._entry.pid:
            return  # a forked child must not end its parent's server
        self._closed = True
        self._ending = True
        os.write(self._wake_in, b"x")
        self._service.join()
        self._socket.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._socket.fd, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        while not self._ending:
            poll.poll()
            self._answer_all()
        poll.unregister(self._wake_out)
        while (left := self._answered + LINGER_S - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self._answer_all()

    def _answer_all(self) -> None:
        while (request := self._socket.receive()) is not None:
            self._socket.answer(encode_reply(self._reply(request)))
            self._answered = time.monotonic()

    def _reply(self, request: bytes) -> Reply:
        try:
            return self._carry_out(request)
        except RequestInvalidError as error:
            return refusal("invalid", str(error))
        except Exception as error:  # the door of a front end's request: the run goes on, the asker is told
            _logger.exception("a wish could not be served")
            what = type(error).__name__
            return refusal("defect", f"the run could not serve this ({what}): this is a defect of vibe, report it")

    def _carry_out(self, request: bytes) -> Reply:
        envelope = decode_envelope(request)
        if not self._entry.allows(envelope.token):
            return refusal("token", "the token is wrong: take the one in the run's file in $VIBE_HOME/run")
        if envelope.version != COMMAND_VERSION:
            return refusal("version", f"the request has version {envelope.version}, this run speaks {COMMAND_VERSION}")
        if envelope.type not in _TAGS:
            return refusal("unknown", f"unknown request {envelope.type[:60]!r}: a run knows {', '.join(_TAGS)}")
        command = decode_command(request)
        if isinstance(command, Ping):
            data = {"source": self._entry.source, "pid": self._entry.pid, "requests": list(_TAGS)}
            return Reply(ok=True, message=f"run {self._entry.source} is there", data=data)
        if self._ending:
            return refusal("ended", "the run has ended: nothing was changed")
        return self._serve_wish(command)


_TAGS = tuple(tag_of(kind) for kind in KINDS)


def refusal(reason: str, message: str) -> Reply:
    """The reply to a request that changed nothing; ``reason`` as in ``Reply``."""
    return Reply(ok=False, message=message, reason=reason)


@asynccontextmanager
async def control_server(entry: Entry, serve: Callable[[Wish], Reply]) -> AsyncGenerator[ControlServer]:
    """A ControlServer opened and closed in worker threads, for use on the loop; closing is not cut short.

    Raises:
        BusUnavailableError: As ``ControlServer``.
    """
    server = await to_thread.run_sync(ControlServer, entry, serve)
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(server.close)


async def send_command(entry: Entry, command: Command) -> Reply:
    """Ask a run and wait for what it says; the deadline is the caller's.

    The token is put in here.

    Raises:
        RunGoneError: It ended before it answered; what it did of the wish is not known.
        RequestInvalidError: The command holds what is no JSON, or is too large.
        CodecError: The answer is none.
        BusUnavailableError: pynng can't be loaded, or the address is none.
    """
    question = encode_command(msgspec.structs.replace(command, token=entry.token))
    socket = await to_thread.run_sync(lambda: ReqSocket(entry.control, once=True))
    answer: bytes | None = None
    try:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                nonlocal answer
                with suppress(ConnectionLostError):
                    answer = await socket.ask(question)
                tasks.cancel_scope.cancel()

            tasks.start_soon(ask)
            while await to_thread.run_sync(lambda: entry.alive):  # noqa: ASYNC110  no event tells of another process
                await anyio.sleep(LOOK_S)
            await anyio.sleep(LOOK_S)  # for what it said last
            tasks.cancel_scope.cancel()
    finally:
        socket.close()
    if answer is None:
        raise RunGoneError(entry.source, entry.pid)
    return decode_reply(answer)
