"""Kept conversations: SessionFolder, the place of one; SessionLoader, which finds it; Transcript, what was said in it.

In the folder are ``meta.json``, ``messages.jsonl``, whole outputs, and a lock.
``meta.json`` says what a session is about; older files are brought up to date as they are read. Sessions of Mistral
Vibe 2.x have other names in it, and the wire's form of tool calls.
``messages.jsonl`` is a transcript: one write a message, so that a process killed at any instant loses at most the
message it was writing. The system prompt is not part of it: it is built again, and goes first, in every request. A
conversation that was shortened, or forked from another, has a checkpoint line: the messages that stand in for
everything before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct, structs

from ipc.errors import INVALID_JSON
from vibe.core.messages import AssistantMessage, Message, Spending, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.schemas import table_of, text_in
from vibe.core.session.errors import BrokenSessionError, DamagedMetaError, SessionFolderError
from vibe.system.errors import EnvironmentFailure, UsageError, remedy
from vibe.system.files import FileLock, append_all, holder_of, opened, replace_file, text_of
from vibe.system.plain_text import shortened

INTERRUPTED_RESULT = (
    "This call was interrupted: the process ended while it ran. It may have taken effect in part. "
    "Check before you repeat it."
)
CANCELLED_RESULT = "The call was cancelled before it started."


class Checkpoint(Struct, frozen=True, tag="checkpoint", tag_field="role"):
    """A line that stands in for all before it; ``usage``, ``cost_usd`` and ``turns`` are what it took to get there.

    ``remembered`` is what tools knew then, as JSON values by tool: the calls that told are gone.
    """

    messages: tuple[Message, ...]
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    turns: int = 0
    remembered: dict[str, Any] = {}


Record: TypeAlias = Message | Checkpoint
"""A line of ``messages.jsonl``."""

_decoder = msgspec.json.Decoder(Record)
_encoder = msgspec.json.Encoder()


class TranscriptError(EnvironmentFailure):
    """A transcript cannot be read or written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class Transcript:
    """The messages so far, and what the answers among them took: ``usage``, ``cost_usd`` (None: unknown), ``turns``.

    ``messages`` is another list once the conversation was restarted. ``path`` None keeps them in memory only.
    ``inherited`` is what the conversation that it was forked from had taken by then.
    ``dropped_bytes`` is the length of a torn tail cut at opening; ``prompts`` are what was ever said to the
    agent, whatever was shortened since. ``remembered`` is what tools knew when that was last done, ``memories`` what
    they know now (None: unknown).
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
        """The file of the conversation as it is now; None: it is kept in memory only."""
        for record in records:
            self._remember(record)

    @classmethod
    def open(cls, path: Path) -> Transcript:
        """The transcript at ``path``, empty if there is none; a torn last line is cut on disk.

        Raises:
            TranscriptError: a line before the last is no message, or the file cannot be read.
        """
        records, dropped = _read(path, mend=True)
        return cls(records, path=path, dropped_bytes=dropped)

    @classmethod
    def peek(cls, path: Path) -> Transcript:
        """The transcript at ``path`` as far as it is whole, to look at: nothing on disk changes, now or later.

        Raises:
            TranscriptError: a line before the last is no message, or the file cannot be read.
        """
        records, dropped = _read(path, mend=False)
        return cls(records, dropped_bytes=dropped)

    def append(self, message: Message) -> None:
        """Write one message, then remember it.

        Raises:
            TranscriptError: the disk refuses.
        """
        if self.path is not None:
            _add_line(self.path, _encoder.encode(message))
        self._remember(message)

    def restart(self, messages: Sequence[Message], path: Path | None = None) -> None:
        """Let ``messages`` stand in for the whole conversation, in ``path`` if one is given, else where it is.

        Raises:
            TranscriptError: the disk refuses; nothing has changed.
        """
        known = self.remembered if self.memories is None else self.memories()
        checkpoint = Checkpoint(
            tuple(messages), usage=self.usage, cost_usd=self.cost_usd, turns=self.turns, remembered=dict(known)
        )
        target = path or self.path
        if target is not None:
            _add_line(target, _encoder.encode(checkpoint))
        self.path = target
        self._remember(checkpoint)

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """Count a call that left no message here; on disk it is with the next checkpoint."""
        self.usage += usage
        known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def close_dangling_calls(self, content: str = INTERRUPTED_RESULT, status: str = "interrupted") -> int:
        """Answer every call that has no result, as interrupted unless something else is given; returns how many."""
        dangling = [ToolMessage(content, call.id, call.name, status=status) for call in self._open_calls()]
        for message in dangling:
            self.append(message)
        return len(dangling)

    def _remember(self, record: Record) -> None:
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
        """The calls of the last answer that have no result; earlier ones always have."""
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
    """Every whole record of a file, and how many bytes come behind them; to ``mend`` it these are cut off."""
    try:
        data = path.read_bytes() if path.exists() else b""
        records, kept = _decode_lines(path, data)
        if mend and kept < len(data):
            os.truncate(path, kept)
    except OSError as error:
        raise TranscriptError(path, f"cannot be read ({error.strerror}); check its permissions") from error
    return records, len(data) - kept


def _decode_lines(path: Path, data: bytes) -> tuple[list[Record], int]:
    """Every whole record, and how many bytes of ``data`` they take."""
    records: list[Record] = []
    kept = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                break
            records.append(_record(line))
        except INVALID_JSON as error:
            if number == len(lines) and not _is_json(line):
                break  # torn; what is whole but unknown, a later version wrote
            fix = "use the version of vibe that wrote it, or repair or delete it"
            raise TranscriptError(path, f"line {number} is not a message ({error}); {fix}") from error
        kept += len(line)
    return records, kept


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except INVALID_JSON:
        return False
    return True


def _record(line: bytes) -> Record:
    """The record in a line of ours, or of a session of Mistral Vibe.

    Raises:
        msgspec.DecodeError: it is neither.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        message = our_message(line)
        if message is None:
            raise
        return message


def our_message(line: bytes) -> Message | None:
    """The message in a line of its ``messages.jsonl``; None: it is another program's, or a later version's of ours."""
    try:
        document = msgspec.json.decode(line, type=dict[str, Any])
    except INVALID_JSON:
        return None
    if "injected" not in document and "message_id" not in document:
        return None
    content = text_in(document.get("content"))
    match document.get("role"):
        case "user":
            return UserMessage(content)
        case "assistant":
            calls = tuple(_call(call) for call in cast("list[Any]", document.get("tool_calls") or []))
            return AssistantMessage(content, tool_calls=calls, reasoning=text_in(document.get("reasoning_content")))
        case "tool":
            return ToolMessage(content, text_in(document.get("tool_call_id")), text_in(document.get("name")))
        case _:
            return None


def _call(call: Any) -> ToolCall:
    function = table_of(table_of(call).get("function"))
    return ToolCall(
        text_in(table_of(call).get("id")), text_in(function.get("name")), text_in(function.get("arguments"))
    )


def _add_line(path: Path, line: bytes) -> None:
    try:
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
            append_all(descriptor, line + b"\n", os.fstat(descriptor).st_size)
    except OSError as error:
        raise TranscriptError(path, f"cannot be written ({error.strerror}); {remedy(error)}") from error


class SessionFolder(Struct, frozen=True):
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
        EnvironmentFailure: another does.
        SessionFolderError: the lock can't be made.
    """
    try:
        held = FileLock.acquire(folder.lock)
    except OSError as error:
        raise SessionFolderError(folder.path, error) from error
    if held is None:
        raise EnvironmentFailure(f"session {folder.path.name} {in_use(folder)}: wait for it or stop it")
    return held


def in_use(folder: SessionFolder) -> str:
    """Return by whom a session is in use."""
    pid = holder_of(folder.lock)
    return f"is in use by {f'process {pid}' if pid else 'another process'}"


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
    return document if version else _from_v0(document)


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
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return None


FILES = ("messages.jsonl", META_FILE)
"""A folder without either holds no session; one without the first is that of a window in which nothing was said."""
TITLE_LENGTH = 80
LAST_RESORT = 200
"""Of the newest folders so many are looked at for the last session of a workspace."""


class SavedSession(Struct, frozen=True, kw_only=True):
    """A session on disk. ``updated`` is when something was last said in it, in unix seconds.

    ``lost`` is what became of its meta data, if they had to be made again of its messages; the workspace may be blank.
    """

    folder: SessionFolder
    meta: SessionMeta
    updated: float
    lost: str = ""


class SessionListing(Struct, frozen=True, kw_only=True):
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
            UsageError: none or several do.
            BrokenSessionError: it can't be understood.
        """
        names = self._names()
        found = [wanted] if wanted in names else [name for name in names if wanted and name.startswith(wanted)]
        if not found:
            found = [name for name in names if wanted and self._id_of(name).startswith(wanted)]
        if not found:
            raise UsageError(f"no session {wanted or repr('')!r}: see `vibe session list`")
        if len(found) > 1:
            names = ", ".join(found[:4]) + (" ..." if len(found) > 4 else "")
            raise UsageError(f"{wanted!r} matches {len(found)} session ids ({names}): give more of it")
        return self._load(found[0])

    def last_of(self, workspace: Path) -> SavedSession:
        """The session in ``workspace`` in which something was said last.

        Raises:
            UsageError: it has none.
        """
        here = str(workspace.resolve())
        for saved in self._read(self._names()[:LAST_RESORT]).sessions:
            if saved.meta.workspace and os.path.realpath(saved.meta.workspace) == here:
                return saved
        raise UsageError(f"no session to continue in {workspace}: start one with `vibe -p PROMPT`")

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
        if "\0" in meta.workspace:
            meta, lost = structs.replace(meta, workspace=""), "its workspace is no path"
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
