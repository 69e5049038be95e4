"""RewindManager: takes a conversation back to an earlier message, and the files with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from vibe.core.config.paths import in_utf8
from vibe.core.messages import Message, ToolMessage
from vibe.core.session.errors import SnapshotError
from vibe.core.session.folder import SavedSession, Transcript
from vibe.core.session.restoring import Blame, FileBack, Restoration, RestoredFiles, aside_folder
from vibe.core.session.snapshots import Point, Snapshots, carry_on
from vibe.system.errors import UsageError
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces


class RewindReport(Struct, frozen=True, kw_only=True):
    """The result of a rewind. ``session_id`` is a fork that ends before the message; the old session is untouched."""

    session_id: str
    messages: int
    files: RestoredFiles


class RewindManager(Struct, frozen=True):
    """Rewinds saved sessions. All methods block: call them in a thread.

    For ``environ`` and ``own`` see ``Snapshots``. ``outcome`` is recorded for the new session until it is resumed.
    """

    environ: Mapping[str, str]
    own: OwnPlaces = NO_OWN_PLACES
    outcome: str = "rewound"

    def rewind(
        self,
        session: SavedSession,
        message_index: int,
        *,
        files: bool = True,
        only: Collection[str] = (),
        fork: Callable[[Transcript], str] | None = None,
    ) -> RewindReport:
        """Fork the session before the message at ``message_index``, and with ``files`` restore the files, too.

        ``only`` limits that to files with these paths, as ``outlook`` returns them; empty means all. ``fork`` makes
        the new session from the whole conversation and returns its id; by default the new session is left for later
        use.

        Only files that the agent changed since are touched. If others changed one of them, too, their version is set
        aside first.

        Raises:
            UsageError: no turn begins there.
            SnapshotError: the files of that time are not known, or git failed; nothing was changed before that.
            TranscriptError, SessionFolderError: writing failed.
        """
        conversation = Transcript.peek(session.folder.transcript)
        allowed = turn_starts(conversation.messages)
        if message_index not in allowed:
            places = ("... " if len(allowed) > 12 else "") + (", ".join(map(str, allowed[-12:])) or "none")
            raise UsageError(f"message {message_index} is not a point to rewind to; choose from {places}")
        restoring = self._restoring(session, message_index, only) if files else None
        session_id = fork(conversation) if fork else self._fork(session, conversation, message_index)
        done = RestoredFiles() if restoring is None else restoring.carry_out()
        return RewindReport(session_id=session_id, messages=message_index, files=done)

    def outlook(self, session: SavedSession, message_index: int) -> list[FileBack]:
        """Return the files that a rewind would restore, without changing any.

        Raises:
            SnapshotError: as ``rewind``.
        """
        restoring = self._restoring(session, message_index)
        return [] if restoring is None else restoring.outlook()

    def _restoring(self, session: SavedSession, message_index: int, only: Collection[str] = ()) -> Restoration | None:
        """Return the restoration of the files, or None if no call changed any after that message.

        Raises:
            SnapshotError: the files of that time are not known.
        """
        if not session.meta.workspace:
            problem = f"{session.lost}, so the workspace is not known"
            raise SnapshotError(f"the files can't be rewound: {problem}; continue with `vibe --resume` there first")
        snapshots = Snapshots(Path(session.meta.workspace), session.folder.path, self.environ, self.own)
        points = snapshots.points(whole=True)
        if not points or points[0].messages > message_index:
            snapshots.check_readable()
        start = _point_at(points, message_index)
        if start is None and snapshots.store.git_dir.exists():
            raise SnapshotError("no file was put back: the record of their earlier states is gone or damaged")
        if start is None:
            return None
        if all(point.lost for point in points[: start + 1]):
            raise SnapshotError(f"no file was put back: {points[start].lost}")
        points.append(Point(changed=snapshots.changes(), found=True))
        aside = aside_folder(session.folder.path, time.time())
        return Restoration(snapshots, points, start, partial(_blame, only=only), aside)

    def _fork(self, session: SavedSession, conversation: Transcript, message_index: int) -> str:
        """Create a session with the messages before ``message_index``, and return its id."""
        folder = session.folder.begin_child(session.meta, ended=time.time(), outcome=self.outcome, origin="")
        conversation.restart(conversation.messages[:message_index], folder.transcript)
        carry_on(session.folder.path, folder.path, most=message_index)
        return folder.path.name


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the indexes at which a conversation can be cut: before a prompt or an answer, and at its end."""
    return [index for index, message in enumerate(messages) if not isinstance(message, ToolMessage)] + [len(messages)]


def _point_at(points: Sequence[Point], message_index: int) -> int | None:
    """Return the index of the point with the files as they were after ``message_index`` messages.

    Files are only recorded around calls that change them, so the last point that is not later than that message shows
    them, or else the first point. Return None if nothing was ever recorded.
    """
    before = sum(point.messages <= message_index for point in points)
    return max(before - 1, 0) if points else None


def _blame(since: Sequence[Point], only: Collection[str] = ()) -> Blame:
    """Attribute the changes since a point to the agent and to others; after an interrupted turn, to both.

    ``only`` limits the agent's changes, see ``RewindManager.rewind``.
    """
    by_agent, by_others = set[str](), set[str]()
    for before, after in pairwise(since):
        if before.found or not after.found:
            by_agent |= after.changed.keys()
        if after.found:
            by_others |= after.changed.keys()
    return Blame(mine={path for path in by_agent if not only or in_utf8(path) in only}, others=by_others)
