"""The messages of a conversation from before it was summarised: they are in the session that it was begun in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vibe.core.config.paths import VibePaths
from vibe.core.messages import Message
from vibe.core.middleware.digest import summary_in
from vibe.core.session.folder import SessionFolder
from vibe.core.session.meta import read_meta
from vibe.core.session.transcript import Transcript


@dataclass(frozen=True, slots=True)
class EarlierMessages:
    """Messages for which a summary stands in; ``session_id`` is the session that has them."""

    session_id: str
    messages: Sequence[Message]


def begins_with_summary(messages: Sequence[Message]) -> bool:
    """Return whether a summary stands in for what was said before these messages."""
    return bool(messages) and bool(summary_in(messages[0]))


def before_summary(paths: VibePaths, session_id: str) -> EarlierMessages | None:
    """Return the messages that the summary at the beginning of a session stands in for; None: there are none.

    Sessions that it was forked from or taken back from begin with the same summary, and are passed by. Reads files.

    Raises:
        BrokenSessionError, TranscriptError: the session that has them is gone, or can't be read.
    """
    messages = _messages(paths, session_id)
    if not begins_with_summary(messages):
        return None
    for parent in _ancestors(paths, session_id):
        earlier = _messages(paths, parent)
        if not earlier:
            return None
        if earlier[0] != messages[0]:
            return EarlierMessages(parent, earlier[: len(earlier) - _kept(earlier, messages)])
        messages = earlier
    return None


def _kept(earlier: Sequence[Message], messages: Sequence[Message]) -> int:
    """The number of the last messages of ``earlier`` that stand behind the summary word for word."""
    most = min(len(earlier), len(messages) - 1)
    return next(kept for kept in range(most, -1, -1) if earlier[len(earlier) - kept :] == messages[1 : kept + 1])


def _ancestors(paths: VibePaths, session_id: str) -> Iterator[str]:
    """The sessions that one comes from, the nearest first."""
    seen, meta = {session_id}, read_meta(_folder(paths, session_id).path)
    while meta.parent_id and meta.parent_id not in seen:
        parent = meta.parent_id
        seen.add(parent)
        meta = read_meta(_folder(paths, parent).path)
        yield parent


def _messages(paths: VibePaths, session_id: str) -> Sequence[Message]:
    return Transcript.peek(_folder(paths, session_id).transcript).messages


def _folder(paths: VibePaths, session_id: str) -> SessionFolder:
    unlogged = paths.unlogged / session_id
    return SessionFolder(unlogged if unlogged.is_dir() else paths.sessions / session_id)
