"""SessionFolder: where one conversation is kept: ``meta.json``, ``messages.jsonl``, whole outputs, and its lock.

``meta.json`` says what a session is about; older files are brought up to date as they are read. Sessions of Mistral
Vibe 2.x have other names in it, and the wire's form of tool calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.schemas import table_of
from vibe.core.session.errors import BrokenSessionError, DamagedMetaError, SessionFolderError, SessionLockedError
from vibe.system.files import replace_file, text_of
from vibe.system.locks import FileLock, holder_of


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """One session's folder; other users can't read it."""

    path: Path

    @classmethod
    def begin(cls, sessions: Path, meta: SessionMeta) -> SessionFolder:
        """Make the folder of a new session and write what it is about.

        Raises:
            SessionFolderError: it can't be written.
        """
        folder = cls(sessions / meta.session_id)
        try:
            folder.path.mkdir(parents=True, mode=0o700)
            write_meta(folder.path, meta)
        except OSError as error:
            raise SessionFolderError(folder.path, error) from error
        return folder

    @property
    def transcript(self) -> Path:
        """The conversation, one message a line."""
        return self.path / "messages.jsonl"

    @property
    def outputs(self) -> Path:
        """Tool outputs that were too long for the conversation."""
        return self.path / "outputs"

    @property
    def lock(self) -> Path:
        """Held by the process that goes on with the session."""
        return self.path / "lock"


def lock_session(folder: SessionFolder) -> FileLock:
    """Be the only process that goes on with a session.

    Raises:
        SessionLockedError: another does.
        SessionFolderError: the lock can't be made.
    """
    try:
        held = FileLock.try_acquire(folder.lock)
    except OSError as error:
        raise SessionFolderError(folder.path, error) from error
    if held is None:
        raise SessionLockedError(folder.path.name, holder_of(folder.lock))
    return held


VERSION = 1
META_FILE = "meta.json"
_TEXT = re.compile(r'"(workspace|model|agent|title|parent_id)": ?("(?:[^"\\\\]|\\\\.)*")')


class SessionMeta(Struct, frozen=True, kw_only=True):
    """A session. Times in unix seconds; ``ended`` and ``outcome`` are None while it runs or if it was killed.

    ``parent_id`` is the session this one was forked from. ``cost_usd`` None: unknown. ``usage`` counts the parents'
    too. ``origin`` is the program that wrote it, if that was not this one.
    """

    version: int
    session_id: str
    workspace: str
    model: str = ""
    agent: str = "default"
    title: str = ""
    parent_id: str | None = None
    started: float = 0.0
    ended: float | None = None
    outcome: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    git_commit: str | None = None
    git_branch: str | None = None
    origin: str = ""


def _from_v0(document: dict[str, Any]) -> dict[str, Any]:
    """Files without a version: ``id`` and ``cwd`` were called so, times had other names."""
    names = {"id": "session_id", "cwd": "workspace", "start_time": "started", "end_time": "ended"}
    renamed = {names.get(name, name): value for name, value in document.items()}
    return {**renamed, "version": 1}


MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType({0: _from_v0})
"""By the version a file has: what makes it one of the next."""


def read_meta(folder: Path) -> SessionMeta:
    """The meta data of the session in ``folder``; nothing is rewritten.

    Raises:
        DamagedMetaError: there is none, or it can't be understood.
        BrokenSessionError: it can't be read, or is of a newer vibe.
    """
    path = folder / META_FILE
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return msgspec.convert(_migrated(folder, document), SessionMeta)
    except OSError as error:
        kind = DamagedMetaError if isinstance(error, FileNotFoundError) else BrokenSessionError
        raise kind(folder, f"{META_FILE} can't be read ({error.strerror})") from error
    except INVALID_JSON as error:
        raise DamagedMetaError(folder, f"{META_FILE} is damaged ({error})") from error


def salvaged(folder: Path) -> dict[str, str]:
    """Return the texts in a torn ``meta.json`` that are whole, by their names."""
    found: dict[str, str] = {}
    for name, text in _TEXT.findall(text_of(folder / META_FILE)):
        with suppress(*INVALID_JSON):
            found[name] = msgspec.json.decode(text.encode(), type=str)
    return found


def write_meta(folder: Path, meta: SessionMeta) -> None:
    """Replace ``meta.json`` as a whole.

    Raises:
        OSError: the disk refuses; the old one is whole.
    """
    replace_file(folder / META_FILE, msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n", sync=False)


def _migrated(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise BrokenSessionError(folder, f"it has version {version!r}, this vibe reads {VERSION}: use a newer vibe")
    if is_foreign_meta(document):
        return our_meta(document)
    for step in range(version, VERSION):
        document = MIGRATIONS[step](document)
    return document


ORIGIN = "mistral-vibe"
"""The ``origin`` of such a session; it is never written to."""


def is_foreign_meta(document: dict[str, Any]) -> bool:
    """Return whether Mistral Vibe wrote it: it gives no version and says where it ran in ``environment``."""
    return "version" not in document and isinstance(document.get("environment"), dict)


def our_meta(document: dict[str, Any]) -> dict[str, Any]:
    """The same in our words; what is not known is left out."""
    stats, config = table_of(document.get("stats")), table_of(document.get("config"))
    return {
        "version": 1,
        "origin": ORIGIN,
        "session_id": document.get("session_id"),
        "workspace": _text(table_of(document.get("environment")).get("working_directory")),
        "model": _text(config.get("active_model")),
        "agent": _text(table_of(document.get("agent_profile")).get("name")) or "default",
        "title": _text(document.get("title")),
        "started": _seconds(document.get("start_time")) or 0.0,
        "ended": _seconds(document.get("end_time")),
        "outcome": "completed" if document.get("end_time") else None,
        "usage": {
            "prompt_tokens": stats.get("session_prompt_tokens", 0),
            "completion_tokens": stats.get("session_completion_tokens", 0),
            "calls": stats.get("steps", 0),
        },
        "cost_usd": None,
        "git_commit": document.get("git_commit"),
        "git_branch": document.get("git_branch"),
    }


def our_message(line: bytes) -> Message | None:
    """The message in a line of its ``messages.jsonl``; None: it is another program's, or a later version's of ours."""
    try:
        document = msgspec.json.decode(line, type=dict[str, Any])
    except INVALID_JSON:
        return None
    if "injected" not in document and "message_id" not in document:
        return None
    content = _text(document.get("content"))
    match document.get("role"):
        case "user":
            return UserMessage(content)
        case "assistant":
            calls = tuple(_call(call) for call in cast("list[Any]", document.get("tool_calls") or []))
            return AssistantMessage(content, tool_calls=calls, reasoning=_text(document.get("reasoning_content")))
        case "tool":
            return ToolMessage(content, _text(document.get("tool_call_id")), _text(document.get("name")))
        case _:
            return None


def _call(call: Any) -> ToolCall:
    function = table_of(table_of(call).get("function"))
    return ToolCall(_text(table_of(call).get("id")), _text(function.get("name")), _text(function.get("arguments")))


def _seconds(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
