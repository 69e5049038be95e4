"""Keeps records on disk of the files that running commands must not change, to restore them even if we are killed."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vibe.system.files import POLL_SECONDS, opened, try_lock, wait_for_lock

UNFINISHED = ".new"
GLANCE_SECONDS = 0.1
"""Seconds for which another process may hold a record just to see whether it is abandoned."""
LOCK_SECONDS = 5.0
"""Seconds to wait for commands of a run that was killed. They are ended within that time."""


def records_of(vibe_home: Path) -> Path:
    """Return the folder for records, which is hidden from commands."""
    return vibe_home / "kept"


class Record:
    """The record of one command, which is locked as long as the command's run exists.

    Whoever finds it unlocked puts back what the killed run could not. ``kept`` are results of ``KeptPaths.written``. If
    the file can't be made or locked there is no record. A ``blank`` record can be filled for another command.
    """

    def __init__(self, folder: Path, kept: Iterable[dict[str, Any]]) -> None:
        self._finalizer: weakref.finalize[..., Record] | None = None
        self._descriptor = -1
        data = _data(kept)
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            created = None
            while created is None:
                created = _create_locked(folder, data)
            path, self._descriptor = created
            self._finalizer = weakref.finalize(self, _remove, path, self._descriptor)
            self._finalizer.atexit = False  # if the run ends before its command, nothing has been put back yet

    def blank(self) -> bool:
        """Empty the record of a command whose files are put back, to be reused. Return False if that fails."""
        if self._finalizer is None or not self._finalizer.alive:
            return False
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            return True
        return False

    def fill(self, kept: Iterable[dict[str, Any]]) -> None:
        """Record the files that another command must not change. If that fails, there is no record."""
        try:
            _write(self._descriptor, _data(kept))
        except OSError:
            self.remove()

    def remove(self) -> None:
        """Remove the record, once everything is put back."""
        if self._finalizer is not None:
            self._finalizer()


class RunningCommandLock:
    """The lock of a running command that no namespace ends together with us.

    Until it is released, nothing is put back that other runs abandoned. The small process that watches over the command
    holds it, so the code for putting files back is loaded only when it is needed.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._lock = -1
        with suppress(OSError):
            self._lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            wait_for_lock(self._lock, LOCK_SECONDS, shared=True)

    def end(self, *, abandoned: bool) -> None:
        """Release the lock of a command that has ended. Put back what it changed if its run was killed.

        ``abandoned`` says that the run is gone, or about to be: a killed process may lose its sockets before its locks.
        """
        if self._lock >= 0:
            os.close(self._lock)
            seconds = LOCK_SECONDS if abandoned else 0
            deadline = time.monotonic() + seconds
            while _all_held(self._folder) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            put_back_abandoned(self._folder, seconds)


def put_back_abandoned(folder: Path, seconds: float = LOCK_SECONDS) -> str:
    """Put back the files that killed runs left changed, and return notes about them. Reads and writes files.

    Nothing is put back while a command runs that could change it again. This waits up to ``seconds`` for such commands.
    """
    notes: list[str] = []
    with suppress(OSError), opened(folder) as lock:
        if any(map(_is_abandoned, folder.iterdir())) and wait_for_lock(lock, seconds):
            notes = [note for path in sorted(folder.iterdir()) for note in _put_back(path)]
    return "\n".join(filter(None, notes))


def _all_held(folder: Path) -> bool:
    """Return whether there are records, and none of them is abandoned."""
    with suppress(OSError):
        records = [*folder.iterdir()]
        return bool(records) and not any(map(_is_abandoned, records))
    return False


def _is_abandoned(path: Path) -> bool:
    with suppress(OSError), opened(path, os.O_NOFOLLOW) as record:
        return try_lock(record)
    return False


def _put_back(path: Path) -> list[str]:
    from vibe.shell.sandbox.kept import KeptPaths  # noqa: PLC0415  usually there is nothing to put back

    notes: list[str] = []
    with suppress(OSError), opened(path, os.O_NOFOLLOW) as record:
        if wait_for_lock(record, GLANCE_SECONDS) and os.path.exists(path):
            with suppress(ValueError):  # the machine went down before the record was written
                notes = [KeptPaths.read(written).put_back() for written in json.loads(path.read_bytes())]
            path.unlink()
    return notes


def _data(kept: Iterable[dict[str, Any]]) -> bytes:
    return json.dumps([*kept]).encode()


def _write(record: int, data: bytes) -> None:
    with open(record, "wb", closefd=False) as file:
        file.write(data)


def _create_locked(folder: Path, data: bytes) -> tuple[Path, int] | None:
    """Create a record and lock it. None if another process took it for abandoned before it was locked."""
    new = folder / f"{os.urandom(8).hex()}{UNFINISHED}"
    record = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    is_made = False
    try:
        if try_lock(record):
            _write(record, data)
            path = new.rename(new.with_suffix(".json"))
            is_made = True
            return path, record
    except FileNotFoundError:
        pass
    finally:
        if not is_made:
            os.close(record)
            new.unlink(missing_ok=True)
    return None


def _remove(path: Path, record: int) -> None:
    path.unlink(missing_ok=True)
    os.close(record)
