"""MemoryStore: entries that an agent or the user keeps for later conversations, for one project or for all.

VibeError
├── UsageError                 an entry can't be kept, or there is no entry with that id
└── EnvironmentFailure
    └── MemoryFileError        a file of entries can't be read or written
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import accumulate
from pathlib import Path
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct, json

from ipc.errors import INVALID_JSON
from ipc.events import MemoryEntryEvent
from ipc.sink import EventSink
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import changing_alone, replace_file, writing

MAX_ENTRIES = 100
"""The most entries of one scope."""
MAX_TEXT = 1_000
"""The most characters of one entry."""
MAX_SECTION = 6_000
"""The most characters of all entries in a system prompt; the oldest are left out."""


class MemoryScope(StrEnum):
    """The scope of an entry: one project, or all of them."""

    PROJECT = "project"
    GLOBAL = "global"


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One thing to remember. ``by`` is ``user`` or ``agent``; ``created`` is in unix seconds."""

    id: str
    text: str
    by: str
    created: float


class _File(Struct, frozen=True, kw_only=True):
    version: int = 1
    workspace: str = ""
    entries: tuple[MemoryEntry, ...] = ()


class MemoryFileError(EnvironmentFailure):
    """A file of entries can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the memory file {path} {problem}: repair or remove it")


class MemoryStore(Struct, frozen=True, kw_only=True):
    """The entries of one project and the global ones, stored in ``folder``.

    Every method reads the disk, so don't call it on an event loop. Several agents and processes may use the same files
    at once.
    """

    folder: Path
    project: Path
    clock: Callable[[], float] = time.time

    def entries(self, scope: MemoryScope) -> tuple[MemoryEntry, ...]:
        """Return the entries of a scope, oldest first.

        Raises:
            MemoryFileError: the file can't be read.
        """
        return self._read(scope).entries

    def add(self, text: str, scope: MemoryScope, *, by: str) -> MemoryEntry:
        """Add an entry.

        Raises:
            UsageError: the text is empty or too long, or there are too many entries.
            MemoryFileError: the file can't be used.
        """
        kept = " ".join(text.split())
        if not kept:
            raise UsageError("a memory entry must not be empty: give the text to remember")
        if len(kept) > MAX_TEXT:
            raise UsageError(f"a memory entry has at most {MAX_TEXT} characters, not {len(kept)}: shorten it")
        with self._locked(scope) as file:
            if len(file.entries) >= MAX_ENTRIES:
                raise UsageError(f"there are {MAX_ENTRIES} {scope} memory entries, the limit: remove one first")
            entry = MemoryEntry(id=uuid4().hex[:8], text=kept, by=by, created=self.clock())
            self._write(scope, (*file.entries, entry))
        return entry

    def remove(self, entry_id: str) -> tuple[MemoryScope, MemoryEntry]:
        """Remove an entry of either scope, and return it.

        Raises:
            UsageError: there is no entry with this id.
            MemoryFileError: a file can't be used.
        """
        for scope in MemoryScope:
            with self._locked(scope) as file:
                found = next((entry for entry in file.entries if entry.id == entry_id), None)
                if found is not None:
                    self._write(scope, tuple(entry for entry in file.entries if entry is not found))
                    return scope, found
        raise UsageError(f"no memory entry {entry_id!r}: see `vibe memory list`")

    def prompt_section(self) -> str:
        """Return the section of a system prompt with the entries, up to ``MAX_SECTION`` characters; empty without any.

        Raises:
            MemoryFileError: a file can't be read.
        """
        lines = [
            (entry.created, f"- {entry.text} ({scope}, id {entry.id})")
            for scope in MemoryScope
            for entry in self.entries(scope)
        ]
        newest = [line for _, line in sorted(lines, reverse=True)]
        kept = newest[: sum(size <= MAX_SECTION for size in accumulate(len(line) + 1 for line in newest))]
        if not kept:
            return ""
        left_out = len(lines) - len(kept)
        head = "# Memory\n\nKept from earlier conversations; check what may be out of date before you rely on it."
        note = f"\n({left_out} older entries are left out)" if left_out else ""
        return f"{head}\n" + "\n".join(reversed(kept)) + note

    def _path(self, scope: MemoryScope) -> Path:
        if scope is MemoryScope.GLOBAL:
            return self.folder / "global.json"
        digest = hashlib.blake2b(str(self.project).encode(errors="surrogateescape"), digest_size=8).hexdigest()
        return self.folder / f"{digest}.json"

    def _read(self, scope: MemoryScope) -> _File:
        path = self._path(scope)
        try:
            return json.decode(path.read_bytes(), type=_File)
        except FileNotFoundError:
            return _File()
        except OSError as error:
            raise MemoryFileError(path, f"can't be read ({error.strerror})") from error
        except INVALID_JSON as error:
            raise MemoryFileError(path, f"is damaged ({error})") from error

    def _write(self, scope: MemoryScope, entries: tuple[MemoryEntry, ...]) -> None:
        path = self._path(scope)
        workspace = str(self.project) if scope is MemoryScope.PROJECT else ""
        data = json.format(json.encode(_File(workspace=workspace, entries=entries)))
        replace_file(path, data + b"\n", sync=False)

    @contextmanager
    def _locked(self, scope: MemoryScope) -> Generator[_File]:
        """Yield the file's content while it is locked against changes by others."""
        path = self._path(scope)
        label = f"the memory file {path}"
        with changing_alone(path, label), writing(label):
            yield self._read(scope)


class AgentMemory(Struct, eq=False):
    """One agent's access to a store, which announces every change."""

    store: MemoryStore
    sink: EventSink

    async def add(self, text: str, scope: MemoryScope) -> MemoryEntry:
        """Add an entry by the agent; see ``MemoryStore.add``."""
        entry = await to_thread.run_sync(partial(self.store.add, text, scope, by="agent"))
        self.sink.publish(MemoryEntryEvent(entry_id=entry.id, action="added", text=entry.text))
        return entry

    async def remove(self, entry_id: str) -> MemoryEntry:
        """Remove an entry; see ``MemoryStore.remove``."""
        _, entry = await to_thread.run_sync(self.store.remove, entry_id)
        self.sink.publish(MemoryEntryEvent(entry_id=entry.id, action="removed", text=entry.text))
        return entry
