"""The plan's journal: an append-only file with one JSON line for each fact, whose torn tail can be repaired.

Each line has the number of its fact in ``seq``. Journals begun by versions that gave none go on without.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, ValidationError, json, structs

from ipc.errors import INVALID_JSON
from ipc.events import Fact
from planner.store.errors import OTHER_VERSION, BrokenPlanError, StoreWriteError, reading, writing
from vibe.system.errors import os_error_as
from vibe.system.files import append_all, regular_bytes, sync_data

_encoder = json.Encoder()
_decoder: json.Decoder[Fact] = json.Decoder(Fact)


class JournalContent(Struct, frozen=True, kw_only=True):
    """The content of a journal.

    ``dropped`` says in sentences what was lost, ``length`` is the size of its sound part in bytes, ``unfinished`` says
    that the last sound line lacks its newline, and ``next`` is the number of the next fact, or 0 if they have none.
    """

    facts: Sequence[Fact]
    dropped: tuple[str, ...]
    length: int
    unfinished: bool
    next: int


def read_file(path: Path) -> bytes:
    """Return the content of a file in a plan's folder.

    Raises:
        BrokenPlanError: the file is missing or can't be read.
    """
    with reading(path):
        return regular_bytes(path)


def read_journal(path: Path) -> JournalContent:
    """Read all facts of a journal without a torn or zero-filled end, leaving the file unchanged.

    Raises:
        BrokenPlanError: the file can't be read, or a line before the last is broken.
    """
    data = read_file(path)
    sound = data.rstrip(b"\0")
    dropped = [f"{path}: dropped {len(data) - len(sound)} zero bytes at its end"] if len(sound) < len(data) else []
    facts: list[Fact] = []
    following = 1
    lines = sound.split(b"\n")
    length = 0
    last = len(lines) - 1 if lines[-1] else len(lines) - 2
    for number, line in enumerate(lines[: last + 1]):
        try:
            fact = _decoder.decode(line)
        except ValidationError as error:
            problem = f"is not a fact this version knows ({error})"
            raise BrokenPlanError(f"{path}:{number + 1}", problem, OTHER_VERSION) from error
        except INVALID_JSON as error:
            if number < last:
                raise BrokenPlanError(f"{path}:{number + 1}", f"is not a JSON line ({error})") from error
            dropped.append(f"{path}:{number + 1}: dropped a torn last line of {len(line)} bytes")
            break
        length += len(line) + 1
        if fact.seq and fact.seq != following:
            found = f"fact {fact.seq} is where fact {following} belongs"
            dropped.append(f"{path}:{number + 1}: {found}: part of what the plan did is missing")
        following = fact.seq and fact.seq + 1
        facts.append(structs.replace(fact, seq=0))
    unfinished = length > len(sound)
    return JournalContent(
        facts=facts, dropped=tuple(dropped), length=min(length, len(sound)), unfinished=unfinished, next=following
    )


class PlanJournal:
    """A journal open for appending, by the one process that holds the plan's lock.

    After a failed write or flush it accepts nothing more, since the state of the file would be unknown.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending, and create it if it is missing.

        Raises:
            StoreWriteError: the file can't be opened or created.
        """
        self.path = path
        self._next = 0
        self._failure: StoreWriteError | None = None
        with writing(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._length = self._synced = os.fstat(self._fd).st_size

    def mend(self, content: JournalContent) -> None:
        """Cut the tail that ``content`` dropped off the file, so that the next fact begins a line of its own.

        The facts appended from now on are numbered as those of ``content``.

        Raises:
            StoreWriteError: the file can't be cut.
        """
        self._next = content.next
        if content.length == self._length and not content.unfinished:
            return
        with os_error_as(self._fail):
            os.ftruncate(self._fd, content.length)
            self._length = self._synced = content.length
            if content.unfinished:
                self._write(b"\n")
            sync_data(self._fd)

    def append(self, *facts: Fact) -> None:
        """Hand all facts to the kernel at once. They then survive this process, and after ``flush`` a power cut.

        Raises:
            StoreWriteError: they could not be written in full; a part that was written was removed.
            TypeError, ValueError, OverflowError, RecursionError: a value is not JSON; nothing was written.
        """
        numbered = [structs.replace(fact, seq=number) for number, fact in enumerate(facts, self._next)]
        lines = _encoder.encode_lines(numbered if self._next else facts)
        if self._failure is not None:
            raise self._failure
        with os_error_as(self._fail):
            self._write(lines)
        self._next += len(facts) if self._next else 0

    def flush(self) -> None:
        """Put everything appended so far on disk. It waits for the disk, so call it from a worker thread.

        Raises:
            StoreWriteError: the disk refused; a power cut may lose the facts. Or the file was moved away or deleted.
        """
        if self._failure is not None:
            raise self._failure
        reached = self._length
        if self._synced >= reached:
            return
        with os_error_as(self._fail):
            self.path.lstat()  # a file that was moved away still takes facts, but nobody would find them
            sync_data(self._fd)
        self._synced = max(self._synced, reached)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _write(self, line: bytes) -> None:
        append_all(self._fd, line, self._length)
        self._length += len(line)

    def _fail(self, error: OSError) -> StoreWriteError:
        self._failure = StoreWriteError(self.path, error)
        return self._failure
