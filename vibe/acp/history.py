"""Saved sessions as an editor lists and loads them: each under one id, however many others continue it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from acp import RequestError
from acp.helpers import image_block, text_block
from acp.schema import ListSessionsResponse, SessionInfo, UserMessageChunk

from ipc.events import ToolCallEvent, ToolResultEvent
from vibe.acp.updates import SessionUpdate, SessionUpdates, message_chunk, thought_chunk
from vibe.app.conversation.session import CLEARED, COMPACTED, REWOUND
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.core.session.folder import SavedSession, SessionLoader
from vibe.core.session.keeping import delete_sessions, needed_sessions
from vibe.core.told_files import split_files
from vibe.core.tools.errors import ToolArgumentsError
from vibe.core.tools.schema import parse_arguments
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.plain_text import plain

WENT_ON = frozenset({COMPACTED, CLEARED, REWOUND})
"""Outcomes of a session that continues in another one."""
PAGE = 50
"""The number of sessions on a page."""
CURSOR = re.compile(r"[0-9]{1,9}")
NOT_FOUND = -32002
"""The protocol's error code for something that does not exist."""
SUBJECT_ARGUMENTS = ("command", "path", "file_path", "pattern", "url")
"""Arguments that say what a call was about."""


class SavedSessions:
    """The sessions in a folder, read once.

    A session that was summarized, cleared or rewound continues in another one.
    """

    def __init__(self, sessions: Path) -> None:
        self._listing = SessionLoader(sessions).all()
        self._by_id = {saved.meta.session_id: saved for saved in self._listing.sessions}
        self._next: dict[str, str] = {}
        for saved in sorted(self._by_id.values(), key=lambda saved: saved.meta.started):
            before = self._by_id.get(saved.meta.parent_id or "")
            if before is not None and before.meta.outcome in WENT_ON and saved.meta.started <= (before.meta.ended or 0):
                self._next[before.meta.session_id] = saved.meta.session_id

    def latest(self, session_id: str) -> SavedSession:
        """Return the last session that continues one, or the session itself.

        Raises:
            RequestError: there is no such session.
        """
        if session_id not in self._by_id:
            raise RequestError(NOT_FOUND, f"there is no saved session {session_id[:80]!r}: list those there are")
        while session_id in self._next:
            session_id = self._next[session_id]
        return self._by_id[session_id]

    def delete(self, session_id: str) -> None:
        """Delete a session, if it exists, with all sessions that it continues and that continue it.

        Raises:
            EnvironmentFailure: it is in use, or a session in use continues it; nothing is deleted.
            SessionFolderError: it can't be removed from disk.
        """
        delete_sessions(self._all_of(session_id), self._listing)

    def check_deletable(self, session_id: str) -> None:
        """Check that no other session in use continues this one.

        Raises:
            EnvironmentFailure: one does.
        """
        own = self._all_of(session_id)
        needed = needed_sessions([saved for saved in self._listing.sessions if saved not in own])
        for saved in own:
            if reason := needed.get(saved.meta.session_id):
                raise EnvironmentFailure(reason)

    def _all_of(self, session_id: str) -> list[SavedSession]:
        """Return a session with all that it continues and that continue it, or nothing if there is no such session."""
        latest = self.latest(session_id) if session_id in self._by_id else None
        return [saved for known, saved in self._by_id.items() if self.latest(known) is latest]

    def listed(self, cwd: str | None, cursor: str | None) -> ListSessionsResponse:
        """Return a page of a folder's sessions (of all if None), the newest first.

        Raises:
            UsageError: the cursor is not one of ours.
        """
        if cursor is not None and not CURSOR.fullmatch(cursor):
            raise UsageError(f"there is no page {cursor[:80]!r}: begin without a cursor")
        later = set(self._next.values())
        found = [
            (first, self.latest(first))
            for first in self._by_id
            if first not in later and (cwd is None or self._by_id[first].meta.workspace == cwd)
        ]
        found.sort(key=lambda pair: pair[1].updated, reverse=True)
        start = int(cursor or 0)
        more = str(start + PAGE) if len(found) > start + PAGE else None
        return ListSessionsResponse(
            sessions=[_info(first, saved) for first, saved in found[start : start + PAGE]], next_cursor=more
        )


def replayed(messages: Sequence[Message], root: Path) -> Iterator[SessionUpdate]:
    """Yield the updates that make an editor show these messages. Paths are relative to ``root``."""
    updates = SessionUpdates(root)
    for number, message in enumerate(messages):
        match message:
            case UserMessage():
                yield from _prompt(message, f"m{number}")
            case AssistantMessage():
                if message.reasoning:
                    yield thought_chunk(plain(message.reasoning), f"m{number}")
                if message.content:
                    yield message_chunk(plain(message.content), f"m{number}")
                for call in message.tool_calls:
                    yield from updates.for_event(_call(call))
            case ToolMessage():
                result = ToolResultEvent(
                    tool_call_id=message.tool_call_id, tool=message.name, status=message.status, content=message.content
                )
                yield from updates.for_event(result)
            case _:
                pass


def _info(session_id: str, saved: SavedSession) -> SessionInfo:
    return SessionInfo(
        session_id=session_id,
        cwd=saved.meta.workspace,
        title=saved.meta.title or None,
        updated_at=datetime.fromtimestamp(saved.updated, UTC).isoformat(),
    )


def _prompt(message: UserMessage, message_id: str) -> Iterator[SessionUpdate]:
    blocks = [image_block(one.data, one.media_type) for one in message.images]
    for content in (text_block(plain(split_files(message.content)[0])), *blocks):
        yield UserMessageChunk(session_update="user_message_chunk", content=content, message_id=message_id)


def _call(call: ToolCall) -> ToolCallEvent:
    try:
        arguments = parse_arguments(call.name, call.arguments, {})
    except ToolArgumentsError:
        arguments = {}
    about = next((arguments[name] for name in SUBJECT_ARGUMENTS if name in arguments), "")
    return ToolCallEvent(
        tool_call_id=call.id, tool=call.name, arguments=arguments, summary=f"{call.name} {about}".rstrip()
    )
