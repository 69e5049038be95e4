"""Manages saved sessions: deletes, prunes, renames and searches them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from msgspec import Struct, structs

from vibe.core.session.errors import writing_folder
from vibe.core.session.folder import (
    FILES,
    SavedSession,
    SessionFolder,
    SessionListing,
    Transcript,
    TranscriptError,
    in_use,
    lock_session,
    read_meta,
    write_meta,
)
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import is_locked
from vibe.system.plain_text import excerpt, plain_line

LONGEST_TITLE = 200
"""The most characters of a title."""
MOST_FOUND = 200
"""The search ends after this many places."""
MOST_OF_SESSION = 5
"""The most messages of one session that a search returns."""
MOST_BYTES = 1_000_000_000
"""The most bytes of transcripts that a search reads, newest sessions first."""


class FoundPlace(Struct, frozen=True, kw_only=True):
    """A place that contains all words: a message by its index (None for the title), and a line with the first word."""

    session: SavedSession
    message: int | None
    line: str


class PruneReport(Struct, frozen=True, kw_only=True):
    """The sessions that were deleted, or would be, and the old ones that stay, each with the reason."""

    deleted: tuple[SavedSession, ...]
    kept: tuple[tuple[SavedSession, str], ...]


def delete_sessions(chosen: Sequence[SavedSession], listing: SessionListing) -> None:
    """Delete sessions, all or none of them; ``listing`` is that of all existing sessions.

    Raises:
        EnvironmentFailure: one is in use, or a session in use continues it.
        SessionFolderError: deleting failed.
    """
    needed = needed_sessions(listing.sessions)
    with ExitStack() as held:
        for saved in chosen:
            if reason := needed.get(saved.meta.session_id):
                raise EnvironmentFailure(reason)
            held.enter_context(lock_session(saved.folder))
        for saved in chosen:
            _delete(saved.folder)


def prune_sessions(listing: SessionListing, before: float, *, dry_run: bool) -> PruneReport:
    """Delete the sessions in which nothing was said since ``before`` (unix seconds).

    With ``dry_run`` they are only listed. Sessions in use, those they continue, and those of another program stay.

    Raises:
        EnvironmentFailure: one was resumed just now, or deleting failed.
    """
    old = [saved for saved in listing.sessions if saved.updated < before and not saved.meta.origin]
    needed = needed_sessions(listing.sessions)
    deleted = tuple(saved for saved in old if saved.meta.session_id not in needed)
    for saved in () if dry_run else deleted:
        with lock_session(saved.folder):
            _delete(saved.folder)
    kept = ((saved, needed[saved.meta.session_id]) for saved in old if saved.meta.session_id in needed)
    return PruneReport(deleted=deleted, kept=tuple(kept))


def needed_sessions(sessions: Sequence[SavedSession]) -> dict[str, str]:
    """Return the ids of the sessions in use and of those they continue, each with a sentence that says why."""
    parents = {saved.meta.session_id: saved.meta.parent_id for saved in sessions}
    needed: dict[str, str] = {}
    for saved in sessions:
        if not is_locked(saved.folder.lock):
            continue
        session_id, used = saved.meta.session_id, in_use(saved.folder)
        needed[session_id] = f"session {session_id} {used}: wait for it or stop it"
        parent = parents.get(session_id)
        while parent and parent not in needed:
            needed[parent] = f"session {parent} is what session {session_id} goes on from, which {used}: wait for it"
            parent = parents.get(parent)
    return needed


def _delete(folder: SessionFolder) -> None:
    with writing_folder(folder.path):
        for name in FILES:  # first: without them the folder no longer counts as a session, even if the rest fails
            (folder.path / name).unlink(missing_ok=True)
        shutil.rmtree(folder.path)


def rename_session(saved: SavedSession, title: str) -> str:
    """Give a session another title, and return the title as it is stored.

    Raises:
        UsageError: the title is empty or too long, the session is another program's, or its meta data are damaged.
        EnvironmentFailure: the session is in use, or writing failed.
    """
    title = plain_line(title)
    if not 0 < len(title) <= LONGEST_TITLE:
        raise UsageError(f"a title has 1 to {LONGEST_TITLE} characters, not {len(title)}")
    if saved.meta.origin or saved.lost:
        problem = saved.lost or f"it is a session of {saved.meta.origin}"
        raise UsageError(f"session {saved.meta.session_id} can't be renamed: {problem}; rename a fork of it")
    with lock_session(saved.folder), writing_folder(saved.folder.path):
        write_meta(saved.folder.path, structs.replace(read_meta(saved.folder.path), title=title))
    return title


def search_sessions(
    sessions: Sequence[SavedSession], words: Sequence[str], masked: Callable[[str], str], tell: Callable[[str], object]
) -> Iterator[FoundPlace]:
    """Yield the places in titles and messages that contain all words, ignoring case; reads files.

    ``masked`` removes the secrets from a line that was found. ``tell`` hears of what is not searched.

    Raises:
        UsageError: no word was given.
    """
    wanted = [word.casefold() for word in words if word]
    if not wanted:
        raise UsageError("there is no word to search for: give one")
    left, count = MOST_BYTES, 0
    for saved in sessions:
        if count >= MOST_FOUND:
            tell(f"the newest {count} places are shown: give more words")
            return
        try:
            left -= saved.folder.transcript.stat().st_size
            if left < 0:
                tell(f"the newest {MOST_BYTES // 1_000_000:,} MB were searched: older sessions were left out")
                return
            for found in _search_session(saved, wanted, masked):
                count += 1
                yield found
        except (OSError, TranscriptError) as error:
            tell(f"warning: {error}")


def _search_session(saved: SavedSession, wanted: Sequence[str], masked: Callable[[str], str]) -> Iterator[FoundPlace]:
    if _contains(saved.meta.title, wanted):
        yield FoundPlace(session=saved, message=None, line=masked(saved.meta.title))
    count = 0
    for index, message in enumerate(Transcript.peek(saved.folder.transcript).messages):
        if count < MOST_OF_SESSION and _contains(message.content, wanted):
            count += 1
            yield FoundPlace(session=saved, message=index, line=excerpt(masked(message.content), wanted[0]))


def _contains(text: str, wanted: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in wanted)
