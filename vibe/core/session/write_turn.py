"""WriteTurn: the turn of one run to write in its folders, held while something of it writes."""

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
from anyio import CancelScope, to_thread

from vibe.core.session.errors import SessionFolderError, WorkspaceLockedError
from vibe.system.files import FileLock, FolderLocks, holder_of, is_locked, text_of
from vibe.system.git.discovery import locate

WRITERS_VARIABLE = "VIBE_WRITERS"
"""The notes of the runs above a process and, last, of its own: what a call starts may write while the call does."""
PATIENCE_SECONDS = 30.0
"""The time that is waited for others, where nothing else was asked for."""
TOLD_SECONDS = 1.0
"""After this time it is said who is waited for."""
BESIDE_SECONDS = 2.0
"""So long a run waits for another of its process; then it writes beside it, as who started both has it."""
POLL_SECONDS = 0.02
NOTE_SECONDS = 1.0
LAST = "last"
"""The file that says who wrote last, in whatever folder."""
WAITS = "write.wait"
"""Code of the warning that an agent waits for its turn to write."""

T = TypeVar("T")
Tell = Callable[[str], object]


Turns: TypeAlias = Callable[[Tell], AbstractAsyncContextManager[object]]
"""Gives a turn to write, in whatever process the run is; see ``WriteTurn.held``."""


class WriteTurn:
    """The turn of one run, which all its calls share: parallel steps of a plan do not wait for each other.

    The folders are locked in the kernel, by the top of the repository that they are in, so that neither spelling nor
    VIBE_HOME matters; those above them are shared, since who writes there may change what is below. Who waits holds a
    ticket, and no more calls begin before its turn. Beside the locks a note says who writes. What was started by a call
    that has the turn writes in that turn, one run at a time.
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
        self.found: Callable[[bool], Awaitable[None]] | None = None
        """Is awaited before the run writes; True: others may have written since it last did."""
        self.left: Callable[[Callable[[], Awaitable[None]]], None] | None = None
        """Is called, with what gives up the turn, once nothing of the run writes any more."""
        self._own, self._above = notes[-1], notes[-2::-1]
        self._notes = self._own.parent
        self._folders = folders
        self._name = name
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._process = process or FolderLocks()
        self._users = 0
        self._places: list[tuple[Path, bool]] = []
        self._held: list[Callable[[], None]] = []
        """Each releases a lock."""
        self._others_wrote = self._met_others = False
        self._last: str | None = None
        self._alone, self._finding = anyio.Lock(), anyio.Lock()

    @asynccontextmanager
    async def held(self, tell: Tell) -> AsyncGenerator[None]:
        """Have the turn while the block runs; ``tell`` gets a sentence if others have to be waited for.

        Raises:
            WorkspaceLockedError: they write for too long.
            SessionFolderError: the folder can't be locked.
        """
        await self._enter(tell)
        try:
            async with self._finding:
                others_wrote, self._others_wrote = self._others_wrote, False
                if self.found is not None:
                    await self.found(others_wrote)
            yield
        finally:
            if self._users == 1 and self.left is not None:
                self.left(self._leave)
            else:
                with CancelScope(shield=True):
                    await self._leave()

    async def act(self, tell: Tell, do: Callable[[], T]) -> T:
        """Do something in a thread while having the turn; see ``held``."""
        async with self.held(tell):
            return await to_thread.run_sync(do)

    def met_others(self) -> bool:
        """Return whether others may have written since this was last asked. Blocks."""
        met, self._met_others = self._met_others or self._is_by_others(), False
        self._last = text_of(self._own.with_name(LAST))
        return met

    def _is_by_others(self) -> bool:
        """Return whether what was written last was by others, and later than what was known."""
        return text_of(self._own.with_name(LAST)) not in {self._own.stem, self._last}

    async def _enter(self, tell: Tell) -> None:
        tickets: list[FileLock] = []
        try:
            await self._wait(tell, tickets)
        finally:
            with CancelScope(shield=True):
                for ticket in tickets:
                    await to_thread.run_sync(ticket.release)

    async def _wait(self, tell: Tell, tickets: list[FileLock]) -> None:
        """Wait for the turn, and count who has it."""
        began, told = time.monotonic(), False
        waited = 0.0
        while (obstacle := await self._tried(has_ticket=bool(tickets), beside=waited >= BESIDE_SECONDS)) is not None:
            waited = time.monotonic() - began
            if waited >= self._patience or (waited >= TOLD_SECONDS and not told):
                who = await to_thread.run_sync(self._writer_at, obstacle)
                if waited >= self._patience:
                    where = f"{who} writes in {self._folders[0]}, and still did after {waited:.0f} s"
                    raise WorkspaceLockedError(f"{where}: try again when it has ended")
                tell(f"waiting for {who}, which writes in this folder")
                told = True
            if not tickets:
                tickets += await to_thread.run_sync(self._ticket, obstacle)
            await anyio.sleep(POLL_SECONDS)

    async def _tried(self, *, has_ticket: bool, beside: bool) -> Path | None:
        async with self._alone:
            obstacle = await to_thread.run_sync(partial(self._obstacle, has_ticket=has_ticket, beside=beside))
            self._users += obstacle is None  # with no checkpoint before
            return obstacle

    async def _leave(self) -> None:
        async with self._alone:
            self._users -= 1
            if not self._users:
                await to_thread.run_sync(self._unlock)

    def _obstacle(self, *, has_ticket: bool, beside: bool) -> Path | None:
        """Lock the folders, unless that is done; the one that others have, or wait for, if it can't be."""
        places = self._claimed()
        above = next((note for note in self._above if self._covers(note)), None)
        if above is None and not has_ticket:
            waited_for = (place for place, _ in places if is_locked(self._ticket_of(place)))
            if (place := next(waited_for, None)) is not None:
                return place
        if self._held:
            return None
        obstacle: Path | None = self._folders[0]  # unless it can be locked, whatever comes between
        try:
            obstacle = self._lock_below(above) if above is not None else self._lock(places, beside=beside)
        finally:
            if obstacle is not None:
                self._release()
        if obstacle is not None:
            return obstacle
        with suppress(OSError):  # it is held all the same
            self._held.append(self._named().release)
        self._others_wrote = self._is_by_others()
        self._met_others |= self._others_wrote
        return None

    def _claimed(self) -> Sequence[tuple[Path, bool]]:
        """Return the folders to lock, and whether they are shared: each once, whatever it is called."""
        if not self._places:
            tops = tuple(dict.fromkeys(map(_top_of, self._folders)))
            above = (folder for top in tops for folder in top.parents)
            kept = {_identity(one, own=True): (one, True) for one in above}
            kept |= {_identity(one): (one, False) for one in tops}
            self._places = [place for which, place in kept.items() if which is not None]
        return self._places

    def _lock(self, places: Sequence[tuple[Path, bool]], *, beside: bool) -> Path | None:
        for place, shared in places:
            try:
                if not shared and self._process.take(place, beside=beside):
                    self._held.append(partial(self._process.release, place))
                    continue
                lock = FileLock.on_folder(place, shared=True) if shared else None
            except OSError as error:  # such as a network's that locks no folders
                if shared or isinstance(error, FileNotFoundError):
                    continue
                lock = self._lock_file(place)
            if lock is None:
                return place
            self._held.append(lock.release)
        return None

    def _lock_file(self, place: Path) -> FileLock | None:
        try:
            self._notes.mkdir(parents=True, exist_ok=True, mode=0o700)
            return FileLock.acquire(self._own.with_name(f"{_key(place)}.lock"))
        except OSError as error:
            raise SessionFolderError(self._notes, error) from error

    def _lock_below(self, above: Path) -> Path | None:
        """Lock a file for all that a call of the run above has started: the folders are that run's."""
        lock = FileLock.acquire(above.with_suffix(".below"), brief=True)
        if lock is None:
            return self._folders[0]
        self._held.append(lock.release)
        return None

    def _covers(self, note: Path) -> bool:
        """Return whether the run of a note above this one writes now, in all folders of this one."""
        if not is_locked(note):
            return False
        folders = _said(note).get("folders", ())
        return all(
            any(place.is_relative_to(folder) for folder in folders) for place, shared in self._places if not shared
        )

    def _named(self) -> FileLock:
        """Say who writes from now on."""
        self._notes.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = FileLock.acquire(self._own, NOTE_SECONDS, brief=True)
        if note is None:
            raise OSError
        folders = [str(place) for place, shared in self._places if not shared]
        said = {"folders": folders, "name": self._name, "pid": os.getpid(), "since": time.time()}
        os.pwrite(note.descriptor, json.dumps(said).encode(), 0)
        return note

    def _writer_at(self, place: Path) -> str:
        """Return who writes in a folder, above it or below it, for people."""
        for note in self._notes.glob("*.writer"):
            if note == self._own or note in self._above:
                continue
            if not is_locked(note):
                note.unlink(missing_ok=True)  # of a process that was killed
                continue
            said = _said(note)
            if any(place.is_relative_to(one) or Path(one).is_relative_to(place) for one in said.get("folders", ())):
                since = time.strftime("%H:%M:%S", time.localtime(said["since"]))
                return f"{said['name']} (pid {said['pid']}, since {since})"
        waiting = holder_of(self._ticket_of(place))
        return f"another vibe (pid {waiting})" if waiting else "another process"

    def _ticket_of(self, place: Path) -> Path:
        return self._own.with_name(f"{_key(place)}.next")

    def _ticket(self, place: Path) -> list[FileLock]:
        try:
            self._notes.mkdir(parents=True, exist_ok=True, mode=0o700)
            ticket = FileLock.acquire(self._ticket_of(place), brief=True)
        except OSError:  # who waits without one may wait longer
            ticket = None
        return [] if ticket is None else [ticket]

    def _unlock(self) -> None:
        with suppress(OSError):
            self._own.with_name(LAST).write_text(self._own.stem)
        self._release()

    def _release(self) -> None:
        for release in self._held:
            release()
        self._held.clear()


def _top_of(folder: Path) -> Path:
    """Return the top of the repository of a folder, or the folder itself."""
    try:
        located = locate(folder)
    except (OSError, ValueError):
        located = None
    return Path(os.path.realpath(folder)) if located is None else located.top


def _identity(place: Path, *, own: bool = False) -> tuple[int, int] | None:
    """Return which folder it is, whatever it is called; None: it is gone or hidden, or was to be the user's own."""
    try:
        found = place.stat()
    except OSError:
        return None
    return None if own and found.st_uid != os.geteuid() else (found.st_dev, found.st_ino)


def _key(place: Path) -> str:
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


def _said(note: Path) -> dict[str, Any]:
    try:
        return json.loads(text_of(note))
    except ValueError:  # it is being written, or the disk is full
        return {}
