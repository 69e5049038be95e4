"""The event bus of a run, which records each event in a journal, sends it to subscribers and replays it on request."""

from __future__ import annotations

import os
import select
import shutil
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec
from anyio import CancelScope, to_thread

from ipc import codec, places
from ipc._nng import PubSocket, RepSocket, load
from ipc.errors import AddressInUseError, CodecError, IpcError
from ipc.events import Event, WarningEvent
from ipc.journal import Journal
from ipc.registry import Entry, Registry, RunInfo, checked_source

HEARTBEAT_S = 0.25
"""Seconds between two heartbeats."""

LINGER_S = 0.05
"""Seconds a closing bus waits so that connected subscribers hear of the end. NNG itself flushes nothing."""

TOKEN_BYTES = 24
"""Random bytes of a run's token."""

REQUEST_BYTES = 1 << 20
"""The largest replay request. NNG cuts the connection of whoever sends a larger one, without reading it."""

JOURNAL_UNWRITABLE = "journal.unwritable"


class EventBus:
    """Records each event, then sends it. It takes stamped events: put an ``ipc.sink.StampingSink`` before it.

    ``publish`` never blocks on a subscriber and never awaits. A thread answers replay requests and sends heartbeats.
    Opening and closing touch the disk: do both off the event loop, or use ``event_bus``.
    """

    def __init__(
        self, home: Path, *, source: str, info: RunInfo, address: str | None = None, runtime_dir: Path | None = None
    ) -> None:
        """Make the run's folder, open its journal, bind its addresses and register it.

        Args:
            home: The vibe home, whose folder ``run`` holds the registry.
            source: The id of this process run, which is also the StampingSink's.
            info: What the run says about itself.
            address: ``ipc:///path`` or ``tcp://127.0.0.1:PORT`` (replay is at the next port, control at the one after),
                to use instead of sockets in the run's folder.
            runtime_dir: ``$XDG_RUNTIME_DIR``, if it is set.

        Raises:
            BusUnavailableError: pynng can't be loaded, or the address can't be used, is in use or is open to others.
            JournalError: the journal can't be opened.
            IpcError: the folder of runs can't be listed.
        """
        checked_source(source)
        load()
        self._registry = Registry(home, runtime_dir)
        self._registry.sweep()
        given = places.addresses_from(address) if address else None
        folder = places.make_run_folder(source, home, runtime_dir, for_sockets=given is None)
        addresses = given or places.addresses_in(folder)
        places.refuse_files_in_the_way(addresses)
        self.warnings: list[WarningEvent] = []
        """The bus's own warnings, which it has no way to record."""
        self._closed = self._ending = False
        # Any user of the machine can connect to a TCP port, so there only a holder of the run's token may read.
        self._needs_token = addresses.events.startswith(places.TCP)
        self.journal = Journal(folder / places.JOURNAL_NAME)
        self.entry = Entry(
            source=source,
            **msgspec.structs.asdict(addresses),
            journal=str(self.journal.path),
            pid=os.getpid(),
            started=time.time(),
            info=info,
            token=os.urandom(TOKEN_BYTES).hex(),
        )
        """The registered entry: addresses, journal, process and run."""
        try:
            self._bind()
        except BaseException as error:
            self.journal.close()
            if self.journal.head == 0:
                with suppress(OSError):
                    self.journal.path.unlink()
                    folder.rmdir()
            if isinstance(error, AddressInUseError):
                raise AddressInUseError(error.address, _owner(self._registry, addresses)) from error
            raise

    def _bind(self) -> None:
        with ExitStack() as undo:
            self._pub = PubSocket(self.entry.events)
            undo.callback(self._pub.close)
            self._rep = RepSocket(self.entry.replay, limit=REQUEST_BYTES)
            undo.callback(self._rep.close)
            self._wake_out, self._wake_in = os.pipe()
            undo.callback(os.close, self._wake_in)
            undo.callback(os.close, self._wake_out)
            self._registry.register(self.entry)
            undo.callback(self._registry.remove, self.entry)
            self._service = threading.Thread(target=self._serve, name="event-bus", daemon=True)
            self._service.start()
            undo.pop_all()

    @property
    def failed(self) -> bool:
        """True once an event could not be written at once. Then the run must not end as a success, come what may."""
        return self.journal.error is not None

    def publish(self, event: Event) -> None:
        """Record and send one stamped event.

        Raises:
            IpcError: the event is not the next one, which is a defect of the caller.
            JournalError: the disk is full, and so is the memory set aside for unwritten events.
        """
        if event.seq != self.journal.head + 1:
            expected = f"the bus expected event {self.journal.head + 1} and was given {event.seq}"
            raise IpcError(f"{expected}: put one ipc.sink.StampingSink before it, and publish to nothing else")
        body = codec.encode_event(event)
        self.journal.append(body)
        self._warn_once()
        if self._needs_token:
            self._send_heartbeat(end=False)
        else:
            self._pub.send(codec.event_frame(event, body))

    def announce(self, info: RunInfo) -> None:
        """Update what the run says about itself, once its plan or session is known. Writes a file.

        Raises:
            BusUnavailableError: the file can't be written.
        """
        self.entry = msgspec.structs.replace(self.entry, info=info)
        self._registry.register(self.entry)

    def close(self) -> None:
        """Sync the journal, tell subscribers that the run has ended, and close the sockets; idempotent."""
        if self._closed or os.getpid() != self.entry.pid:
            return  # a forked child must not end its parent's bus
        self._closed = True
        self.journal.sync()
        self._warn_once()
        self._registry.remove(self.entry, self.journal.head)
        self._ending = True
        os.write(self._wake_in, b"x")
        self._service.join()
        self._rep.close()
        self._pub.close()
        os.close(self._wake_in)
        os.close(self._wake_out)
        self.journal.close()
        if not self.entry.info.kept:
            shutil.rmtree(self.journal.path.parent, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warn_once(self) -> None:
        """Record a warning if the journal can't be written, the first time that it can't."""
        if self.journal.error is None or self.warnings:
            return
        reason = self.journal.error.strerror or "it can't be written"
        message = (
            f"the journal {self.journal.path} can't be written: {reason}; events are kept in memory until there is "
            "room, and the run ends with exit code 3"
        )
        self.warnings.append(
            WarningEvent(source=self.entry.source, ts=time.time(), code=JOURNAL_UNWRITABLE, message=message)
        )

    def _serve(self) -> None:
        """Run the service thread: answer requests and send heartbeats, then linger for subscribers at the end."""
        poll = select.poll()
        poll.register(self._rep.fd, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        next_beat = 0.0
        while not self._ending:
            if time.monotonic() >= next_beat:
                self._send_heartbeat(end=False)
                next_beat = time.monotonic() + HEARTBEAT_S
            poll.poll(max(0.0, next_beat - time.monotonic()) * 1000)
            self._answer_all()
        poll.unregister(self._wake_out)
        self._send_heartbeat(end=True)
        deadline = time.monotonic() + (LINGER_S if self._pub.subscribers else 0.0)
        while (left := deadline - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self._answer_all()

    def _send_heartbeat(self, *, end: bool) -> None:
        self._pub.send(codec.heartbeat_frame(codec.Heartbeat(source=self.entry.source, seq=self.journal.head, end=end)))

    def _answer_all(self) -> None:
        while (received := self._rep.receive()) is not None:
            request = codec.ReplayRequest()
            with suppress(CodecError):
                request = codec.decode_request(received.data)
            received.answer(self._answer(request))

    def _answer(self, request: codec.ReplayRequest) -> bytes:
        if self._needs_token and not self.entry.allows(request.token):
            return codec.encode_answer(codec.ReplayHeader(version=codec.WIRE_VERSION, refused=True), [])
        head = self.journal.head
        bodies: list[bytes] = []
        first = max(request.first, 1) if request.first is not None else 0
        if first:
            last = head if request.last is None else request.last
            with suppress(OSError):  # if the disk can't be read now, the subscriber asks again
                bodies = self.journal.read(first, last)
        header = codec.ReplayHeader(
            version=codec.WIRE_VERSION,
            source=self.entry.source,
            seq=head,
            end=self._ending,
            first=first,
            count=len(bodies),
            journal=self.entry.journal,
        )
        return codec.encode_answer(header, bodies)


@asynccontextmanager
async def event_bus(make: Callable[[], EventBus]) -> AsyncGenerator[EventBus]:
    """Call ``make`` in a worker thread, yield the ``EventBus``, and close it in a worker thread.

    A cancellation doesn't interrupt the closing.

    Raises:
        BusUnavailableError: as ``EventBus`` does.
        JournalError: as ``EventBus`` does.
    """
    bus = await to_thread.run_sync(make)
    try:
        yield bus
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(bus.close)


def _owner(registry: Registry, addresses: places.Addresses) -> str:
    entry = registry.owner_of(addresses.events)
    if entry is None:
        return "a program not registered in this VIBE_HOME"
    title = f" ({entry.info.title!r})" if entry.info.title else ""
    return f"run {entry.source}{title}, process {entry.pid}"
