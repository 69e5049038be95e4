"""Reads and writes saved conversations: Transcript has the messages, SessionFolder the files, SessionLoader finds them.

A session's folder has ``meta.json``, ``messages.jsonl``, long tool outputs and a lock.

``meta.json`` describes the session. Older versions of it are converted when they are read; sessions of Mistral Vibe 2.x
have other names in it, and tool calls in the wire format.

``messages.jsonl`` is the transcript. Each message is one write, so that a process that is killed loses at most the
message it was writing. The system prompt is not part of it, since it is built anew for every request. A conversation
that was shortened, or forked from another, has a checkpoint line with the messages that replace everything before it.
"""

from __future__ import annotations

import os
import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import Struct, ValidationError, convert, json, structs

from ipc.errors import INVALID_JSON
from vibe.core.messages import AssistantMessage, Message, Spending, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.schemas import list_of, table_of, text_in
from vibe.core.session.errors import BrokenSessionError, DamagedMetaError, SessionFolderError, writing_folder
from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as, remedy
from vibe.system.files import FileLock, append_all, holder_of, opened, regular_bytes, replace_file, text_of
from vibe.system.plain_text import shortened, some_of

INTERRUPTED_RESULT = (
    "This call was interrupted: the process ended while it ran. It may have taken effect in part. "
    "Check before you repeat it."
)


class Checkpoint(Struct, frozen=True, tag="checkpoint", tag_field="role"):
    """A line that replaces all lines before it. ``usage``, ``cost_usd`` and ``turns`` are the totals up to there.

    ``remembered`` is the state of tools at that time, as JSON values by tool, since the calls that set it are gone.
    """

    messages: tuple[Message, ...]
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    turns: int = 0
    remembered: dict[str, Any] = {}


Record: TypeAlias = Message | Checkpoint
"""A line of ``messages.jsonl``."""

PADDING = BOM_UTF8 + b" \t\r"
"""Bytes that editors leave around a line, and that belong to no message."""

_decoder = json.Decoder(Record)
_encoder = json.Encoder()


class TranscriptError(EnvironmentFailure):
    """A transcript can't be read or written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class Transcript:
    """The messages of a conversation, with the totals of its model calls: ``usage``, ``cost_usd`` and ``turns``.

    ``cost_usd`` is None if unknown. ``messages`` becomes another list when the conversation is restarted. Without a
    ``path`` the messages are kept in memory only. ``inherited`` is what the conversation had spent before it was
    forked. ``dropped_bytes`` is the length of an incomplete last line that was cut off on opening. ``prompts`` are all
    messages ever sent to the agent, including those that were summarised since. ``remembered`` is the state of tools
    when the conversation was last shortened; ``memories`` returns their state now, if it is known.
    """

    def __init__(self, records: Sequence[Record] = (), *, path: Path | None = None, dropped_bytes: int = 0) -> None:
        self.messages: list[Message] = []
        self.prompts: list[UserMessage] = []
        self.dropped_bytes = dropped_bytes
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.turns = 0
        self.inherited = Spending()
        self.remembered: Mapping[str, Any] = {}
        self.memories: Callable[[], Mapping[str, Any]] | None = None
        self.path = path
        """The file the conversation is written to; None if it is kept in memory only."""
        for record in records:
            self._apply(record)

    @classmethod
    def open(cls, path: Path) -> Transcript:
        """Open the transcript at ``path``, empty if there is none, and cut off an incomplete last line on disk.

        Raises:
            TranscriptError: a line before the last is not a message, or the file can't be read.
        """
        records, dropped = _read(path, mend=True)
        return cls(records, path=path, dropped_bytes=dropped)

    @classmethod
    def peek(cls, path: Path) -> Transcript:
        """Read the complete lines of the transcript at ``path`` without ever changing the file.

        Raises:
            TranscriptError: a line before the last is not a message, or the file can't be read.
        """
        records, dropped = _read(path, mend=False)
        return cls(records, dropped_bytes=dropped)

    def append(self, message: Message) -> None:
        """Write one message to disk, then add it to ``messages``.

        Raises:
            TranscriptError: writing failed.
        """
        if self.path is not None:
            _add_line(self.path, _encoder.encode(message))
        self._apply(message)

    def restart(self, messages: Sequence[Message], path: Path | None = None) -> None:
        """Replace the whole conversation by ``messages``, and continue in ``path`` if one is given.

        Raises:
            TranscriptError: writing failed; nothing has changed.
        """
        known = self.remembered if self.memories is None else self.memories()
        checkpoint = Checkpoint(
            tuple(messages), usage=self.usage, cost_usd=self.cost_usd, turns=self.turns, remembered=dict(known)
        )
        target = path or self.path
        if target is not None:
            _add_line(target, _encoder.encode(checkpoint))
        self.path = target
        self._apply(checkpoint)

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """Add the usage of a model call that left no message here; the next checkpoint stores it on disk."""
        self.usage += usage
        known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def close_dangling_calls(self, content: str = INTERRUPTED_RESULT, status: str = "interrupted") -> int:
        """Add a result to every call that has none, by default "interrupted"; return their number."""
        dangling = [ToolMessage(content, call.id, call.name, status=status) for call in self._open_calls()]
        for message in dangling:
            self.append(message)
        return len(dangling)

    def _apply(self, record: Record) -> None:
        """Add a record to the state in memory."""
        if isinstance(record, Checkpoint):
            if not self.messages:
                self.inherited = Spending(record.usage, record.cost_usd)
            self.messages = list(record.messages)
            self.usage, self.cost_usd, self.turns = record.usage, record.cost_usd, record.turns
            self.remembered = record.remembered
            return
        self.messages.append(record)
        if isinstance(record, UserMessage):
            self.prompts.append(record)
        elif isinstance(record, AssistantMessage):
            self.turns += 1
            self.spend(record.usage or Usage(), record.cost_usd)

    def _open_calls(self) -> list[ToolCall]:
        """Return the calls of the last answer that have no result; those of earlier answers always have one."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if isinstance(message, ToolMessage):
                answered.add(message.tool_call_id)
            elif isinstance(message, AssistantMessage):
                return [call for call in message.tool_calls if call.id not in answered]
            else:
                break
        return []


def _read(path: Path, *, mend: bool) -> tuple[list[Record], int]:
    """Return all complete records of a file and the number of bytes after them, which ``mend`` cuts off."""
    with os_error_as(lambda error: TranscriptError(path, f"cannot be read ({error.strerror}); check its permissions")):
        data = regular_bytes(path) if path.exists() else b""
        records, kept = _decode_lines(path, data)
        if mend and kept < len(data):
            os.truncate(path, kept)
    return records, len(data) - kept


def _decode_lines(path: Path, data: bytes) -> tuple[list[Record], int]:
    """Return all complete records, and the number of bytes of ``data`` they take."""
    records: list[Record] = []
    kept = 0
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        text = line.strip(PADDING)
        try:
            if text:
                records.append(_record(text))
        except INVALID_JSON as error:
            if number == len(lines) and not rest and not _is_json(text):
                break  # incomplete; a complete but unknown line was written by a later version
            fix = "use the version of vibe that wrote it, or repair or delete it"
            raise TranscriptError(path, f"line {number} is not a message ({error}); {fix}") from error
        kept += len(line) + 1
    return records, kept


def _is_json(line: bytes) -> bool:
    with suppress(*INVALID_JSON):
        json.decode(line)
        return True
    return False


def _record(line: bytes) -> Record:
    """Return the record in a line of our own format or of Mistral Vibe's.

    Raises:
        msgspec.DecodeError: the line is neither.
    """
    try:
        return _decoder.decode(line)
    except ValidationError:
        if (message := our_message(line)) is None:
            raise
        return message


def our_message(line: bytes) -> Message | None:
    """Return the message in a line of Mistral Vibe's ``messages.jsonl``, or None if the line is not one."""
    try:
        document = json.decode(line, type=dict[str, Any])
    except INVALID_JSON:
        return None
    if "injected" not in document and "message_id" not in document:
        return None
    content = text_in(document.get("content"))
    match document.get("role"):
        case "user":
            return UserMessage(content)
        case "assistant":
            calls = tuple(_call(call) for call in list_of(document.get("tool_calls")))
            return AssistantMessage(content, tool_calls=calls, reasoning=text_in(document.get("reasoning_content")))
        case "tool":
            return ToolMessage(content, text_in(document.get("tool_call_id")), text_in(document.get("name")))
        case _:
            return None


def _call(call: Any) -> ToolCall:
    table = table_of(call)
    function = table_of(table.get("function"))
    return ToolCall(text_in(table.get("id")), text_in(function.get("name")), text_in(function.get("arguments")))


def _add_line(path: Path, line: bytes) -> None:
    with (
        os_error_as(lambda error: TranscriptError(path, f"cannot be written ({error.strerror}); {remedy(error)}")),
        opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor,
    ):
        append_all(descriptor, line + b"\n", os.fstat(descriptor).st_size)


class SessionFolder(Struct, frozen=True):
    """The folder of one session, which other users can't read."""

    path: Path

    @classmethod
    def begin(cls, sessions: Path, meta: SessionMeta) -> SessionFolder:
        """Create the folder of a new session with its ``meta.json``.

        Raises:
            SessionFolderError: it can't be written.
        """
        folder = cls(sessions / meta.session_id)
        with writing_folder(folder.path):
            folder.path.mkdir(parents=True, mode=0o700)
            try:
                write_meta(folder.path, meta)
            except OSError:
                folder.path.rmdir()
                raise
        return folder

    def begin_child(self, meta: SessionMeta, **changes: Any) -> SessionFolder:
        """Create the folder of a new session that goes on from this one, whose ``meta`` it has but for ``changes``.

        Raises:
            SessionFolderError: it can't be written.
        """
        own = {"session_id": uuid4().hex, "parent_id": meta.session_id, "started": time.time(), **changes}
        return SessionFolder.begin(self.path.parent, structs.replace(meta, **own))

    @property
    def transcript(self) -> Path:
        """The conversation, one message per line."""
        return self.path / "messages.jsonl"

    @property
    def outputs(self) -> Path:
        """Tool outputs that were too long for the conversation."""
        return self.path / "outputs"

    @property
    def lock(self) -> Path:
        """The lock held by the process that works in the session."""
        return self.path / "lock"


def lock_session(folder: SessionFolder) -> FileLock:
    """Take the lock of a session, so that only this process works in it.

    Raises:
        EnvironmentFailure: another process holds the lock.
        SessionFolderError: the lock can't be created.
    """
    with writing_folder(folder.path):
        if (held := FileLock.acquire(folder.lock)) is not None:
            return held
    raise EnvironmentFailure(f"session {folder.path.name} {in_use(folder)}: wait for it or stop it")


def in_use(folder: SessionFolder) -> str:
    """Return a phrase that names the process using a session."""
    pid = holder_of(folder.lock)
    return f"is in use by {f'process {pid}' if pid else 'another process'}"


VERSION = 1
META_FILE = "meta.json"
_TEXT = re.compile(r'"(workspace|model|agent|title|parent_id)": ?("(?:[^"\\\\]|\\\\.)*")')


class SessionMeta(Struct, frozen=True, kw_only=True):
    """The meta data of a session. Times are in unix seconds.

    ``ended`` and ``outcome`` are None while it runs, or if it was killed. ``parent_id`` is the session this one was
    forked from. ``cost_usd`` is None if unknown. ``usage`` includes that of the parents. ``origin`` is the program
    that wrote the session, if that was not this one.
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
    """Convert a file without a version, in which the id, the workspace and the times had other names."""
    names = {"id": "session_id", "cwd": "workspace", "start_time": "started", "end_time": "ended"}
    renamed = {names.get(name, name): value for name, value in document.items()}
    return {**renamed, "version": 1}


def read_meta(folder: Path) -> SessionMeta:
    """Read the meta data of the session in ``folder``, without rewriting an older version.

    Raises:
        DamagedMetaError: the file is missing or damaged.
        BrokenSessionError: the file can't be read, or was written by a newer vibe.
    """
    path = folder / META_FILE
    try:
        document = json.decode(regular_bytes(path), type=dict[str, Any])
        return convert(_migrated(folder, document), SessionMeta)
    except OSError as error:
        kind = DamagedMetaError if isinstance(error, FileNotFoundError) else BrokenSessionError
        raise kind(folder, f"{META_FILE} can't be read ({error.strerror})") from error
    except INVALID_JSON as error:
        raise DamagedMetaError(folder, f"{META_FILE} is damaged ({error})") from error


def salvaged(folder: Path) -> dict[str, str]:
    """Return the fields of a damaged ``meta.json`` whose text is complete, by name."""
    found: dict[str, str] = {}
    for name, text in _TEXT.findall(text_of(folder / META_FILE)):
        with suppress(*INVALID_JSON):
            found[name] = json.decode(text.encode(), type=str)
    return found


def write_meta(folder: Path, meta: SessionMeta) -> None:
    """Replace ``meta.json`` as a whole.

    Raises:
        OSError: writing failed; the old file is intact.
    """
    replace_file(folder / META_FILE, json.format(json.encode(meta), indent=2) + b"\n", sync=False)


def _migrated(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise BrokenSessionError(folder, f"it has version {version!r}, this vibe reads {VERSION}: use a newer vibe")
    if "version" not in document and isinstance(document.get("environment"), dict):  # Mistral Vibe wrote it.
        return our_meta(document)
    return document if version else _from_v0(document)


ORIGIN = "mistral-vibe"
"""The ``origin`` of sessions of Mistral Vibe, which are never written to."""


def our_meta(document: dict[str, Any]) -> dict[str, Any]:
    """Convert the ``meta.json`` of Mistral Vibe to our names, leaving out unknown fields."""
    stats, config = table_of(document.get("stats")), table_of(document.get("config"))
    return {
        "version": 1,
        "origin": ORIGIN,
        "session_id": document.get("session_id"),
        "workspace": text_in(table_of(document.get("environment")).get("working_directory")),
        "model": text_in(config.get("active_model")),
        "agent": text_in(table_of(document.get("agent_profile")).get("name")) or "default",
        "title": text_in(document.get("title")),
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


def _seconds(value: Any) -> float | None:
    with suppress(TypeError, ValueError):
        return datetime.fromisoformat(value).timestamp()
    return None


FILES = ("messages.jsonl", META_FILE)
"""The files of a session. A folder with only the second belongs to a window in which nothing was said yet."""
TITLE_LENGTH = 80
"""The most characters of a title that is made from a prompt."""
LATEST = "latest"
"""A name for the session of a workspace with the latest message."""
LAST_RESORT = 200
"""The number of newest folders that are searched for the last session of a workspace."""


class SavedSession(Struct, frozen=True, kw_only=True):
    """A session on disk. ``updated`` is the time of its last message, in unix seconds.

    ``lost`` says what is wrong with its meta data if they were reconstructed from its messages; then the workspace may
    be empty. ``passed_over`` tells of a newer session that may have been meant and can't be read.
    """

    folder: SessionFolder
    meta: SessionMeta
    updated: float
    lost: str = ""
    passed_over: str = ""

    def is_of(self, workspace: Path) -> bool:
        """Return whether the workspace is its own, by whatever links each is reached."""
        return bool(self.meta.workspace) and os.path.realpath(self.meta.workspace) == os.path.realpath(workspace)


class SessionListing(Struct, frozen=True, kw_only=True):
    """All sessions, newest first, and a sentence about each folder that can't be understood."""

    sessions: tuple[SavedSession, ...]
    problems: tuple[str, ...]


class SessionLoader(Struct, eq=False):
    """Finds sessions in the folder ``sessions``, which need not exist. It never changes a file.

    Every method raises SessionFolderError if the folder can't be listed.
    """

    sessions: Path

    def all(self) -> SessionListing:
        """Return every session."""
        sessions: list[SavedSession] = []
        problems: list[str] = []
        for name in self._names():
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

    def find(self, wanted: str, workspace: Path) -> SavedSession:
        """Return the session with the id ``wanted``, or the only one whose id begins with it.

        ``latest`` is the session of ``workspace`` with the latest message.

        Raises:
            UsageError: there is none, or there are several.
            BrokenSessionError: the session can't be understood.
        """
        if wanted == LATEST:
            return self._last_of(workspace)
        names = self._names()
        found = [wanted] if wanted in names else [name for name in names if wanted and name.startswith(wanted)]
        if not found:
            found = [name for name in names if wanted and self._id_of(name).startswith(wanted)]
        if not found:
            raise UsageError(f"no session {wanted!r}: see `vibe session list`")
        if len(found) > 1:
            names = ", ".join(found[:4]) + (" ..." if len(found) > 4 else "")
            raise UsageError(f"{wanted!r} matches {len(found)} session ids ({names}): give more of it")
        return self._load(found[0])

    def _last_of(self, workspace: Path) -> SavedSession:
        unread: list[str] = []
        for name in self._names()[:LAST_RESORT]:
            try:
                saved = self._load(name)
            except BrokenSessionError as error:
                if salvaged(self.sessions / name).get("workspace") in {None, str(workspace)}:
                    unread.append(str(error))
                continue
            if saved.is_of(workspace) and saved.folder.transcript.exists():
                note = f"{some_of(unread, 1)}; an older session is continued" if unread else ""
                return structs.replace(saved, passed_over=note)
        note = f" ({len(unread)} can't be read, see `vibe session list`)" if unread else ""
        start = "start one with `vibe` or `vibe -p PROMPT`; plans that ran are in `vibe plan list`"
        raise UsageError(f"no session to continue in {workspace}{note}: {start}")

    def _names(self) -> list[str]:
        """Return the names of the folders that hold sessions, or that can't be looked into, newest first."""
        try:
            folders = [Path(entry.path) for entry in os.scandir(self.sessions) if entry.is_dir(follow_symlinks=False)]
            times = [(at, path.name) for path in folders if (at := _updated(path)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SessionFolderError(self.sessions, error, "read") from error
        return [name for _, name in sorted(times, reverse=True)]

    def _id_of(self, name: str) -> str:
        """Return the id of the session in a folder, whose name may differ; empty if it can't be understood."""
        with suppress(BrokenSessionError):
            return self._load(name).meta.session_id
        return ""

    def _load(self, name: str) -> SavedSession:
        """Read one session, reconstructing its meta data if they are damaged.

        Raises:
            BrokenSessionError: it can't be understood.
        """
        folder = SessionFolder(self.sessions / name)
        lost = ""
        try:
            meta = read_meta(folder.path)
        except DamagedMetaError as error:
            meta, lost = _reconstructed(folder, error), error.problem
        if "\0" in meta.workspace:
            meta, lost = structs.replace(meta, workspace=""), "its workspace is not a path"
        return SavedSession(folder=folder, meta=meta, updated=_updated(folder.path) or 0.0, lost=lost)


def _reconstructed(folder: SessionFolder, error: DamagedMetaError) -> SessionMeta:
    """Reconstruct the meta data of a session from its messages and the rest of its ``meta.json``.

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
    meta = {"version": VERSION, "session_id": folder.path.name, "started": _updated(folder.path) or 0.0, **known}
    found = convert(meta, SessionMeta)
    return structs.replace(found, usage=transcript.usage, cost_usd=transcript.cost_usd)


def _updated(folder: Path) -> float | None:
    """Return the time of the last message, else that of the session's start, in unix seconds.

    It is that of the folder if that can't be looked into, which reading will tell, and None if it holds no session.
    """
    for name in FILES:
        try:
            return (folder / name).stat().st_mtime
        except FileNotFoundError:
            continue
        except OSError:
            return folder.stat().st_mtime
    return None
