"""Reads an answer of the Messages API: blocks that open, grow and close, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from vibe.core.llm.backend.assembly import PAUSE, AnswerBuilder, CallFragment, read_cost
from vibe.core.llm.backend.chat_reader import failure_of
from vibe.core.llm.backend.reader import StreamReader, decoded
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.messages import Usage
from vibe.core.schemas import table_of

PAUSED: Final = "the provider paused its answer (pause_turn); it is asked to go on"
_NOTHING: Final = b"{}"


class _Event(Struct):
    """An event as far as all have it; what is inside is read once its kind is known."""

    type: str | None = ""
    index: int | None = None
    message: Raw = Raw(_NOTHING)
    content_block: Raw = Raw(_NOTHING)
    delta: Raw = Raw(_NOTHING)
    usage: Any = None
    error: Any = None


class _Kind(Struct):
    type: str | None = ""


class _Message(Struct):
    """A message as it begins, which rarely says anything already, as it ends, or whole."""

    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: Any = None
    usage: Any = None


class _Piece(Struct):
    """A block as it opens, or what is added to it."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None


BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""The kinds of blocks that are looked at: others are a server's own tools and their results."""
DELTAS: Final = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta"})

_event = msgspec.json.Decoder(_Event)
_kind = msgspec.json.Decoder(_Kind | None)
_message = msgspec.json.Decoder(_Message | None)
_fields = msgspec.json.Decoder(dict[str, Any])
_piece = msgspec.json.Decoder(_Piece)


@dataclass(slots=True, kw_only=True)
class _OpenBlock:
    """A block that was opened; ``kind`` is blank for one that is not looked at."""

    index: int
    kind: str
    text: list[str] = field(default_factory=list[str])
    signature: list[str] = field(default_factory=list[str])
    sealed: str = ""
    initial: object = None
    """A call's arguments, where they came with its opening."""


def messages_reader(errors: ErrorMapper) -> StreamReader:
    """Return what checks and reads the answers of one provider."""
    return StreamReader(errors, lambda answer: _MessageTaker(answer, errors).take)


class _MessageTaker:
    """Puts the events of one answer together."""

    def __init__(self, answer: AnswerBuilder, errors: ErrorMapper) -> None:
        self._answer = answer
        self._errors = errors
        self._open: dict[int, _OpenBlock] = {}
        self._last = -1
        self._without_arguments: list[int] = []
        """Calls that closed with none: they have none, unless the limit cut the last one there."""
        self._ids: set[str] = set()
        self._usage: dict[str, int] = {}
        self._early_reason: str | None = None
        """The reason to stop that the message began with; it counts once the message has ended."""

    def take(self, data: str) -> bool:
        event = decoded(_event, data)
        match event.type:
            case "content_block_delta":
                self._grow(event)
            case "content_block_start":
                self._begin(event)
            case "content_block_stop":
                self._close(self._last if event.index is None else event.index)
            case "message_start":
                self._start(decoded(_message, event.message) or _Message())
            case "message_delta":
                self._count(event.usage)
                self._finish(decoded(_message, event.delta) or _Message())
            case "message":
                self._take_whole(decoded(_message, data) or _Message())
            case "message_stop":
                self._stop()
                return True
            case _:
                self._check(event, data)
        return False

    def _check(self, event: _Event, data: str) -> None:
        """Let an event pass that is a ping, or what a later version of the API tells.

        Raises:
            ModelError: it tells of a failure; a gateway does so in a form of its own.
        """
        if event.type == "error" or event.error is not None:
            raise self._errors.from_chunk(event.error)
        if not event.type and (failure := failure_of(decoded(_fields, data))):
            raise self._errors.from_chunk(failure)

    def _start(self, start: _Message) -> None:
        self._take_blocks(start.content or [])
        self._early_reason = start.stop_reason
        self._count(start.usage)

    def _stop(self) -> None:
        self._close_all()
        if not self._answer.finished:
            for index in self._without_arguments:
                self._answer.add_call(CallFragment(index=index, arguments={}))
            self._finish(_Message(stop_reason=self._early_reason))
        self._answer.end()

    def _take_blocks(self, blocks: list[Raw]) -> None:
        for number, block in enumerate(blocks):
            self._begin(_Event(index=number, content_block=block))
            self._close(number)

    def _take_whole(self, whole: _Message) -> None:
        self._take_blocks(whole.content or [])
        self._count(whole.usage)
        self._finish(whole)

    def _begin(self, event: _Event) -> None:
        index = self._last + 1 if event.index is None else event.index
        kind = _kind_of(event.content_block)
        block = _OpenBlock(index=index, kind=kind if kind in BLOCKS else "")
        self._close(index)
        self._open[index], self._last = block, index
        if not block.kind:
            return
        piece = decoded(_piece, event.content_block)
        match kind:
            case "tool_use":
                identity = piece.id or ""
                if identity in self._ids:
                    identity = ""  # given twice in one answer: it gets one of ours
                self._ids.add(identity)
                block.initial = piece.input
                self._answer.add_call(CallFragment(index=index, id=identity, name=piece.name or ""))
            case "redacted_thinking":
                block.sealed = piece.data or ""
            case _:
                self._add(block, piece)

    def _grow(self, event: _Event) -> None:
        if _kind_of(event.delta) not in DELTAS:
            return
        piece = decoded(_piece, event.delta)
        block = self._open.get(self._last if event.index is None else event.index)
        # Text of a block that was never opened is still text; what belongs to no call or thought is dropped.
        self._add(block or _OpenBlock(index=-1, kind="text"), piece)

    def _add(self, block: _OpenBlock, piece: _Piece) -> None:
        if not block.kind:
            return
        self._answer.add_text(piece.text or "")
        if piece.thinking:
            self._answer.add_reasoning(piece.thinking)
            block.text.append(piece.thinking)
        if piece.signature:
            block.signature.append(piece.signature)
        if piece.partial_json and block.kind == "tool_use":
            block.initial = None
            block.text.append(piece.partial_json)
            self._answer.add_call(CallFragment(index=block.index, arguments=piece.partial_json))

    def _close(self, index: int) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        if block.kind == "tool_use" and not (block.text or block.initial):
            self._without_arguments.append(index)
        elif block.kind == "tool_use" and not block.text:
            self._answer.add_call(CallFragment(index=index, arguments=block.initial))
        elif block.kind in {"thinking", "redacted_thinking"}:
            self._answer.add_thought("".join(block.text), signature="".join(block.signature), sealed=block.sealed)

    def _close_all(self) -> None:
        for index in list(self._open):
            self._close(index)

    def _finish(self, end: _Message) -> None:
        if end.stop_reason is None:
            return
        if end.stop_reason == "refusal":
            raise self._errors.request(f"refused to answer{_explained(end.stop_details)}")
        self._close_all()
        self._answer.finish(end.stop_reason)
        if end.stop_reason == PAUSE and not self._ids:
            self._answer.note(PAUSED)

    def _count(self, told: object) -> None:
        """Take a count: they are of the whole answer so far, and a server may leave out or null what it told before."""
        table = table_of(told)
        for name, value in table.items():
            if isinstance(value, int | float):
                self._usage[name] = max(int(value), self._usage.get(name, 0))
        count = self._usage.get
        read, written = count("cache_read_input_tokens", 0), count("cache_creation_input_tokens", 0)
        usage = Usage(
            prompt_tokens=count("input_tokens", 0) + read + written,
            completion_tokens=count("output_tokens", 0),
            cached_tokens=read,
            calls=1,
            cache_written_tokens=written,
        )
        self._answer.count(usage, read_cost(table))


def _kind_of(fields: Raw) -> str:
    kind = decoded(_kind, fields)
    return (kind.type or "") if kind else ""


def _explained(details: object) -> str:
    fields = table_of(details)
    said = fields.get("explanation") or fields.get("category")
    return f" ({said})" if said else ""
