"""Transcript: one agent's conversation, in memory and as ``messages.jsonl`` on disk.

One write a message, so that a process killed at any instant loses at most the message it was writing. The system prompt
is not part of it: it is built again, and goes first, in every request. A conversation that was shortened, or forked
from another, has a checkpoint line: the messages that stand in for everything before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.schemas import table_of, text_in
from vibe.system.errors import EnvironmentFailure, remedy
from vibe.system.files import append_all, opened

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
