"""Transcript: one agent's conversation, in memory and as ``messages.jsonl`` on disk.

One write a message, so that a process killed at any instant loses at most the message it was writing. The system prompt
is not part of it: it is built anew, and goes first, in every request.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from vibe.core.errors import EnvironmentFailure
from vibe.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    Usage,
    decode_message,
    encode_message,
)

INTERRUPTED_RESULT = (
    "This call was interrupted: the process ended while it ran. It may have taken effect in part. "
    "Check before you repeat it."
)


class TranscriptError(EnvironmentFailure):
    """A transcript cannot be read or written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class Transcript:
    """The messages so far, and what the answers among them took: ``usage``, ``cost_usd`` (None: unknown), ``turns``.

    ``path`` None keeps them in memory only. ``dropped_bytes`` is the length of a torn tail cut at opening.
    """

    def __init__(self, messages: Sequence[Message] = (), *, path: Path | None = None, dropped_bytes: int = 0) -> None:
        self.messages: list[Message] = []
        self.dropped_bytes = dropped_bytes
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.turns = 0
        self._path = path
        for message in messages:
            self._remember(message)

    @classmethod
    def open(cls, path: Path) -> Transcript:
        """The transcript at ``path``, empty if there is none; a torn last line is cut on disk.

        Raises:
            TranscriptError: a line before the last is no message, or the file cannot be read.
        """
        try:
            data = path.read_bytes() if path.exists() else b""
            messages, kept = _decode_lines(path, data)
            if kept < len(data):
                os.truncate(path, kept)
        except OSError as error:
            raise TranscriptError(path, f"cannot be read ({error.strerror}); check its permissions") from error
        return cls(messages, path=path, dropped_bytes=len(data) - kept)

    def append(self, message: Message) -> None:
        """Write one message, then remember it.

        Raises:
            TranscriptError: the disk refuses.
        """
        if self._path is not None:
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    _write_whole(descriptor, encode_message(message) + b"\n")
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise TranscriptError(self._path, f"cannot be written ({error.strerror}); free some space") from error
        self._remember(message)

    def close_dangling_calls(self) -> int:
        """Answer every call that has no result as interrupted; returns how many."""
        dangling = [
            ToolMessage(INTERRUPTED_RESULT, call.id, call.name, status="interrupted") for call in self._open_calls()
        ]
        for message in dangling:
            self.append(message)
        return len(dangling)

    def _remember(self, message: Message) -> None:
        self.messages.append(message)
        if isinstance(message, AssistantMessage):
            self.turns += 1
            self.usage += message.usage or Usage()
            known = self.cost_usd is not None and message.cost_usd is not None
            self.cost_usd = (self.cost_usd or 0.0) + (message.cost_usd or 0.0) if known else None

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


def _decode_lines(path: Path, data: bytes) -> tuple[list[Message], int]:
    """Every whole message, and how many bytes of ``data`` they take."""
    messages: list[Message] = []
    kept = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                break
            messages.append(decode_message(line))
        except msgspec.DecodeError as error:
            if number == len(lines):
                break
            raise TranscriptError(path, f"line {number} is no message ({error}); mend or remove it") from error
        kept += len(line)
    return messages, kept


def _write_whole(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
