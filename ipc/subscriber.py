"""Subscribes to the events of one publisher and yields each exactly once: live, by replay, or from the journal.

It connects to the live stream first and asks for what it missed afterwards. It takes every message and filters itself,
because a filtered stream can't show gaps. Whatever the sequence numbers or a heartbeat show to be missing it fetches by
replay. Once the publisher has ended or died, it reads the rest from the journal file.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self, TypeAlias

from anyio import lowlevel, move_on_after, sleep, to_thread
from msgspec import structs

from ipc._nng import BUFFERED_MESSAGES, ReqSocket, SubSocket
from ipc.codec import (
    EventRecord,
    Heartbeat,
    ReplayHeader,
    ReplayRequest,
    decode_answer,
    decode_frame,
    decode_head,
    encode_request,
)
from ipc.errors import CodecError, EventsLostError, IpcError, JournalError, UnknownSourceError
from ipc.events import Event
from ipc.journal import JournalReader, is_being_written, reader_from
from ipc.registry import Entry, Registry, last_in_good_order

After: TypeAlias = int | Literal["now"]
"""The number of the event to start after (0 to start from the first), or ``"now"`` for whatever comes next."""

SILENCE_S = 1.0
"""Seconds without a message after which the subscriber checks whether the publisher is still alive."""
LOST_S = 5.0
"""Seconds without a message after which a publisher counts as dead, if its journal can't be seen from here."""
ANSWER_S = 1.0
"""Seconds to wait for a replay answer before asking again."""
CONNECT_S = 2.0
"""Seconds to wait for the first answer, on connecting."""
FRAMES_AT_ONCE = 256
"""Live messages taken in between two checkpoints of the event loop."""

EVENTS_AT_ONCE = 200
"""Events passed on in between two checkpoints of the event loop."""
NO_JOURNAL = "give the path of a journal.jsonl of a run"
_RETRY_S = 0.05
"""Seconds to wait before asking again, after an answer without events."""


class EndReason(StrEnum):
    """The reason why a subscription ended."""

    FINISHED = "finished"
    """The publisher closed its bus."""
    DIED = "died"
    """The publisher's process is gone; everything it recorded was delivered."""
    REPLACED = "replaced"
    """Another publisher took its address; everything the first one recorded was delivered."""


class Subscription:
    """Yields each event of one publisher once, in order, and ends when the publisher has ended.

    Use it as ``async with subscribe(...) as records: async for record in records``. ``source`` is the publisher's id,
    ``ended`` says why the subscription ended, ``replayed`` counts the events that did not come live. Memory is bounded
    by one replay batch (1 MiB) and NNG's buffer. A slow consumer slows no other.

    Raises:
        UnknownSourceError: on entering: nothing is known of the publisher, or it does not answer.
        IpcError: on entering: the publisher is on TCP and wants the run's token, which this home does not know.
        BusUnavailableError: on entering: pynng can't be loaded, or the address can't be used.
        EventsLostError: at the end: the publisher is gone and announced events that its journal does not hold.
        JournalError: at the end: a line of the journal is damaged, though no event is missing that is known of.
        CodecError: while iterating: the publisher speaks another version of the wire format.
    """

    buffered = BUFFERED_MESSAGES
    """Live messages that may wait for a slow consumer; beyond that the oldest are dropped and replayed later."""
    gather_seconds = 0.0
    """Seconds to let live events gather once one has come. A consumer that can wait is woken less often."""

    def __init__(
        self,
        source_or_address_or_journal: str | Path,
        *,
        home: Path,
        after: After = 0,
        topics: Sequence[str] = (),
        runtime_dir: Path | None = None,
        token: str = "",
    ) -> None:
        """Subscribe to the events of a publisher that come after ``after``.

        Args:
            source_or_address_or_journal: A source id (or a unique prefix), a plan or session id, ``ipc://..``,
                ``tcp://..``, or the path of a journal.
            home: The vibe home whose registry knows the publisher.
            after: The number of the last event that is not wanted, or ``"now"``.
            topics: Prefixes of the topics wanted (``plan.``, ``tool.call|plan-1``); every event if empty.
            runtime_dir: ``$XDG_RUNTIME_DIR``, where ended runs may have left their journals.
            token: The run's token, for a run on TCP that ``home`` does not know.
        """
        self.source: str | None = None
        self.ended: EndReason | None = None
        self.replayed = 0
        self._target = source_or_address_or_journal
        self._registry = Registry(home, runtime_dir)
        self._topics = tuple(topics)
        self._token = token
        self._next: int | None = None if after == "now" else after + 1
        self.head = 0
        """The number of the newest event known of, or 0. For a journal alone, that is the newest one read so far.

        If its publisher has ended in good order, it is the last one, whether the journal still holds it or not.
        """
        self._ready: deque[EventRecord] = deque()
        self._journal: Path | None = None
        self._stream: SubSocket | None = None
        self._requests: ReqSocket | None = None
        self._reader: JournalReader | None = None
        self._ending: EndReason | None = None
        self._lost: list[tuple[int, int]] = []
        self._damaged = ""
        """The damage of the first line of the journal, among those wanted, that holds no event."""
        self._last_message = 0.0

    @property
    def is_live(self) -> bool:
        """True while the publisher is connected and events arrive as it publishes them."""
        return self._reader is None and self._ending is None and self.ended is None

    async def __aenter__(self) -> Self:
        try:
            await self._connect(await to_thread.run_sync(self._registry.resolve, self._target))
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventRecord:
        while not self._ready:
            if self.ended is not None:
                raise StopAsyncIteration
            await self._fill()
        return self._ready.popleft()

    async def pass_on(self, take: Callable[[Event], object], last: int = 0) -> int:
        """Pass events on, up to the number ``last`` (0: to the end), and return how many.

        Those that a later version of vibe wrote are left out.
        """
        passed = 0
        async for record in self:
            if record.event is not None:
                take(record.event)
                passed += 1
            if record.seq % EVENTS_AT_ONCE == 0:
                await lowlevel.checkpoint()
            if 0 < last <= record.seq:
                break
        return passed

    # --- finding the publisher

    async def _connect(self, entry: Entry) -> None:
        self.source, self._journal = entry.source or None, Path(entry.journal) if entry.journal else None
        self._token = self._token or entry.token
        if not entry.events:
            await self._switch_to_journal()
            return
        self._last_message = time.monotonic()
        self._stream = SubSocket(entry.events, self.buffered)
        self._requests = ReqSocket(entry.replay)
        header = await self._answer(ReplayRequest(), CONNECT_S)
        if header is not None and header[0].refused:
            remedy = "set VIBE_BUS_TOKEN to the one in its file in $VIBE_HOME/run"
            raise IpcError(f"{self._target} needs the run's token: {remedy}")
        if header is not None:
            self.source, self._journal = header[0].source, Path(header[0].journal)
            self.head = header[0].seq
            self._next = self._next or self.head + 1
        elif self.source is None:
            known = [entry.source for entry in await to_thread.run_sync(self._registry.running)]
            raise UnknownSourceError(str(self._target), "does not answer", known)
        elif await self._is_gone():
            await self._switch_to_journal()

    # --- getting the next records

    async def _fill(self) -> None:
        """Take one step towards the next record. A cancellation loses nothing: state changes only between awaits."""
        if self._reader is not None:
            await self._read_journal(self._reader)
        elif self._ending is not None:
            await self._end_or_switch()
        elif self._is_behind():
            await self._replay()
        elif self._stream is not None:
            await self._listen(self._stream)

    def _is_behind(self) -> bool:
        return self._next is not None and self._next <= self.head

    async def _listen(self, live: SubSocket) -> None:
        frames = live.receive(FRAMES_AT_ONCE)
        if frames:
            self._last_message = time.monotonic()
            for frame in frames:
                self._take_message(frame)
            await lowlevel.checkpoint()
            return
        with move_on_after(SILENCE_S):
            await live.wait()
            if self.gather_seconds:
                await sleep(self.gather_seconds)
            return
        if await self._is_gone():
            await self._switch_to_journal()

    def _take_message(self, frame: bytes) -> None:
        """Take in one message. Messages in another format are ignored; a lost event shows as a gap later."""
        if self._ending is not None:
            return
        try:
            decoded = decode_frame(frame)
            seen = decoded if isinstance(decoded, Heartbeat) else decode_head(decoded[1])
        except CodecError:
            return
        self.source = self.source or seen.source
        if seen.source != self.source:
            self._ending = EndReason.REPLACED
            return
        if isinstance(decoded, Heartbeat):
            self.head = max(self.head, decoded.seq)
            self._next = self._next or decoded.seq + 1
            if decoded.end:
                self._ending = EndReason.FINISHED
            return
        self._next = self._next or seen.seq
        if seen.seq == self._next:
            self._deliver(seen.seq, decoded[1])
        else:
            self.head = max(self.head, seen.seq)

    def _deliver(self, seq: int, body: bytes) -> None:
        self._next = seq + 1
        self.head = max(self.head, seq)
        record = EventRecord(seq, self.source or "", body)
        if not self._topics or record.topic.startswith(self._topics):
            self._ready.append(record)

    async def _replay(self) -> None:
        answer = await self._answer(ReplayRequest(first=self._next), ANSWER_S)
        if answer is None:
            if await self._is_gone():
                await self._switch_to_journal()
            return
        header, bodies = answer
        self._last_message = time.monotonic()
        if header.source != self.source:
            self._ending = EndReason.REPLACED
            return
        self._take_bodies(header, bodies)
        if not bodies:
            await sleep(_RETRY_S)

    def _take_bodies(self, header: ReplayHeader, bodies: list[bytes]) -> None:
        self.head = max(self.head, header.seq)
        for seq, body in enumerate(bodies, header.first):
            if seq == self._next:
                self._deliver(seq, body)
                self.replayed += 1

    async def _answer(self, request: ReplayRequest, seconds: float) -> tuple[ReplayHeader, list[bytes]] | None:
        if self._requests is None:
            return None
        question = encode_request(structs.replace(request, token=self._token))
        with move_on_after(seconds):
            return decode_answer(await self._requests.ask(question))
        return None

    # --- the end

    async def _is_gone(self) -> bool:
        if self._journal is None or not self._journal.exists():
            return time.monotonic() - self._last_message > LOST_S
        return not await to_thread.run_sync(is_being_written, self._journal)

    async def _end_or_switch(self) -> None:
        if self._is_behind() or self._ending is EndReason.REPLACED:
            await self._switch_to_journal()
        else:
            self.ended = self._ending

    async def _switch_to_journal(self) -> None:
        """Stop listening to the publisher and read the rest from its journal."""
        journal = self._journal
        if self._ending is None:
            last = await to_thread.run_sync(last_in_good_order, journal)
            self._ending = EndReason.DIED if last is None else EndReason.FINISHED
            self.head = max(self.head, last or 0)
        if self._next is None:
            self.ended = self._ending
            return
        if journal is not None:
            with suppress(JournalError):
                self._reader = await to_thread.run_sync(reader_from, journal, self._next)
        if self._reader is None:
            await self._finish()

    async def _read_journal(self, reader: JournalReader) -> None:
        batch = await to_thread.run_sync(reader.read_batch)
        for line, body in batch:
            try:
                head = decode_head(body)
            except CodecError:
                if (self._next or 0) <= line:
                    self._damaged = self._damaged or f"its line {line} is not an event"
                continue
            self.source = self.source or head.source
            if self._next is not None and head.seq >= self._next:
                if head.seq > self._next:
                    self._lost.append((self._next, head.seq - 1))
                self._deliver(head.seq, body)
                self.replayed += 1
        if self.source is None:
            raise JournalError(reader.path, self._damaged or "it holds no event", NO_JOURNAL)
        if not batch:
            await self._finish()

    async def _finish(self) -> None:
        """End, once the file has no more; a publisher that could not write may still have the rest in memory."""
        if self._is_behind() and self._ending is not EndReason.REPLACED:
            answer = await self._answer(ReplayRequest(first=self._next), ANSWER_S)
            if answer is not None and answer[1] and answer[0].source == self.source:
                self._take_bodies(*answer)
                return
        self.ended = self._ending
        if self._next is not None and self._is_behind():
            self._lost.append((self._next, self.head))
        if self._lost:
            raise EventsLostError(self.source or str(self._target), self._lost, self._journal)
        if self._reader is not None and self._damaged:
            raise JournalError(self._reader.path, self._damaged, "all others were read; check the disk")

    def _close(self) -> None:
        for part in (self._stream, self._requests, self._reader):
            if part is not None:
                part.close()
        self._stream = self._requests = self._reader = None


subscribe = Subscription
