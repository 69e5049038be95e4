"""The journal of a run: an append-only file of event bodies, one per line, where line N is event N.

The writer holds a lock on the file, by which a reader can tell a living publisher from a dead one.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import BinaryIO

from ipc.codec import decode_event, decode_head
from ipc.errors import CodecError, JournalError
from ipc.events import Event
from vibe.system.errors import os_error_as
from vibe.system.files import append_all, is_locked, sync_data, wait_for_lock

BATCH_BYTES = 1 << 20
"""Bytes of bodies that are read at once, and so the size of a replay answer."""
FSYNC_INTERVAL_S = 0.05
"""Seconds between two syncs of appended lines to the disk, off the event loop."""
MAX_UNWRITTEN_BYTES = 32 << 20
"""Bytes that a journal keeps in memory while they can't be written, before it refuses more."""

_LOCK_SECONDS = 0.2
"""Seconds to wait for the lock. A reader that checks for a writer holds it for an instant."""


class Journal:
    """Appends bodies and reads them back. One thread appends; any thread may read.

    ``repaired_bytes`` counts what was cut off at opening: a torn or zero-filled tail that a crash left behind.
    When the disk is full, bodies stay in memory, are read from there, and are written once there is room again.
    ``error`` is the first failure and stays set.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None
        self._fd = _open_locked(path)
        try:
            self._offsets, size = _recover(self._fd, path)
            self.repaired_bytes = size - self._offsets[-1]
            if self.repaired_bytes:
                os.ftruncate(self._fd, self._offsets[-1])
        except BaseException:
            os.close(self._fd)
            raise
        self.unwritten: list[bytes] = []
        """Lines that so far are only in memory."""
        self._unwritten_bytes = 0
        self.head = len(self._offsets) - 1
        """The number of the newest event; 0 if there is none."""
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._syncer = threading.Thread(target=self._sync_often, name="journal-fsync", daemon=True)
        self._syncer.start()

    def append(self, body: bytes) -> int:
        """Add a body (which has no newline in it) and return its number. A full disk sets ``error``.

        Raises:
            JournalError: MAX_UNWRITTEN_BYTES are unwritten already; this body was not taken.
        """
        line = body + b"\n"
        with self._lock:
            if self.unwritten:
                self._keep_in_memory(line)
                self._write_unwritten()
            else:
                try:
                    self._write(line)
                except OSError as error:
                    self.error = self.error or error
                    self._keep_in_memory(line)
            self.head += 1
        if not self._dirty.is_set():
            self._dirty.set()
        return self.head

    def read(self, first: int, last: int, limit: int = BATCH_BYTES) -> list[bytes]:
        """Return bodies ``first`` to ``last``, inclusive, as far as ``limit`` bytes hold them, but at least one."""
        with self._lock:
            written = len(self._offsets) - 1
            first, last = max(first, 1), min(last, self.head)
            if first > last:
                return []
            if first > written:
                lines = self.unwritten[first - written - 1 : last - written]
                fitting = sum(size <= limit for size in accumulate(map(len, lines)))
                return [line[:-1] for line in lines[: max(fitting, 1)]]
            start = self._offsets[first - 1]
            fitting = bisect_right(self._offsets, start + limit) - 1
            end = min(max(fitting, first), last, written)
            size = self._offsets[end] - start
        return os.pread(self._fd, size, start).split(b"\n")[:-1]

    def sync(self) -> None:
        """Write what is still in memory and sync everything to the disk.

        This blocks for milliseconds, so call it off the event loop.
        """
        with self._lock:
            if self.unwritten:
                self._write_unwritten()
        try:
            sync_data(self._fd)
        except OSError as error:
            self.error = self.error or error

    def close(self) -> None:
        """Sync the file and close it, which releases the lock."""
        self._stop.set()
        self._dirty.set()
        self._syncer.join()
        self.sync()
        os.close(self._fd)

    def _write(self, line: bytes) -> None:
        """Write the whole line or nothing: after a short write the file is cut back."""
        end = self._offsets[-1]
        append_all(self._fd, line, end)
        self._offsets.append(end + len(line))

    def _keep_in_memory(self, line: bytes) -> None:
        if self._unwritten_bytes + len(line) > MAX_UNWRITTEN_BYTES:
            reason = self.error.strerror if self.error else "unknown"
            raise JournalError(
                self.path, f"{reason}, and {len(self.unwritten)} events wait in memory", "free disk space and run again"
            )
        self.unwritten.append(line)
        self._unwritten_bytes += len(line)

    def _write_unwritten(self) -> None:
        done = 0
        try:
            for line in self.unwritten:
                self._write(line)
                done += 1
        except OSError as error:
            self.error = self.error or error
        self._unwritten_bytes -= sum(map(len, self.unwritten[:done]))
        del self.unwritten[:done]

    def _sync_often(self) -> None:
        while not self._stop.is_set():
            self._dirty.wait()
            self._stop.wait(FSYNC_INTERVAL_S)
            self._dirty.clear()
            self.sync()


class JournalReader:
    """Reads a journal from event ``first`` on, without changing it, and stops before a torn or damaged line."""

    def __init__(self, path: Path, first: int = 1) -> None:
        self.path = path
        with _failing(path, "it can't be opened", "check the path and its permissions"):
            self._file: BinaryIO = path.open("rb")
        self._lines = islice(enumerate(_whole_lines(self._file), start=1), max(first, 1) - 1, None)

    def read_batch(self, limit: int = BATCH_BYTES) -> list[tuple[int, bytes]]:
        """Return the next bodies with their numbers, about ``limit`` bytes of them, or an empty list at the end."""
        batch: list[tuple[int, bytes]] = []
        size = 0
        while size < limit and (numbered := next(self._lines, None)) is not None:
            seq, line = numbered
            batch.append((seq, line[:-1]))
            size += len(line)
        return batch

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def reader_from(path: Path, first: int) -> JournalReader:
    """Return a reader that comes to event ``first``; if lines are missing before it, with the first line."""
    reader = JournalReader(path, max(first - 1, 1))
    with suppress(CodecError):
        if first <= 1 or any(decode_head(body).seq == line for line, body in reader.read_batch(limit=1)):
            return reader
    reader.close()
    return JournalReader(path)


def recorded_events(path: Path, first: int = 1, beginnings: bytes | tuple[bytes, ...] = b"") -> Iterator[Event]:
    """Yield the events of a journal from ``first`` on, without damaged ones and those that a later version wrote.

    Lines that don't begin as ``beginnings`` are left out, undecoded.
    """
    with closing(reader_from(path, first)) as reader:
        for _, body in chain.from_iterable(iter(reader.read_batch, [])):
            try:
                event = decode_event(body) if body.startswith(beginnings) else None
            except CodecError:
                continue
            if event is not None and event.seq >= first:
                yield event


def is_being_written(path: Path) -> bool:
    """Return whether a living process holds the journal at ``path`` open for writing."""
    with suppress(OSError):
        return is_locked(path)
    return False


def _failing(path: Path, problem: str, remedy: str) -> AbstractContextManager[None]:
    """Raise a JournalError if the block fails, with the system's words or else the ``problem``."""
    return os_error_as(lambda error: JournalError(path, error.strerror or problem, remedy))


def _open_locked(path: Path) -> int:
    with _failing(path, "it can't be opened", "check the folder and its permissions"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if wait_for_lock(fd, _LOCK_SECONDS):
            return fd
    except OSError as error:
        os.close(fd)
        problem = f"it can't be locked ({error.strerror})"
        raise JournalError(path, problem, "put it on a file system that supports locks") from error
    os.close(fd)
    raise JournalError(path, "another process is writing it", "wait for that run to end, or start your own")


def _recover(fd: int, path: Path) -> tuple[array[int], int]:
    """Return the offsets at which the complete lines end, after a leading 0, and the size of the file."""
    offsets = array("Q", [0])
    with _failing(path, "it can't be read", "check the disk"), open(fd, "rb", closefd=False) as file:
        end = 0
        for line in _whole_lines(file):
            end += len(line)
            offsets.append(end)
        return offsets, os.fstat(fd).st_size


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines up to the first that is torn, or holds the zeros that a power failure leaves in place of data."""
    for line in file:
        if not line.endswith(b"\n") or b"\x00" in line:
            return
        yield line
