"""SessionLoader: finds saved sessions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from vibe.core.session.errors import (
    AmbiguousSessionError,
    BrokenSessionError,
    DamagedMetaError,
    NoSuchSessionError,
)
from vibe.core.session.folder import META_FILE, VERSION, SessionFolder, SessionMeta, read_meta, salvaged
from vibe.core.session.transcript import Transcript, TranscriptError
from vibe.system.plain_text import shortened

FILES = ("messages.jsonl", META_FILE)
"""A folder without either holds no session; one without the first is that of a window in which nothing was said."""
TITLE_LENGTH = 80
LAST_RESORT = 200
"""Of the newest folders so many are looked at for the last session of a workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """A session on disk. ``updated`` is when something was last said in it, in unix seconds.

    ``lost`` is what became of its meta data, if they had to be made again of its messages; the workspace may be blank.
    """

    folder: SessionFolder
    meta: SessionMeta
    updated: float
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListing:
    """The sessions there are, the newest first, and a sentence for each folder that can't be understood."""

    sessions: tuple[SavedSession, ...]
    problems: tuple[str, ...]


class SessionLoader:
    """Looks into the folder ``sessions``, which need not exist. Reads files; changes none."""

    def __init__(self, sessions: Path) -> None:
        self._sessions = sessions

    def all(self) -> SessionListing:
        """Every session."""
        return self._read(self._names())

    def find(self, wanted: str) -> SavedSession:
        """The session whose id is ``wanted``, or the only one whose id begins so.

        Raises:
            NoSuchSessionError, AmbiguousSessionError: none or several do.
            BrokenSessionError: it can't be understood.
        """
        names = self._names()
        found = [wanted] if wanted in names else [name for name in names if wanted and name.startswith(wanted)]
        if not found:
            found = [name for name in names if wanted and self._id_of(name).startswith(wanted)]
        if not found:
            raise NoSuchSessionError(wanted or "''")
        if len(found) > 1:
            raise AmbiguousSessionError(wanted, found)
        return self._load(found[0])

    def last_of(self, workspace: Path) -> SavedSession:
        """The session in ``workspace`` in which something was said last.

        Raises:
            NoSuchSessionError: it has none.
        """
        here = str(workspace.resolve())
        for saved in self._read(self._names()[:LAST_RESORT]).sessions:
            if saved.meta.workspace and os.path.realpath(saved.meta.workspace) == here:
                return saved
        raise NoSuchSessionError("", workspace)

    def _names(self) -> list[str]:
        """The folders that hold something, the newest first."""
        if not self._sessions.is_dir():
            return []
        folders = [Path(entry.path) for entry in os.scandir(self._sessions) if entry.is_dir(follow_symlinks=False)]
        sessions = [path for path in folders if any((path / name).exists() for name in FILES)]
        return [path.name for path in sorted(sessions, key=_updated, reverse=True)]

    def _id_of(self, name: str) -> str:
        """The id of the session in a folder that may be called otherwise; blank if it can't be understood."""
        try:
            return self._load(name).meta.session_id
        except BrokenSessionError:
            return ""

    def _read(self, names: list[str]) -> SessionListing:
        sessions: list[SavedSession] = []
        problems: list[str] = []
        for name in names:
            try:
                saved = self._load(name)
            except BrokenSessionError as error:
                problems.append(str(error))
                continue
            if saved.folder.transcript.exists():
                sessions.append(saved)
            if saved.lost:
                problems.append(f"session {name}: {saved.lost}; what is known of it is taken from its messages")
        return SessionListing(sessions=tuple(sessions), problems=tuple(problems))

    def _load(self, name: str) -> SavedSession:
        folder = SessionFolder(self._sessions / name)
        lost = ""
        try:
            meta = read_meta(folder.path)
        except DamagedMetaError as error:
            meta, lost = _of_messages(folder, error), error.problem
        return SavedSession(folder=folder, meta=meta, updated=_updated(folder.path), lost=lost)


def _of_messages(folder: SessionFolder, error: DamagedMetaError) -> SessionMeta:
    """Return what the messages of a session, and what is left of its meta data, say about it.

    Raises:
        DamagedMetaError: there are no messages.
    """
    try:
        transcript = Transcript.peek(folder.transcript)
    except TranscriptError:
        raise error from None
    if not transcript.prompts:
        raise error
    title = shortened(" ".join(transcript.prompts[0].content.split()), TITLE_LENGTH)
    known = {"workspace": "", "title": title, **salvaged(folder.path)}
    meta = {"version": VERSION, "session_id": folder.path.name, "started": _updated(folder.path), **known}
    found = msgspec.convert(meta, SessionMeta)
    return structs.replace(found, usage=transcript.usage, cost_usd=transcript.cost_usd)


def _updated(folder: Path) -> float:
    """Return when something was last said, else when the session began."""
    for name in FILES:
        try:
            return (folder / name).stat().st_mtime
        except OSError:
            continue
    return 0.0
