"""WriteTurn: a run's exclusive turn to write in its folders, held while any of its calls writes (ADR 27)."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.session.errors import WorkspaceLockedError, writing_folder
from vibe.system.files import FileLock, FolderLocks, holder_of, is_locked, text_of
from vibe.system.git.discovery import locate
from vibe.system.own_places import WRITERS_VARIABLE

PATIENCE_SECONDS = 30.0
"""Seconds to wait for other runs by default."""
TELL_SECONDS = 1.0
"""Seconds of waiting after which a message says for whom."""
BESIDE_SECONDS = 2.0
"""Seconds a run waits for another run of the same process.

After that both write side by side, for which the program that started both is responsible."""
POLL_SECONDS = 0.02
"""Seconds between two attempts to get the turn."""
NOTE_SECONDS = 1.0
"""Seconds to wait for the lock of the run's own note."""
LAST = "last"
"""The file that names the run that wrote last, in any folder."""
WAITS = "write.wait"
"""The code of the warning that an agent waits for its turn to write."""

T = TypeVar("T")
Tell = Callable[[str], object]


def waits_told(sink: EventSink, step_id: str | None = None) -> Tell:
    """Return a function that warns those who watch a run, or one step of it, that a call waits for its turn."""
    return lambda message: sink.publish(WarningEvent(code=WAITS, message=message, subagent_step_id=step_id))


Turns: TypeAlias = Callable[[Tell], AbstractAsyncContextManager[object]]
"""Gives a turn to write, also to agents in other processes; see ``WriteTurn.held``."""


class WriteTurn:
    """The turn of one run, shared by all its calls, so that parallel steps of a plan don't wait for each other.

    The kernel locks the top folder of the repository that contains the run's folders, so that the spelling of a path
    and VIBE_HOME don't matter. Folders above it are locked shared, since a run that writes there may change what is
    below. A waiting run holds a ticket, and no further calls of other runs begin before its turn. A note beside the
    locks says who writes. A run that was started by a call with the turn writes within that turn, one such run at a
    time.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        name: str,
        environ: Mapping[str, str],
        patience: float | None = None,
        process: FolderLocks | None = None,
    ) -> None:
        notes = [Path(note) for note in environ[WRITERS_VARIABLE].split(os.pathsep)]
        self.before_write: Callable[[bool], Awaitable[None]] | None = None
        """Awaited before the run writes, with True if others may have written since it last did."""
        self.after_write: Callable[[Callable[[], Awaitable[None]]], None] | None = None
        """Called once no call of the run writes any more, with the function that gives up the turn."""
        self._own_note, self._notes_above = notes[-1], notes[-2::-1]
        self._notes_folder = self._own_note.parent
        self._folders = folders
        self._name = name
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._process = process or FolderLocks()
        self._users = 0
        self._lock_places: list[tuple[Path, bool]] = []
        self._releases: list[Callable[[], None]] = []
        """Functions that each release a lock."""
        self._others_wrote = self._met_others = False
        self._last: str | None = None
        self._state_lock, self._found_lock = anyio.Lock(), anyio.Lock()

    @asynccontextmanager
    async def held(self, tell: Tell) -> AsyncGenerator[None]:
        """Hold the turn while the block runs; ``tell`` gets a sentence if the run has to wait for others.

        Raises:
            WorkspaceLockedError: the others write for too long.
            SessionFolderError: the folder can't be locked.
        """
        await self._enter(tell)
        try:
            async with self._found_lock:
                others_wrote, self._others_wrote = self._others_wrote, False
                if self.before_write is not None:
                    await self.before_write(others_wrote)
            yield
        finally:
            if self._users == 1 and self.after_write is not None:
                self.after_write(self._leave)
            else:
                with anyio.CancelScope(shield=True):
                    await self._leave()

    async def act(self, tell: Tell, do: Callable[[], T]) -> T:
        """Call ``do`` in a thread while holding the turn; see ``held``."""
        async with self.held(tell):
            return await anyio.to_thread.run_sync(do)

    def others_have_written(self) -> bool:
        """Return whether others may have written since the last call of this; blocks."""
        met, self._met_others = self._met_others or self._others_wrote_last(), False
        self._last = text_of(self._own_note.with_name(LAST))
        return met

    def _others_wrote_last(self) -> bool:
        """Return whether another run wrote last, and has done so since this run last looked."""
        return text_of(self._own_note.with_name(LAST)) not in {self._own_note.stem, self._last}

    async def _enter(self, tell: Tell) -> None:
        tickets: list[FileLock] = []
        try:
            await self._wait(tell, tickets)
        finally:
            with anyio.CancelScope(shield=True):
                for ticket in tickets:
                    await anyio.to_thread.run_sync(ticket.release)

    async def _wait(self, tell: Tell, tickets: list[FileLock]) -> None:
        """Wait for the turn, and count this call among its users.

        Raises:
            WorkspaceLockedError: others write for too long.
        """
        began, has_told = time.monotonic(), False
        waited = 0.0
        while (obstacle := await self._try(has_ticket=bool(tickets), beside=waited >= BESIDE_SECONDS)) is not None:
            waited = time.monotonic() - began
            if waited >= self._patience or (waited >= TELL_SECONDS and not has_told):
                who = await anyio.to_thread.run_sync(self._writer_at, obstacle)
                if waited >= self._patience:
                    where = f"{who} writes in {self._folders[0]}, and still did after {waited:.0f} s"
                    raise WorkspaceLockedError(f"{where}: try again when it has ended")
                tell(f"waiting for {who}, which writes in this folder")
                has_told = True
            if not tickets:
                tickets += await anyio.to_thread.run_sync(self._ticket, obstacle)
            await anyio.sleep(POLL_SECONDS)

    async def _try(self, *, has_ticket: bool, beside: bool) -> Path | None:
        async with self._state_lock:
            obstacle = await anyio.to_thread.run_sync(partial(self._obstacle, has_ticket=has_ticket, beside=beside))
            self._users += obstacle is None  # no checkpoint may come before this: a cancellation would lose the count
            return obstacle

    async def _leave(self) -> None:
        async with self._state_lock:
            self._users -= 1
            if not self._users:
                await anyio.to_thread.run_sync(self._unlock)

    def _obstacle(self, *, has_ticket: bool, beside: bool) -> Path | None:
        """Lock the folders unless they are locked; return the one that others hold or wait for if that fails."""
        places = self._places_to_lock()
        above = next((note for note in self._notes_above if self._covers(note)), None)
        if above is None and not has_ticket:
            waited_for = (place for place, _ in places if is_locked(self._ticket_of(place)))
            if (place := next(waited_for, None)) is not None:
                return place
        if self._releases:
            return None
        obstacle: Path | None = self._folders[0]  # so that the locks are released if an exception comes
        try:
            obstacle = self._lock_below(above) if above is not None else self._lock(places, beside=beside)
        finally:
            if obstacle is not None:
                self._release()
        if obstacle is not None:
            return obstacle
        with suppress(OSError):  # without a note the turn still holds
            self._releases.append(self._write_note().release)
        self._others_wrote = self._others_wrote_last()
        self._met_others |= self._others_wrote
        return None

    def _places_to_lock(self) -> Sequence[tuple[Path, bool]]:
        """Return the folders to lock, each once whatever its spelling, with whether the lock is shared."""
        if not self._lock_places:
            tops = tuple(dict.fromkeys(map(_top_of, self._folders)))
            above = (folder for top in tops for folder in top.parents)
            kept = {_identity(one, own=True): (one, True) for one in above}
            kept |= {_identity(one): (one, False) for one in tops}
            self._lock_places = [place for which, place in kept.items() if which is not None]
        return self._lock_places

    def _lock(self, places: Sequence[tuple[Path, bool]], *, beside: bool) -> Path | None:
        """Lock the folders; return the first one that others hold, if any."""
        for place, shared in places:
            try:
                if not shared and self._process.take(place, beside=beside):
                    self._releases.append(partial(self._process.release, place))
                    continue
                lock = FileLock.on_folder(place, shared=True) if shared else None
            except OSError as error:  # for example on a network file system that can't lock folders
                if shared or isinstance(error, FileNotFoundError):
                    continue
                lock = self._lock_file(place)
            if lock is None:
                return place
            self._releases.append(lock.release)
        return None

    def _lock_file(self, place: Path) -> FileLock | None:
        """Lock a file in place of a folder that can't be locked itself."""
        with writing_folder(self._notes_folder):
            self._notes_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return FileLock.acquire(self._own_note.with_name(f"{_digest(place)}.lock"))

    def _lock_below(self, above: Path) -> Path | None:
        """Lock the file that lets only one run at a time write within the turn of the run above."""
        lock = FileLock.acquire(above.with_suffix(".below"), brief=True)
        if lock is None:
            return self._folders[0]
        self._releases.append(lock.release)
        return None

    def _covers(self, note: Path) -> bool:
        """Return whether a run above this one holds the turn in all folders of this one."""
        if not is_locked(note):
            return False
        folders = _read_note(note).get("folders", ())
        return all(
            any(place.is_relative_to(folder) for folder in folders) for place, shared in self._lock_places if not shared
        )

    def _write_note(self) -> FileLock:
        """Write the note that this run writes from now on, and keep it locked."""
        self._notes_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = FileLock.acquire(self._own_note, NOTE_SECONDS, brief=True)
        if note is None:
            raise OSError
        folders = [str(place) for place, shared in self._lock_places if not shared]
        content = {"folders": folders, "name": self._name, "pid": os.getpid(), "since": time.time()}
        os.pwrite(note.descriptor, json.dumps(content).encode(), 0)
        return note

    def _writer_at(self, place: Path) -> str:
        """Return words for the run that writes in a folder, or above or below it."""
        for note in self._notes_folder.glob("*.writer"):
            if note == self._own_note or note in self._notes_above:
                continue
            if not is_locked(note):
                note.unlink(missing_ok=True)  # its process was killed
                continue
            content = _read_note(note)
            if any(place.is_relative_to(one) or Path(one).is_relative_to(place) for one in content.get("folders", ())):
                since = time.strftime("%H:%M:%S", time.localtime(content["since"]))
                return f"{content['name']} (pid {content['pid']}, since {since})"
        waiting = holder_of(self._ticket_of(place))
        return f"another vibe (pid {waiting})" if waiting else "another process"

    def _ticket_of(self, place: Path) -> Path:
        return self._own_note.with_name(f"{_digest(place)}.next")

    def _ticket(self, place: Path) -> list[FileLock]:
        with suppress(OSError):  # without a ticket the wait may only be longer
            self._notes_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return list(filter(None, [FileLock.acquire(self._ticket_of(place), brief=True)]))
        return []

    def _unlock(self) -> None:
        with suppress(OSError):
            self._own_note.with_name(LAST).write_text(self._own_note.stem)
        self._release()

    def _release(self) -> None:
        for release in self._releases:
            release()
        self._releases.clear()


def _top_of(folder: Path) -> Path:
    """Return the top folder of the repository around a folder, else the folder itself."""
    with suppress(OSError, ValueError):
        if located := locate(folder):
            return located.top
    return Path(os.path.realpath(folder))


def _identity(place: Path, *, own: bool = False) -> tuple[int, int] | None:
    """Return the device and inode of a folder; None if it can't be seen, or is not the user's although it must be."""
    try:
        found = place.stat()
    except OSError:
        return None
    return None if own and found.st_uid != os.geteuid() else (found.st_dev, found.st_ino)


def _digest(place: Path) -> str:
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


def _read_note(note: Path) -> dict[str, Any]:
    with suppress(ValueError):  # it is just being written, or the disk is full
        return json.loads(text_of(note))
    return {}
