"""The registry of publishers on this machine: ``$VIBE_HOME/run/<source>.json``, and the folders of ended runs."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, json, structs

from ipc.codec import WIRE_VERSION
from ipc.errors import BusUnavailableError, JournalError, UnknownSourceError, read_json_file
from ipc.events import PlanResumedEvent, PlanStartedEvent, SessionEndedEvent, SessionStartedEvent, UserMessageEvent
from ipc.journal import is_being_written, recorded_events
from ipc.places import JOURNAL_NAME, PUBLISHER_NAME, addresses_from, bases, files_of_runs, run_folders
from vibe.system.errors import remedy
from vibe.system.files import replace_file

LEFTOVERS_KEPT_S = 7 * 24 * 3600.0
"""Seconds for which the folder of an ended run is kept after its last event."""

SWEEP_EVERY_S = 3600.0
"""Seconds between two searches for old folders. There may be thousands, so not every start looks through them."""

LATEST = "latest"
"""A name for the running run that began last, or if none runs, the one that has ended."""

TITLE_CHARACTERS = 80
"""The most characters of a first prompt that become the title of a conversation of which only the journal is left."""

_SWEPT_NAME = ".swept"
_TELLING = (b'{"type":"session.', b'{"type":"plan.started"', b'{"type":"plan.resumed"', b'{"type":"user.message"')
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run's description of itself. ``kept`` says that its events stay for a while after its end."""

    cwd: str
    title: str = ""
    plan_id: str | None = None
    session_id: str | None = None
    kept: bool = True


class Entry(Struct, frozen=True, kw_only=True):
    """One publisher. Times are unix seconds.

    Without addresses it is known by its journal alone. If it closed its bus in good order, ``ended`` is set, and
    ``last`` is the number of its last event.

    ``token`` must be in every request to ``control``, and on TCP in every request for events. It is only in the file in
    the vibe home, which the user can read but a model's commands can't.
    """

    source: str
    events: str = ""
    replay: str = ""
    control: str = ""
    journal: str
    pid: int = 0
    started: float
    info: RunInfo
    ended: float | None = None
    last: int = 0
    wire: int = WIRE_VERSION
    token: str = ""

    @property
    def public(self) -> Entry:
        """The entry without its token, as everyone may see it."""
        return structs.replace(self, token="")

    def allows(self, token: str) -> bool:
        """Return whether ``token`` is the run's, which proves that the request is the user's own."""
        import hmac  # noqa: PLC0415  needed only once a request comes

        return bool(self.token) and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def alive(self) -> bool:
        """True while its process lives. It holds a lock on its journal; process ids, by contrast, are used again."""
        return is_being_written(Path(self.journal))


_UNKNOWN = Entry(source="", journal="", started=0.0, info=RunInfo(cwd=""))


class Registry(Struct, eq=False):
    """The publishers of one vibe home. Every method reads or writes files, so call it off the event loop.

    A method that looks for publishers raises IpcError if a folder of runs can't be listed.
    """

    home: Path
    runtime_dir: Path | None = None

    def register(self, entry: Entry) -> None:
        """Write a publisher's entry, or update it, in the registry and beside its journal.

        Raises:
            BusUnavailableError: it can't be written.
        """
        try:
            _write(self._file(entry.source), json.encode(entry))
            _write(Path(entry.journal).with_name(PUBLISHER_NAME), json.encode(entry.public))
        except OSError as error:
            raise BusUnavailableError(
                entry.events,
                f"it can't be registered in {self.home / 'run'} ({error.strerror})",
                f"{remedy(error)}, or set VIBE_HOME to another folder",
            ) from error

    def remove(self, entry: Entry, last: int = 0) -> None:
        """Remove a publisher that ended in good order. Beside its journal, record when, and its ``last`` event."""
        with suppress(OSError):
            _write(
                Path(entry.journal).with_name(PUBLISHER_NAME),
                json.encode(structs.replace(entry.public, ended=time.time(), last=last)),
            )
        with suppress(OSError):
            self._file(entry.source).unlink(missing_ok=True)

    def running(self) -> list[Entry]:
        """Return every living publisher, the oldest first."""
        return [entry for entry in self._registered() if entry.alive]

    def ended(self) -> list[Entry]:
        """Return every publisher that is gone but whose journal is still there, the newest first."""
        entries = filter(None, map(_entry_in, run_folders(self.home, self.runtime_dir)))
        gone = (entry for entry in entries if os.path.isfile(entry.journal) and (entry.ended or not entry.alive))
        return sorted(gone, key=lambda entry: entry.started, reverse=True)

    def sweep(self, now: float | None = None) -> None:
        """Forget publishers that died, and their sockets. Once an hour, delete runs that ended more than 7 days ago."""
        now = time.time() if now is None else now
        for entry in self._registered():
            if not entry.alive:
                self._forget(entry)
        if not self._claim_sweep(now):
            return
        for folder in run_folders(self.home, self.runtime_dir):
            journal = folder / JOURNAL_NAME
            with suppress(OSError):
                changed = (journal if os.path.exists(journal) else folder).stat().st_mtime
                if changed < now - LEFTOVERS_KEPT_S and not is_being_written(journal):
                    shutil.rmtree(folder, ignore_errors=True)

    def _forget(self, entry: Entry) -> None:
        """Forget a publisher that died and remove its sockets, and its events unless they are to be kept."""
        folder = Path(entry.journal).parent
        if folder.parent in bases(self.home, self.runtime_dir):
            with suppress(OSError):
                for path in folder.glob("*.ipc"):
                    path.unlink(missing_ok=True)
            if not entry.info.kept:
                shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            self._file(entry.source).unlink(missing_ok=True)

    def _claim_sweep(self, now: float) -> bool:
        """Return whether the last search for old folders is more than an hour ago, and if so record this one."""
        stamp = self.home / "run" / _SWEPT_NAME
        with suppress(OSError):
            if 0 <= now - stamp.stat().st_mtime < SWEEP_EVERY_S:
                return False
        with suppress(OSError):  # FileNotFoundError: no run has left anything here yet
            stamp.touch(mode=0o600)
            os.utime(stamp, (now, now))
        return True

    def owner_of(self, address: str) -> Entry | None:
        """Return the living publisher at an event address, or None."""
        return next((entry for entry in self.running() if entry.events == address), None)

    def resolve(self, target: str | Path) -> Entry:
        """Find the publisher that ``target`` names: a source, plan or session id, address, journal, or ``latest``.

        Without addresses, only its journal is left. What is unknown of it is blank.

        Raises:
            UnknownSourceError: it names no run, or several.
            BusUnavailableError: it is an address that can't be used.
            JournalError: it is a path where there is no file.
        """
        if isinstance(target, str) and "://" in target:
            return self._at_address(target)
        if isinstance(target, Path) or "/" in target:
            return self._at_journal(Path(target))
        return self._by_name(target)

    def running_as(self, name: str) -> Entry:
        """Find the running run that ``name`` means, to send it commands: a source, plan or session id, or ``latest``.

        Raises:
            UnknownSourceError: it names no run, several runs, or a run that has ended.
        """
        if not (found := self._by_name(name)).events:
            raise UnknownSourceError(name, "has ended", [entry.source for entry in self.running()])
        return found

    def _at_address(self, address: str) -> Entry:
        addresses = addresses_from(address)
        return self.owner_of(addresses.events) or structs.replace(_UNKNOWN, **structs.asdict(addresses))

    def _at_journal(self, path: Path) -> Entry:
        if not os.path.isfile(path):
            raise JournalError(path, "no such file", "give the path of a journal.jsonl or a source id")
        entry = read_json_file(path.with_name(PUBLISHER_NAME), Entry)
        if entry is None or Path(entry.journal).name != path.name:
            return structs.replace(_UNKNOWN, journal=str(path))
        known = next((other for other in self.running() if other.source == entry.source), entry)
        return structs.replace(known if entry.alive else _journal_of(known), journal=str(path))

    def _by_name(self, name: str) -> Entry:
        running = self.running()
        if (found := _matching(running, name)) is not None:
            return found
        if (found := _matching(self.ended(), name)) is not None:
            return _journal_of(found)
        raise UnknownSourceError(name, "is not a run on this machine", [entry.source for entry in running])

    def _registered(self) -> list[Entry]:
        paths = files_of_runs(self.home / "run")
        found = [(path, read_json_file(path, Entry)) for path in paths if path.suffix == ".json"]
        entries = [entry for path, entry in found if entry is not None and path.name == f"{entry.source}.json"]
        return sorted(entries, key=lambda entry: entry.started)

    def _file(self, source: str) -> Path:
        return self.home / "run" / f"{checked_source(source)}.json"


def checked_source(source: str) -> str:
    """Return the source id if it can name a file.

    Raises:
        ValueError: it can't.
    """
    if not _SOURCE.fullmatch(source):
        raise ValueError(f"the source id {source!r} must be 1 to 64 letters, digits, dots, dashes or underscores")
    return source


def _entry_in(folder: Path) -> Entry | None:
    """Return the entry beside a journal. If that is damaged or missing, return one that follows from the journal."""
    entry, journal = read_json_file(folder / PUBLISHER_NAME, Entry), folder / JOURNAL_NAME
    with suppress(JournalError, OSError):
        return entry or _entry_of(journal)
    return None


def _entry_of(journal: Path) -> Entry | None:
    """Return the entry that follows from a journal. A conversation has the title and the end that its events say."""
    entry = None
    for event in recorded_events(journal, beginnings=_TELLING):
        if entry is None and isinstance(event, SessionStartedEvent | PlanStartedEvent | PlanResumedEvent):
            info = RunInfo(cwd=event.workspace, plan_id=event.plan_id, session_id=event.session_id)
            ended = None if isinstance(event, SessionStartedEvent) else journal.stat().st_mtime
            entry = Entry(source=event.source, journal=str(journal), started=event.ts, ended=ended, info=info)
        elif entry is not None and isinstance(event, UserMessageEvent) and not entry.info.title:
            entry = structs.replace(entry, info=structs.replace(entry.info, title=event.text[:TITLE_CHARACTERS]))
        elif entry is not None and isinstance(event, SessionEndedEvent):
            entry = structs.replace(entry, ended=event.ts)
    return entry


def last_in_good_order(journal: Path | None) -> int | None:
    """Return the number of the last event in ``journal``; None if its publisher died, rather than closed its bus."""
    entry = None if journal is None else read_json_file(journal.with_name(PUBLISHER_NAME), Entry)
    return None if entry is None or entry.ended is None else entry.last


def _matching(entries: list[Entry], name: str) -> Entry | None:
    """Return the entry that ``name`` means, or None."""
    found = _matching_all(entries, name)
    if len({entry.source for entry in found}) > 1:
        raise UnknownSourceError(name, "matches several runs", [entry.source for entry in found])
    return found[0] if found else None


def _matching_all(entries: list[Entry], name: str) -> list[Entry]:
    exact = [entry for entry in entries if entry.source == name]
    same_work = [entry for entry in entries if name in {LATEST, entry.info.plan_id, entry.info.session_id}]
    # A resumed plan or session has had several publishers; its id means the newest, and ``latest`` that of all.
    newest = sorted(same_work, key=lambda entry: entry.started)[-1:]
    return exact or newest or [entry for entry in entries if entry.source.startswith(name)]


def _journal_of(entry: Entry) -> Entry:
    """Return what is left of a publisher that is gone."""
    return structs.replace(entry.public, events="", replay="", control="")


def _write(path: Path, data: bytes) -> None:
    """Replace a file atomically, so that only the user can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, data, sync=False)
