"""Serves commands at a run's control address, and sends commands to other runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field, structs

from ipc import commands
from ipc._nng import ConnectionLostError, ReceivedRequest, RepSocket, ReqSocket
from ipc.errors import IpcError, RequestInvalidError
from ipc.registry import Entry
from vibe.system.racing import bare_task_group, unless

TRANSPORT_LIMIT_BYTES = 4 * commands.MAX_REQUEST_BYTES
"""The largest message that is read at all; NNG cuts the connection of whoever sends a larger one."""

MOST_WAITING = 256
"""Commands that may wait for their reply. Further ones are refused, except those that pause or cancel the run."""

MOST_REMEMBERED = 1_000
"""Replies that are kept for senders who ask again with the same ``command_id``."""

SETTLING_S = 1.0
"""Seconds that an ending run has to reply to the commands that still wait."""

LINGER_S = 0.05
"""Seconds that the last answer has to leave before the socket closes. NNG itself flushes nothing."""

POLL_S = 0.1
"""Seconds between two checks, by a caller that waits for an answer, whether the run is still alive."""

Serve: TypeAlias = Callable[[commands.RunCommand], Awaitable[commands.Reply]]
"""Carries out a command or refuses it. Several calls may run at the same time."""

_logger = logging.getLogger(__name__)


class _RememberedCommand(Struct):
    """A command with an id, and its reply once there is one."""

    command: commands.RunCommand
    done: anyio.Event = field(default_factory=anyio.Event)
    reply: commands.Reply | None = None


class CommandDesk(Struct, eq=False):
    """Checks the commands that reach a run over one channel, and has ``_serve_command`` carry out each of them once."""

    _entry: Entry
    _serve_command: Serve
    _remembered: dict[str, _RememberedCommand] = field(default_factory=dict[str, _RememberedCommand])

    def command_in(self, data: bytes, *, is_owner: bool = False) -> commands.RunCommand | commands.Reply:
        """Return the command in a request, or at once the reply if there is nothing to carry out.

        ``is_owner`` says that the request comes from whoever started the run, who needs no token.
        """
        try:
            envelope = commands.decode_envelope(data)
            if not (is_owner or self._entry.allows(envelope.token)):
                return refusal("token", "wrong token: use the one in the run's file in $VIBE_HOME/run")
            if envelope.version != commands.COMMAND_VERSION:
                versions = f"the request has version {envelope.version}, this run needs {commands.COMMAND_VERSION}"
                return refusal("version", versions)
            if envelope.type not in _TAGS:
                return refusal("unknown", f"unknown request {envelope.type[:60]!r}: known are {', '.join(_TAGS)}")
            command = commands.decode_command(data)
        except RequestInvalidError as error:
            return refusal("invalid", str(error))
        if isinstance(command, commands.Ping):
            known = {"source": self._entry.source, "pid": self._entry.pid, "requests": list(_TAGS)}
            return commands.Reply(ok=True, message=f"run {self._entry.source} is running", data=known)
        return structs.replace(command, token="")

    async def reply(self, command: commands.RunCommand) -> commands.Reply:
        """Carry a command out and return its reply; a ``command_id`` seen before only gets its reply again.

        A list of the open requests is always made anew.
        """
        if not command.command_id or isinstance(command, commands.Requests):
            return await self._reply(command)
        known = self._remembered.get(command.command_id)
        if known is None:
            known = self._remembered[command.command_id] = _RememberedCommand(command)
            if len(self._remembered) > MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            try:
                known.reply = await self._reply(command)
            finally:
                known.done.set()
        elif known.command != command:
            return refusal(
                "invalid", f"the command_id {command.command_id!r} was used by another command: give each a unique one"
            )
        await known.done.wait()
        return known.reply or _NO_REPLY

    async def _reply(self, command: commands.RunCommand) -> commands.Reply:
        try:
            return await self._serve_command(command)
        except Exception as error:  # one of the four doors: the run goes on, and the sender hears of the defect
            _logger.exception("a command could not be served")
            what = type(error).__name__
            return refusal("defect", f"the run could not serve this ({what}): this is a bug in vibe, please report it")


class _ControlServer(Struct, eq=False):
    """Takes the requests of one socket. Each command runs in a task of its own, so that none delays another."""

    _desk: CommandDesk
    _socket: RepSocket
    _waiting: dict[ReceivedRequest, anyio.CancelScope] = field(default_factory=dict[ReceivedRequest, anyio.CancelScope])
    _answered: float = -LINGER_S
    _listening_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _stopped_listening: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve while the block runs."""
        async with bare_task_group() as tasks:
            tasks.start_soon(self._listen, tasks)
            try:
                yield
            finally:
                await self._end()

    async def _listen(self, tasks: TaskGroup) -> None:
        try:
            with self._listening_scope:
                while True:
                    await self._socket.wait()
                    self._handle_all(tasks)
        finally:
            self._stopped_listening.set()

    async def _end(self) -> None:
        """Let waiting commands get their replies, and refuse requests that still arrive."""
        self._listening_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._stopped_listening.wait()
            await self._wait_for_replies()
            while (left := self._answered + LINGER_S - anyio.current_time()) > 0:
                with anyio.move_on_after(left):
                    await self._socket.wait()
                    self._handle_all(None)

    async def _wait_for_replies(self) -> None:
        """Wait for the tasks of commands, and cancel those that take longer than SETTLING_S."""
        with anyio.move_on_after(SETTLING_S):
            while self._waiting:  # noqa: ASYNC110  ends in milliseconds
                await anyio.sleep(0.001)
        for scope in self._waiting.values():
            scope.cancel()
        while self._waiting:  # noqa: ASYNC110  as above
            await anyio.sleep(0.001)

    def _handle_all(self, tasks: TaskGroup | None) -> None:
        """Answer every request that has arrived, or start a task that does. Without ``tasks`` the run has ended."""
        while (request := self._socket.receive()) is not None:
            command = self._desk.command_in(request.data)
            if isinstance(command, commands.Reply):
                self._answer(request, command)
            elif tasks is None:
                self._answer(request, _ENDED)
            elif len(self._waiting) >= MOST_WAITING and not isinstance(command, commands.Pause | commands.Cancel):
                problem = f"{MOST_WAITING} commands are already waiting: try again later"
                self._answer(request, refusal("refused", problem))
            else:
                self._waiting[request] = anyio.CancelScope()
                tasks.start_soon(self._serve, request, command)

    async def _serve(self, request: ReceivedRequest, command: commands.RunCommand) -> None:
        reply = _NO_REPLY
        try:
            with self._waiting[request]:
                reply = await self._desk.reply(command)
        finally:
            del self._waiting[request]
            self._answer(request, reply)

    def _answer(self, request: ReceivedRequest, reply: commands.Reply) -> None:
        request.answer(commands.encode_reply(reply))
        self._answered = anyio.current_time()


_TAGS = tuple(commands.tag_of(kind) for kind in commands.KINDS)


def refusal(reason: str, message: str) -> commands.Reply:
    """Return the reply to a request that changed nothing; ``reason`` is as in ``Reply``."""
    return commands.Reply(ok=False, message=message, reason=reason)


_ENDED = refusal("ended", "the run has ended: nothing was changed")
_NO_REPLY = refusal("ended", "the run ended before it replied: check its status")


@asynccontextmanager
async def control_server(entry: Entry, serve: Serve) -> AsyncGenerator[None]:
    """Take commands at the control address of ``entry`` while the block runs, and pass them to ``serve`` on its loop.

    Each command is served as it arrives, whatever others wait for. ``serve`` must not raise; if it does, the sender is
    told of the defect. A request without the entry's token, of another version or of an unknown type is refused with
    the reason and changes nothing. So is anything that is not a request, or arrives while the block ends.

    Raises:
        BusUnavailableError: the address can't be bound or is in use.
    """
    socket = await anyio.to_thread.run_sync(lambda: RepSocket(entry.control, limit=TRANSPORT_LIMIT_BYTES))
    try:
        async with _ControlServer(CommandDesk(entry, serve), socket).serving():
            yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(socket.close)


async def send_command(entry: Entry, command: commands.Command) -> commands.Reply:
    """Send a command to a run, with the run's token, and wait for the reply. The caller sets the deadline.

    Raises:
        IpcError: the run ended before it answered, so nobody knows how much of the command it carried out.
        RequestInvalidError: the command holds what JSON can't hold, or is too large.
        CodecError: the answer is invalid.
        BusUnavailableError: pynng can't be loaded, or the address is invalid.
    """
    question = commands.encode_command(structs.replace(command, token=entry.token))
    socket = await anyio.to_thread.run_sync(lambda: ReqSocket(entry.control, once=True))
    try:
        answers = await unless(partial(_wait_until_ended, entry), partial(socket.ask, question))
    except ConnectionLostError:
        answers = []
    finally:
        socket.close()
    if not answers:
        gone = f"run {entry.source} (process {entry.pid}) ended before it answered"
        raise IpcError(f"{gone}: check its status, then try again")
    return commands.decode_reply(answers[0])


async def _wait_until_ended(entry: Entry) -> None:
    """Wait for a run to end, and then a moment longer for its last reply to arrive."""
    while await anyio.to_thread.run_sync(lambda: entry.alive):  # noqa: ASYNC110  no event reports another process's end
        await anyio.sleep(POLL_S)
    await anyio.sleep(POLL_S)
