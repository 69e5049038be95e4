"""ChatSession: the saved conversation of one chat, new or continued.

Messages from before a summary are in the session in which they were said.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from uuid import uuid4

from msgspec import Struct, structs

from vibe.app.conversation.opening import Opening
from vibe.core.compactor import summary_in
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Message, Outcome
from vibe.core.session.errors import BrokenSessionError
from vibe.core.session.folder import (
    VERSION,
    SavedSession,
    SessionFolder,
    SessionLoader,
    SessionMeta,
    Transcript,
    lock_session,
    read_meta,
    write_meta,
)
from vibe.core.session.restoring import FileBack
from vibe.core.session.rewind import RewindManager, RewindReport
from vibe.core.session.snapshots import Snapshots, carry_on
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import FileLock
from vibe.system.git.discovery import git_head
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces

COMPACTED, CLEARED, REWOUND = "compacted", "cleared", "rewound"
"""Outcomes of a session that continues as another one: from a summary, from nothing, or from one of its messages."""
UNLOCKED_SECONDS = 10.0
"""The time for which a new session's folder may exist before it is locked."""
GENERATIONS = 50
"""The most ancestors of a session that are looked for."""


class ChatSession:
    """A session that only this process continues, until ``release``. ``open`` and ``close`` block.

    ``session_id``, ``folder`` and ``transcript`` change when the conversation continues in another session because it
    was summarised, cleared or taken back. ``repaired`` says what had to be repaired.
    """

    def __init__(
        self, paths: VibePaths, meta: SessionMeta, folder: SessionFolder, transcript: Transcript, locks: ExitStack
    ) -> None:
        self.folder = folder
        self.transcript = transcript
        self.repaired = ""
        self._snapshots: Snapshots | None = None
        self._rewind_lock = Lock()
        self._paths = paths
        self._meta = meta
        self._locks = locks
        self._unlogged = [folder.path] if folder.path.parent == paths.unlogged else []

    @classmethod
    def open(cls, paths: VibePaths, opening: Opening, *, kept: bool = True) -> ChatSession:
        """Begin a session or continue one.

        If ``kept`` is False, nothing of the conversation stays on disk, and a resumed session stays as it was.

        Raises:
            UsageError: the session asked for does not exist, or can't be understood.
            EnvironmentFailure: another process continues the session, or the disk refuses.
        """
        locks = ExitStack()
        try:
            return cls._open(paths, opening, locks, kept=kept)
        except BaseException:
            locks.close()
            raise

    @property
    def session_id(self) -> str:
        """The session's id at present."""
        return self._meta.session_id

    @property
    def title(self) -> str:
        """The beginning of its first prompt; empty while it has none."""
        return self._meta.title

    @property
    def earlier_outputs(self) -> tuple[Path, ...]:
        """The output folders of the sessions this one was forked from. Their conversations name files in them."""
        found: list[Path] = []
        with suppress(BrokenSessionError):
            for parent in islice(_ancestors(self._paths, self.session_id), GENERATIONS):
                found.append(_folder(self._paths, parent).outputs)
        return tuple(folder for folder in found if folder.is_dir())

    def snapshots(self, environ: Mapping[str, str], own: OwnPlaces = NO_OWN_PLACES) -> Snapshots:
        """Return the snapshots of the present session. For ``environ`` and ``own`` see ``Snapshots``."""
        if self._snapshots is None:
            self._snapshots = Snapshots(Path(self._meta.workspace), self.folder.path, environ, own)
        return self._snapshots

    def close(self, outcome: Outcome) -> None:
        """Write the outcome. Disk errors are ignored."""
        with suppress(OSError):
            write_meta(self.folder.path, self._ended_meta(outcome.value))

    def release(self) -> None:
        """Let other processes continue the session. A session that is empty or not to be kept is removed."""
        empty = () if self.transcript.messages else (self.folder.path,)
        for folder in (*self._unlogged, *empty):
            shutil.rmtree(folder, ignore_errors=True)
        self._locks.close()

    def entitle(self, title: str) -> None:
        """Give the session a title. Disk errors are ignored."""
        self._meta = structs.replace(self._meta, title=title)
        with suppress(OSError):
            write_meta(self.folder.path, self._meta)

    def copy(self) -> str:
        """Save the conversation so far as another session, and return its id.

        Raises:
            EnvironmentFailure: the disk refuses.
        """
        folder = self.folder.begin_child(self._meta)
        Transcript.peek(self.folder.transcript).restart(self.transcript.messages, folder.transcript)
        return folder.path.name

    def clear(self) -> None:
        """Continue in a new session without messages.

        Raises:
            EnvironmentFailure: the disk refuses; nothing has changed.
        """
        fresh = Transcript()
        fresh.spend(self.transcript.usage, self.transcript.cost_usd)
        fresh.turns = self.transcript.turns
        self.fork(partial(fresh.restart, []), CLEARED)
        self.transcript = fresh
        self.entitle("")  # its first prompt will become its title

    def rewind(
        self,
        message_index: int,
        environ: Mapping[str, str],
        own: OwnPlaces = NO_OWN_PLACES,
        *,
        files: bool,
        chat: bool = True,
        only: Collection[str] = (),
    ) -> RewindReport:
        """Continue in a new session before the message at ``message_index``. With ``files``, the files go back too.

        Without ``chat``, only the files go back and the session stays the same. ``only`` is as in ``RewindManager``.

        Raises:
            UsageError: no turn begins there.
            EnvironmentFailure: the files of that time are unknown, or git or the disk refuses.
        """

        def fork(conversation: Transcript) -> str:
            if chat:
                restart = partial(conversation.restart, conversation.messages[:message_index])
                self.fork(restart, REWOUND, most=message_index)
                self.transcript = conversation
            return self.session_id

        with self._rewind_lock:
            manager = RewindManager(environ, own)
            return manager.rewind(self._as_saved, message_index, files=files, only=only, fork=fork)

    def going_back(self, message_index: int, environ: Mapping[str, str], own: OwnPlaces) -> Sequence[FileBack]:
        """Return the files that a rewind would put back.

        Raises:
            EnvironmentFailure: the files of that time are unknown, or git or the disk refuses.
        """
        with self._rewind_lock:
            return RewindManager(environ, own).outlook(self._as_saved, message_index)

    @property
    def _as_saved(self) -> SavedSession:
        return SavedSession(folder=self.folder, meta=self._meta, updated=time.time())

    def fork(
        self, restart: Callable[[Path | None], None], outcome: str = COMPACTED, *, most: int | None = None
    ) -> None:
        """Continue the conversation in a new session whose parent is this one. Blocks.

        ``outcome`` becomes that of the session so far. For ``restart`` see ``Fork``. ``most`` is the number of messages
        that are left of a conversation that is cut.
        """
        folder, before = self.folder.begin_child(self._meta), len(self.transcript.messages)
        lock = lock_session(folder)
        try:
            restart(folder.transcript)
        except EnvironmentFailure:
            lock.release()
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        if outcome != CLEARED:
            carry_on(self.folder.path, folder.path, dropped=before - len(self.transcript.messages), most=most)
        with suppress(OSError):
            write_meta(self.folder.path, self._ended_meta(outcome))
        self._meta, self.folder, self._snapshots = read_meta(folder.path), folder, None
        if self._unlogged:  # stays locked, since the next process removes unsaved sessions without a lock
            self._unlogged.append(folder.path)
        else:  # from now on others may resume the session so far
            self._locks.close()
        self._locks.callback(lock.release)

    def _ended_meta(self, outcome: str) -> SessionMeta:
        commit, branch = git_head(Path(self._meta.workspace))
        return structs.replace(
            self._meta,
            ended=time.time(),
            outcome=outcome,
            usage=self.transcript.usage,
            cost_usd=self.transcript.cost_usd,
            git_commit=commit,
            git_branch=branch,
        )

    @classmethod
    def _open(cls, paths: VibePaths, opening: Opening, locks: ExitStack, *, kept: bool) -> ChatSession:
        earlier = None
        if opening.resume is not None:
            earlier = SessionLoader(paths.sessions).find(opening.resume, opening.workdir)
        if not kept:
            _remove_unlogged(paths.unlogged)
        elif earlier is not None and not opening.fork and not earlier.meta.origin:  # another program's is only copied
            return cls._continue(paths, opening, locks, earlier)
        return cls._begin(paths, opening, locks, earlier, kept=kept)

    @classmethod
    def _begin(
        cls, paths: VibePaths, opening: Opening, locks: ExitStack, earlier: SavedSession | None, *, kept: bool
    ) -> ChatSession:
        """Begin a session, with the conversation of an ``earlier`` one if given. The earlier one stays as it is."""
        workspace = opening.workdir
        commit, branch = git_head(workspace)
        meta = SessionMeta(
            version=VERSION,
            session_id=uuid4().hex,
            workspace=str(workspace),
            model=opening.model or "",
            agent=opening.agent or "",
            title=opening.title,
            parent_id=None if earlier is None else earlier.meta.session_id,
            started=time.time(),
            git_commit=commit,
            git_branch=branch,
        )
        folder = SessionFolder.begin(paths.sessions if kept else paths.unlogged, meta)
        locks.callback(lock_session(folder).release)
        transcript, repaired = Transcript(path=folder.transcript), ""
        if earlier is not None:
            transcript = Transcript.peek(earlier.folder.transcript)
            transcript.restart(transcript.messages, folder.transcript)
            repaired = _repair_text(transcript.dropped_bytes, transcript.close_dangling_calls(), earlier)
        session = cls(paths, meta, folder, transcript, locks)
        session.repaired = repaired
        return session

    @classmethod
    def _continue(cls, paths: VibePaths, opening: Opening, locks: ExitStack, saved: SavedSession) -> ChatSession:
        locks.callback(lock_session(saved.folder).release)
        transcript = Transcript.open(saved.folder.transcript)
        closed = transcript.close_dangling_calls()
        place = saved.meta.workspace or str(opening.workdir)
        meta = structs.replace(
            saved.meta, workspace=place, model=opening.model or "", agent=opening.agent or "", ended=None, outcome=None
        )
        session = cls(paths, meta, saved.folder, transcript, locks)
        with suppress(OSError):  # the session counts as running until it ends again
            write_meta(saved.folder.path, meta)
        session.repaired = _repair_text(transcript.dropped_bytes, closed, saved)
        return session


def _remove_unlogged(sessions: Path) -> None:
    """Remove unsaved sessions that killed processes left behind."""
    for path in sessions.iterdir() if sessions.is_dir() else ():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < UNLOCKED_SECONDS:
                continue  # its process may be about to lock it
            lock = FileLock.acquire(SessionFolder(path).lock)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                lock.release()


def _repair_text(dropped_bytes: int, closed_calls: int, saved: SavedSession) -> str:
    """Return what resuming had to repair or to pass over, as a sentence; empty if nothing."""
    parts = [f"{saved.lost}, and was made again of the messages"] if saved.lost else []
    if dropped_bytes:
        parts.append(f"{dropped_bytes} bytes of an incomplete message were dropped")
    if closed_calls:
        parts.append(f"{closed_calls} tool calls without a result were closed as interrupted")
    damage = f"the session was damaged: {' and '.join(parts)}" if parts else ""
    return "; ".join(filter(None, (saved.passed_over, damage)))


class EarlierMessages(Struct, frozen=True):
    """Messages that a summary replaces. ``session_id`` is the session that has them."""

    session_id: str
    messages: Sequence[Message]


def ids_of(paths: VibePaths, session_id: str) -> Iterator[str]:
    """Yield the ids a conversation has had since it was begun or cleared, newest first. Reads files."""
    yield session_id
    with suppress(BrokenSessionError):
        for parent in _ancestors(paths, session_id):
            if read_meta(_folder(paths, parent).path).outcome == CLEARED:
                break
            yield parent


def begins_with_summary(messages: Sequence[Message]) -> bool:
    """Return whether a summary replaces what was said before these messages."""
    return bool(messages) and bool(summary_in(messages[0]))


def before_summary(paths: VibePaths, session_id: str) -> EarlierMessages | None:
    """Return the messages that the summary at the beginning of a session replaces; None if it begins with none.

    Sessions that were forked or taken back from one begin with the same summary and are passed over. Reads files.

    Raises:
        BrokenSessionError, TranscriptError: the session that has the messages is gone, or can't be read.
    """
    messages = _messages(paths, session_id)
    if not begins_with_summary(messages):
        return None
    for parent in _ancestors(paths, session_id):
        earlier = _messages(paths, parent)
        if not earlier:
            return None
        if earlier[0] != messages[0]:
            return EarlierMessages(parent, earlier[: len(earlier) - _kept_count(earlier, messages)])
        messages = earlier
    return None


def _kept_count(earlier: Sequence[Message], messages: Sequence[Message]) -> int:
    """Return how many of the last messages of ``earlier`` follow the summary word for word."""
    limit = min(len(earlier), len(messages) - 1)
    return next(kept for kept in range(limit, -1, -1) if earlier[len(earlier) - kept :] == messages[1 : kept + 1])


def _ancestors(paths: VibePaths, session_id: str) -> Iterator[str]:
    """Yield the ids of the sessions that one comes from, nearest first; the last may be gone."""
    seen = {session_id}
    while (parent := read_meta(_folder(paths, session_id).path).parent_id or session_id) not in seen:
        seen.add(parent)
        yield (session_id := parent)


def _messages(paths: VibePaths, session_id: str) -> Sequence[Message]:
    folder = _folder(paths, session_id)
    read_meta(folder.path)  # raises an error if the session is gone
    return Transcript.peek(folder.transcript).messages


def _folder(paths: VibePaths, session_id: str) -> SessionFolder:
    unlogged = paths.unlogged / session_id
    return SessionFolder(unlogged if unlogged.is_dir() else paths.sessions / session_id)
