"""Registry of publishers on this machine: ``$VIBE_HOME/run/<source>.json``, and folders that ended runs left."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ipc.codec import WIRE_VERSION
from ipc.errors import BusUnavailableError, JournalError, UnknownSourceError, kept_in
from ipc.journal import is_being_written
from ipc.places import JOURNAL_NAME, PUBLISHER_NAME, addresses_from, bases, run_folders
from vibe.system.files import replace_file

LEFTOVERS_KEPT_S = 7 * 24 * 3600.0
"""The folder of an ended run stays that long after its last event."""

SWEEP_EVERY_S = 3600.0
"""A start looks through all folders that often: there may be thousands, and each start would pay for that."""

_SWEPT_NAME = ".swept"
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run's account of itself. ``kept``: its events stay for a while after its end."""

    cwd: str
    title: str = ""
    plan_id: str | None = None
    session_id: str | None = None
    kept: bool = True


class Entry(Struct, frozen=True, kw_only=True):
    """One publisher. Times are unix seconds; ``ended`` is set once it closed its bus in good order.

    ``token`` must be in every request to ``control``, and on TCP in every request for events; only the file in the vibe
    home has it, which only the user can read, and which commands of a model can't.
    """

    source: str
    events: str
    replay: str
    control: str
    journal: str
    pid: int
    started: float
    info: RunInfo
    ended: float | None = None
    wire: int = WIRE_VERSION
    token: str = ""

    @property
    def public(self) -> Entry:
        """The entry as everyone may see it: without the token."""
        return msgspec.structs.replace(self, token="")

    def allows(self, token: str) -> bool:
        """Return whether a request with that token is the user's own."""
        import hmac  # noqa: PLC0415  only a run that is asked needs it

        return bool(self.token) and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def alive(self) -> bool:
        """Is its process still there? Told by the lock on its journal, which no other process can inherit by chance."""
        return is_being_written(Path(self.journal))


class Origin(Struct, frozen=True, kw_only=True):
    """Sources of one publisher's events; ``events`` and ``replay`` are None if only its journal is left.

    ``token`` is the run's, if this home knows it.
    """

    source: str | None
    events: str | None
    replay: str | None
    journal: Path | None
    token: str = ""


class Registry(Struct, eq=False):
    """The publishers of one vibe home; every call reads or writes files, so call it off the loop."""

    home: Path
    runtime_dir: Path | None = None

    def register(self, entry: Entry) -> None:
        """Write, or write again, what is known of a publisher, here and beside its journal.

        Raises:
            BusUnavailableError: It can't be written.
        """
        try:
            _write(self._file(entry.source), msgspec.json.encode(entry))
            _write(Path(entry.journal).with_name(PUBLISHER_NAME), msgspec.json.encode(entry.public))
        except OSError as error:
            raise BusUnavailableError(
                entry.events,
                f"it can't be registered in {self.home / 'run'} ({error.strerror})",
                "free disk space, or set VIBE_HOME to a writable folder",
            ) from error

    def remove(self, entry: Entry) -> None:
        """Take a publisher out that ended in good order; what lies beside its journal says when."""
        with suppress(OSError):
            _write(
                Path(entry.journal).with_name(PUBLISHER_NAME),
                msgspec.json.encode(msgspec.structs.replace(entry.public, ended=time.time())),
            )
        with suppress(OSError):
            self._file(entry.source).unlink(missing_ok=True)

    def running(self) -> list[Entry]:
        """Every publisher that lives, the oldest first."""
        return [entry for entry in self._registered() if entry.alive]

    def ended(self) -> list[Entry]:
        """Every publisher that is gone and whose journal is still there, the newest first."""
        folders = run_folders(self.home, self.runtime_dir)
        entries = filter(None, (kept_in(path / PUBLISHER_NAME, Entry) for path in folders))
        gone = (entry for entry in entries if entry.ended is not None or not entry.alive)
        kept = (entry for entry in gone if Path(entry.journal).is_file())
        return sorted(kept, key=lambda entry: entry.started, reverse=True)

    def sweep(self, now: float | None = None) -> None:
        """Forget publishers that died and their sockets; each hour, delete what ended more than 7 days ago."""
        now = time.time() if now is None else now
        for entry in self._registered():
            if not entry.alive:
                self._clear_up(entry)
        if not self._is_sweep_due(now):
            return
        for folder in run_folders(self.home, self.runtime_dir):
            journal = folder / JOURNAL_NAME
            with suppress(OSError):
                changed = (journal if journal.exists() else folder).stat().st_mtime
                if changed < now - LEFTOVERS_KEPT_S and not is_being_written(journal):
                    shutil.rmtree(folder, ignore_errors=True)

    def _clear_up(self, entry: Entry) -> None:
        """Forget a publisher that died, its sockets, and its events if they are not to be kept."""
        folder = Path(entry.journal).parent
        if folder.parent in bases(self.home, self.runtime_dir):
            with suppress(OSError):
                for path in folder.glob("*.ipc"):
                    path.unlink(missing_ok=True)
            if not entry.info.kept:
                shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            self._file(entry.source).unlink(missing_ok=True)

    def _is_sweep_due(self, now: float) -> bool:
        """Return whether old folders were last looked for more than an hour ago; from now on they were."""
        stamp = self.home / "run" / _SWEPT_NAME
        with suppress(OSError):
            if 0 <= now - stamp.stat().st_mtime < SWEEP_EVERY_S:
                return False
        with suppress(OSError):  # FileNotFoundError: no run has left anything here yet
            stamp.touch(mode=0o600)
            os.utime(stamp, (now, now))
        return True

    def owner_of(self, address: str) -> Entry | None:
        """The living publisher at an event address."""
        return next((entry for entry in self.running() if entry.events == address), None)

    def resolve(self, target: str | Path) -> Origin:
        """Find what a user meant: a source id or a unique prefix of it, a plan id, an address, a journal file.

        Raises:
            UnknownSourceError: It means nothing, or several.
            BusUnavailableError: It is an address that can't be used.
            JournalError: It is a path, and no file is there.
        """
        if isinstance(target, str) and "://" in target:
            return self._at_address(target)
        if isinstance(target, Path) or "/" in target:
            return self._at_journal(Path(target))
        return self._by_name(target)

    def running_as(self, name: str) -> Entry:
        """Find the run a user meant that takes commands: a source id or a unique prefix of it, or a plan id.

        Raises:
            UnknownSourceError: It means nothing, or several, or a run that is over.
        """
        running = self.running()
        found = _matching(running, name)
        if found is not None:
            return found
        problem = "has ended" if _matching_all(self.ended(), name) else "is not a run on this machine"
        raise UnknownSourceError(name, problem, [entry.source for entry in running])

    def _at_address(self, address: str) -> Origin:
        addresses = addresses_from(address)
        entry = self.owner_of(addresses.events)
        if entry is not None:
            return _origin(entry, alive=True)
        return Origin(source=None, events=addresses.events, replay=addresses.replay, journal=None)

    def _at_journal(self, path: Path) -> Origin:
        if not path.is_file():
            raise JournalError(path, "no such file", "give the path of a journal.jsonl or a source id")
        entry = kept_in(path.with_name(PUBLISHER_NAME), Entry)
        if entry is None or Path(entry.journal).name != path.name:
            return Origin(source=None, events=None, replay=None, journal=path)
        known = next((other for other in self.running() if other.source == entry.source), entry)
        return _origin(msgspec.structs.replace(known, journal=str(path)), alive=entry.alive)

    def _by_name(self, name: str) -> Origin:
        running = self.running()
        for entries, alive in ((running, True), (self.ended(), False)):
            found = _matching(entries, name)
            if found is not None:
                return _origin(found, alive=alive)
        raise UnknownSourceError(name, "is not a run on this machine", [entry.source for entry in running])

    def _registered(self) -> list[Entry]:
        folder = self.home / "run"
        if not folder.is_dir():
            return []
        found = [(path, kept_in(path, Entry)) for path in folder.glob("*.json")]
        entries = [entry for path, entry in found if entry is not None and path.name == f"{entry.source}.json"]
        return sorted(entries, key=lambda entry: entry.started)

    def _file(self, source: str) -> Path:
        return self.home / "run" / f"{checked_source(source)}.json"


def checked_source(source: str) -> str:
    """The source id itself, if it can name a file.

    Raises:
        ValueError: It can't.
    """
    if not _SOURCE.fullmatch(source):
        raise ValueError(f"the source id {source!r} must be 1 to 64 letters, digits, dots, dashes or underscores")
    return source


def ended_in_good_order(journal: Path) -> bool:
    """Did the publisher that wrote ``journal`` close its bus, rather than die?"""
    entry = kept_in(journal.with_name(PUBLISHER_NAME), Entry)
    return entry is not None and entry.ended is not None


def _matching(entries: list[Entry], name: str) -> Entry | None:
    """Return the one that is meant; of several runs of a plan, the latest."""
    found = _matching_all(entries, name)
    if len({entry.source for entry in found}) > 1 and found[0].info.plan_id != name:
        raise UnknownSourceError(name, "matches several runs", [entry.source for entry in found])
    return found[0] if found else None


def _matching_all(entries: list[Entry], name: str) -> list[Entry]:
    exact = [entry for entry in entries if entry.source == name]
    same_plan = [entry for entry in entries if entry.info.plan_id == name]
    # A plan that was resumed has had several publishers: the newest is meant.
    same_plan.sort(key=lambda entry: entry.started, reverse=True)
    return exact or same_plan or [entry for entry in entries if entry.source.startswith(name)]


def _origin(entry: Entry, *, alive: bool) -> Origin:
    journal = Path(entry.journal)
    if not alive:
        return Origin(source=entry.source, events=None, replay=None, journal=journal)
    return Origin(source=entry.source, events=entry.events, replay=entry.replay, journal=journal, token=entry.token)


def _write(path: Path, data: bytes) -> None:
    """The whole file or the old one, for the user's eyes only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, data, sync=False)
