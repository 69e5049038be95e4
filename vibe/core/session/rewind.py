"""RewindManager: takes a conversation back to one of its messages, and the files with it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

from msgspec import structs

from vibe.core.messages import Message, ToolMessage
from vibe.core.session.errors import NoSuchMessageError, SnapshotError
from vibe.core.session.folder import SessionFolder
from vibe.core.session.loader import SavedSession
from vibe.core.session.snapshots import Snapshot, Snapshots
from vibe.core.session.transcript import Transcript

SET_ASIDE = "set-aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file that the agent and someone else changed since; ``saved_as`` is a copy of what it held."""

    path: str
    saved_as: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindReport:
    """What a rewind did. Paths are relative to the workspace's repository, else to the workspace.

    ``session_id`` goes on from the message; the session it was forked from is untouched. ``skipped`` are files that
    could not be restored because a git filter stands before them.
    """

    session_id: str
    messages: int
    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    skipped: tuple[str, ...] = ()


class RewindManager:
    """Everything here blocks: call it in a thread. ``environ`` is where git is looked for."""

    def __init__(self, sessions: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        self._sessions = sessions
        self._environ = environ
        self._clock = clock

    def rewind(self, session: SavedSession, message_index: int, *, files: bool = True) -> RewindReport:
        """Fork the session before the message at ``message_index``; with ``files``, put the files back too.

        Only files that the agent changed since are touched. Where others changed one of them as well, theirs is kept
        aside first.

        Raises:
            NoSuchMessageError: no turn begins there.
            SnapshotError: the files of that time are not known, or git refuses; nothing was changed before that.
            TranscriptError, SessionFolderError: the disk refuses.
        """
        conversation = Transcript.peek(session.folder.transcript)
        allowed = turn_starts(conversation.messages)
        if message_index not in allowed:
            raise NoSuchMessageError(message_index, allowed)
        restoring = self._restoring(session, message_index) if files else None
        session_id = self._fork(session, conversation, message_index)
        report = RewindReport(session_id=session_id, messages=message_index)
        return report if restoring is None else restoring.carry_out(report)

    def _restoring(self, session: SavedSession, message_index: int) -> _Restoring | None:
        """What has to be done to the files; None: nothing, since no call changed any after that."""
        snapshots = Snapshots(Path(session.meta.workspace), session.folder.path, self._environ)
        taken = snapshots.taken()
        target = _snapshot_at(taken, message_index)
        if target is None:
            return None
        current = snapshots.current_tree()
        since = [*taken[taken.index(target) :], Snapshot(-1, current, found=True)]
        by_agent, by_others = _who_changed_what(snapshots, since)
        changes = [change for change in snapshots.changes(current, target.tree) if change.path in by_agent]
        wanted = [change.path for change in changes if change.status != "D"]
        filtered = snapshots.filtered_paths(wanted) if wanted else set[str]()
        return _Restoring(
            snapshots=snapshots,
            tree=target.tree,
            restored=tuple(path for path in wanted if path not in filtered),
            deleted=tuple(change.path for change in changes if change.status == "D"),
            skipped=tuple(sorted(filtered)),
            changed_outside=frozenset(by_others),
            aside=session.folder.path / SET_ASIDE / time.strftime("%Y%m%d-%H%M%S", time.localtime(self._clock())),
        )

    def _fork(self, session: SavedSession, conversation: Transcript, message_index: int) -> str:
        now = self._clock()
        session_id = uuid4().hex
        meta = structs.replace(
            session.meta,
            session_id=session_id,
            parent_id=session.meta.session_id,
            started=now,
            ended=now,
            outcome="rewound",
        )
        folder = SessionFolder.begin(self._sessions, meta)
        conversation.restart(conversation.messages[:message_index], folder.transcript)
        return session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restoring:
    """The files of a rewind, worked out before anything is touched."""

    snapshots: Snapshots
    tree: str
    restored: tuple[str, ...]
    deleted: tuple[str, ...]
    skipped: tuple[str, ...]
    changed_outside: frozenset[str]
    aside: Path

    def carry_out(self, report: RewindReport) -> RewindReport:
        top = self.snapshots.top
        try:
            conflicts = tuple(
                Conflict(path=path, saved_as=_set_aside(top / path, self.aside / path))
                for path in (*self.restored, *self.deleted)
                if path in self.changed_outside and _exists(top / path)
            )
            for path in self.deleted:
                _remove(top / path, self.snapshots.workspace)
        except OSError as error:
            raise SnapshotError(
                f"{error.filename}: can't be put back ({error.strerror}); mend that and rewind again"
            ) from error
        if self.restored:
            self.snapshots.write_files(self.tree, self.restored)
        return RewindReport(
            session_id=report.session_id,
            messages=report.messages,
            restored=self.restored,
            deleted=self.deleted,
            conflicts=conflicts,
            skipped=self.skipped,
        )


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where a conversation can be cut: before a prompt or an answer, and at its end."""
    return [index for index, message in enumerate(messages) if not isinstance(message, ToolMessage)] + [len(messages)]


def _snapshot_at(taken: Sequence[Snapshot], message_index: int) -> Snapshot | None:
    """The files when there were ``message_index`` messages.

    Snapshots are only taken around changing calls: the first one at or after the message shows what it found. None:
    nothing was changed after it.
    """
    before = [snapshot for snapshot in taken if snapshot.messages <= message_index]
    after = [snapshot for snapshot in taken if snapshot.messages > message_index]
    if before:
        return before[-1]
    return after[0] if after else None


def _who_changed_what(snapshots: Snapshots, since: Sequence[Snapshot]) -> tuple[set[str], set[str]]:
    """Paths the agent changed and paths others changed; after a turn that was cut off, nobody knows: both."""
    by_agent: set[str] = set()
    by_others: set[str] = set()
    for before, after in pairwise(since):
        paths = {change.path for change in snapshots.changes(before.tree, after.tree)}
        if before.found or not after.found:
            by_agent |= paths
        if after.found:
            by_others |= paths
    return by_agent, by_others


def _set_aside(path: Path, copy: Path) -> Path:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy, follow_symlinks=False)
    return copy


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _remove(path: Path, workspace: Path) -> None:
    """Remove a file, and the folders it leaves empty."""
    path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == workspace or not parent.is_relative_to(workspace) or any(parent.iterdir()):
            return
        parent.rmdir()
