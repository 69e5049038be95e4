"""AnthropicBackend: calls Anthropic's Messages API, and other servers that offer it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw, Struct, field, json, structs

from vibe.core.config.models import ProviderConfig, Thinking
from vibe.core.llm.backend.assembly import PAUSE, AnswerBuilder, CallFragment, read_cost, source_of
from vibe.core.llm.backend.chat import EncodedParts, failure_of, max_tokens, wire_arguments, wire_id, wire_name
from vibe.core.llm.backend.http import HttpBackend, address, decoded, versioned
from vibe.core.llm.backend.tool_schemas import wire_schema
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.history import EMPTY_ANSWER
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import (
    AssistantMessage,
    Image,
    Message,
    SystemMessage,
    Thought,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from vibe.core.schemas import table_of, text_in

VERSION: Final = "2023-06-01"
"""The version of the API that every request names; there is no later one."""
LONGEST_ANSWER: Final = 32_000
"""The ``max_tokens`` sent if none is configured, since the API requires one: all current models accept it."""
SHARE_OF_CONTEXT: Final = 4
"""An answer without a configured limit gets at most this fraction (1/4) of a small context."""
BUDGETS: Final[Mapping[Thinking, int]] = {
    Thinking.LOW: 4_000,
    Thinking.MEDIUM: 8_000,
    Thinking.HIGH: 16_000,
    Thinking.MAX: 24_000,
}
"""Thinking tokens of each level, for models that take a number of tokens."""
SMALLEST_BUDGET: Final = 1_024
"""The fewest thinking tokens that the API accepts."""
NOTHING: Final = "(nothing)"
"""Replaces empty text, which the API refuses."""
START: Final = "(The conversation goes on from here.)"
"""The first user message of a conversation that begins with the model's."""
CONTINUE: Final = "Go on."
"""The last user message of a conversation that ends with the model's: newer models refuse to continue an answer."""

_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_EFFORT_SINCE: Final = (4, 6)
_NO_TEMPERATURE_SINCE: Final = (4, 7)
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_NOT_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")

Block = dict[str, Any]


def generation(model: str) -> tuple[int, int] | None:
    """Return the version of a Claude model, or None for a model of another maker.

    A name without a number counts as newer than all.
    """
    if "claude" not in model.lower():
        return None
    found = _CLAUDE.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


class MessagesEncoder:
    """Encodes requests for the Messages API."""

    def __init__(self) -> None:
        self._encoder = json.Encoder()
        self._parts = EncodedParts(self._encoded)

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of a streaming Messages request.

        Cache marks say which parts of the prompt will be sent again: the tools, the system prompt and the last two
        turns of the user.
        """
        bound = max_tokens(request) or min(LONGEST_ANSWER, max(1, request.model.context_size // SHARE_OF_CONTEXT))
        spoken = list(request.messages)
        system = [message for message in spoken if isinstance(message, SystemMessage)]
        body: dict[str, Any] = {"model": request.model.name, "max_tokens": bound, "stream": True}
        if request.tools:
            body["tools"] = self._marked([self._parts.of(tool) for tool in request.tools])
        texts = [{"type": "text", "text": message.content} for message in system if message.content.strip()]
        if texts:
            body["system"] = self._marked([self._encoder.encode(block) for block in texts])
        body["messages"] = self._turns(spoken, source_of(request))
        body |= settings(request, bound)
        return self._encoder.encode(body)

    def _turns(self, messages: Sequence[Message], source: str) -> list[dict[str, Any]]:
        """Return all messages, with neighbours of the same role merged and the last two of the user marked."""
        turns: list[tuple[str, list[bytes]]] = []
        ids = _WireIds()
        for message in messages:
            if isinstance(message, SystemMessage):
                continue
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            if not turns or turns[-1][0] != role:
                turns.append((role, []))
            sendable = ids.renamed(message)
            blocks = self._parts.of(message, source) if sendable is message else self._encoded(sendable, source)
            turns[-1][1].append(blocks)
        if not turns or turns[0][0] != "user":
            turns.insert(0, ("user", [self._encoder.encode({"type": "text", "text": START})]))
        if turns[-1][0] != "user":
            turns.append(("user", [self._encoder.encode({"type": "text", "text": CONTINUE})]))
        for _, blocks in [turn for turn in turns if turn[0] == "user"][-2:]:
            blocks[-1] = _with_mark(blocks[-1])
        return [{"role": role, "content": Raw(b"[" + b",".join(blocks) + b"]")} for role, blocks in turns]

    def _encoded(self, part: Message | ToolSchema, source: str) -> bytes:
        """Encode a tool, or the blocks of one message, separated by commas."""
        blocks = [tool_block(part)] if isinstance(part, ToolSchema) else blocks_of(part, source)
        return b",".join(map(self._encoder.encode, blocks))

    def _marked(self, blocks: list[bytes]) -> Raw:
        return Raw(b"[" + b",".join([*blocks[:-1], _with_mark(blocks[-1])]) + b"]")


def _with_mark(blocks: bytes) -> bytes:
    """Add a cache mark to the last of several encoded blocks: everything up to there will be sent again."""
    return blocks[:-1] + _MARK


def settings(request: ModelRequest, bound: int) -> dict[str, Any]:
    """Return the settings of thinking and temperature in the form that the model's generation accepts."""
    model, version = request.model, generation(request.model.name)
    if model.thinking is not Thinking.OFF and version is not None and version >= _EFFORT_SINCE:
        # Without "display" newer models send no text of their thinking.
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": model.thinking.value},
        }
    budget = min(BUDGETS.get(model.thinking, 0), bound * 3 // 4)
    if budget >= SMALLEST_BUDGET and not _lacks_thought(request):
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if version is not None and version >= _NO_TEMPERATURE_SINCE:
        return {}
    return {"temperature": min(model.temperature, 1.0)}


def _lacks_thought(request: ModelRequest) -> bool:
    """Return whether the last answer made calls without a thought of this model, for example as another model.

    The API then refuses to think until those calls are dealt with.
    """
    last = next((one for one in reversed(request.messages) if isinstance(one, AssistantMessage)), None)
    if last is None or not last.tool_calls:
        return False
    return not any(thought.source == source_of(request) for thought in last.thoughts)


def tool_block(tool: ToolSchema) -> Block:
    """Return one tool in the API's format."""
    return {"name": tool.name, "description": tool.description, "input_schema": wire_schema(tool.parameters)}


def blocks_of(message: Message, source: str) -> list[Block]:
    """Return the blocks of one message, without the thoughts of another ``source``."""
    if isinstance(message, AssistantMessage):
        return list(_answer_blocks(message, source)) or [_text(EMPTY_ANSWER)]
    if isinstance(message, ToolMessage):
        return [_result(message)]
    images = message.images if isinstance(message, UserMessage) else ()
    text = [_text(message.content)] if message.content.strip() or not images else []
    return [*text, *map(_image, images)]


def _answer_blocks(message: AssistantMessage, source: str) -> Iterator[Block]:
    """Yield the blocks of an answer in their original order: thoughts, text and calls."""
    calls = list(map(_call, message.tool_calls))
    characters = done = 0
    for thought in (one for one in message.thoughts if one.source == source and not (one.record or one.extra)):
        if message.cut and not (thought.signature or thought.sealed):
            continue  # it is incomplete, which no provider accepts
        yield from _text_blocks(message.content[characters : thought.after_characters])
        yield from calls[done : thought.after_calls]
        characters, done = max(characters, thought.after_characters), max(done, thought.after_calls)
        yield _thought(thought)
    yield from _text_blocks(message.content[characters:])
    yield from calls[done:]


def _call(call: ToolCall) -> Block:
    arguments = Raw(wire_arguments(call.arguments).encode())
    return {"type": "tool_use", "id": call.id, "name": wire_name(call.name), "input": arguments}


def _text_blocks(text: str) -> Iterator[Block]:
    if text.strip():
        yield _text(text)


def _text(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else NOTHING}


def _thought(thought: Thought) -> Block:
    if thought.sealed:
        return {"type": "redacted_thinking", "data": thought.sealed}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _result(message: ToolMessage) -> Block:
    content: str | list[Block] = message.content if message.content.strip() else NOTHING
    if message.images:
        content = [_text(message.content), *map(_image, message.images)]
    failed = {} if message.status == "ok" else {"is_error": True}
    return {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content, **failed}


def _image(image: Image) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


class _WireIds(Struct, eq=False):
    """Makes the ids of calls acceptable to the API: letters, digits, ``_`` and ``-``, unique in a conversation."""

    _taken: set[str] = field(default_factory=set[str])
    _waiting: dict[str, deque[str]] = field(default_factory=dict[str, deque[str]])

    def renamed(self, message: Message) -> Message:
        """Return the message with acceptable ids, which is the same object if its own ids are."""
        if isinstance(message, AssistantMessage):
            calls = tuple(structs.replace(call, id=self._unique(call.id)) for call in message.tool_calls)
            self._waiting = {}
            for own, given in zip(message.tool_calls, calls, strict=True):
                self._waiting.setdefault(own.id, deque()).append(given.id)
            return message if calls == message.tool_calls else structs.replace(message, tool_calls=calls)
        if isinstance(message, ToolMessage) and self._waiting.get(message.tool_call_id):
            name = self._waiting[message.tool_call_id].popleft()
            return message if name == message.tool_call_id else structs.replace(message, tool_call_id=name)
        return message

    def _unique(self, identity: str) -> str:
        plain = _NOT_IN_IDS.sub("_", wire_id(identity)) or "call"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name


PAUSED: Final = "the provider paused its answer (pause_turn); it is asked to go on"
_TABLE: Final = Raw(b"{}")


class _Event(Struct):
    """The fields of all kinds of events. The raw ones are decoded once the kind is known.

    The last four are those of a message: at its start, where they are rarely set, at its end, or complete.
    """

    type: str | None = ""
    index: int | None = None
    message: Raw = _TABLE
    content_block: Raw = _TABLE
    delta: Raw = _TABLE
    error: Any = None
    usage: Any = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: Any = None


class _Piece(Struct):
    """A block at its start, or a piece that is added to it."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None


BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""The kinds of blocks that are read; others are a server's own tools and their results."""
DELTAS: Final = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta"})

_event = json.Decoder(_Event, strict=False)  # a gateway may write an index as text
_message = json.Decoder(_Event | None)
_fields = json.Decoder(dict[str, Any] | None)
_piece = json.Decoder(_Piece)


class _OpenBlock(Struct, kw_only=True):
    """A block that is open; ``kind`` is empty if it is ignored."""

    index: int
    kind: str
    text: list[str] = field(default_factory=list[str])
    signature: list[str] = field(default_factory=list[str])
    sealed: str = ""
    initial: object = None
    """A call's arguments, if they came with its start."""


class MessageTaker(Struct, eq=False):
    """Adds the events of one answer to its builder."""

    _answer: AnswerBuilder
    _errors: ErrorMapper
    _open: dict[int, _OpenBlock] = field(default_factory=dict[int, _OpenBlock])
    _last: int = -1
    _without_arguments: list[int] = field(default_factory=list[int])
    """The calls that closed without arguments: they have none, unless the output limit cut the last one off."""
    _ids: set[str] = field(default_factory=set[str])
    _usage: dict[str, int] = field(default_factory=dict[str, int])
    _early_reason: str | None = None
    """The stop reason that came with the start of the message; it counts once the message has ended."""

    def __call__(self, data: str) -> None:
        """Add one event; once the answer is done, it can only bring usage."""
        event = decoded(_event, data)
        match event.type:
            case _ if self._answer.is_done:
                self._count(event.usage)
            case "content_block_delta":
                self._extend_block(event)
            case "content_block_start":
                self._open_block(event)
            case "content_block_stop":
                self._close_block(self._last if event.index is None else event.index)
            case "message_start":
                message = decoded(_message, event.message) or _Event()
                self._take_whole(message)
                self._early_reason = message.stop_reason
            case "message_delta":
                self._count(event.usage)
                self._finish(decoded(_message, event.delta) or _Event())
            case "message":
                self._take_whole(event)
                self._finish(event)
            case "message_stop":
                self._stop()
            case _:
                self._check(event, data)

    def _check(self, event: _Event, data: str) -> None:
        """Ignore an event of an unknown kind, such as a ping or one of a later version of the API.

        Raises:
            ModelError: the event reports a failure; gateways do that in a form of their own.
        """
        if event.type == "error" or event.error is not None:
            raise self._errors.from_chunk(event.error)
        if not event.type and (failure := failure_of(table_of(decoded(_fields, data)))):
            raise self._errors.from_chunk(failure)

    def _stop(self) -> None:
        self._close_all_blocks()
        if not self._answer.finished:
            for index in self._without_arguments:
                self._answer.add_call(CallFragment(index=index, arguments={}))
            self._finish(_Event(stop_reason=self._early_reason))
        self._answer.is_done = True

    def _take_whole(self, whole: _Event) -> None:
        for number, block in enumerate(whole.content or []):
            self._open_block(_Event(index=number, content_block=block))
            self._close_block(number)
        self._count(whole.usage)

    def _open_block(self, event: _Event) -> None:
        """Open a block."""
        index = self._last + 1 if event.index is None else event.index
        kind = _kind_of(event.content_block)
        block = _OpenBlock(index=index, kind=kind if kind in BLOCKS else "")
        self._close_block(index)
        self._open[index], self._last = block, index
        if not block.kind:
            return
        piece = decoded(_piece, event.content_block)
        match kind:
            case "tool_use":
                identity = piece.id or ""
                if identity in self._ids:
                    identity = ""  # used twice in one answer, so the builder makes up another
                self._ids.add(identity)
                block.initial = piece.input
                self._answer.add_call(CallFragment(index=index, id=identity, name=piece.name or ""))
            case "redacted_thinking":
                block.sealed = piece.data or ""
            case _:
                self._add_piece(block, piece)

    def _extend_block(self, event: _Event) -> None:
        """Add a piece to the block it belongs to."""
        if _kind_of(event.delta) not in DELTAS:
            return
        piece = decoded(_piece, event.delta)
        block = self._open.get(self._last if event.index is None else event.index)
        # Text of a block that was never opened still counts; pieces of unknown calls or thoughts are dropped.
        self._add_piece(block or _OpenBlock(index=-1, kind="text"), piece)

    def _add_piece(self, block: _OpenBlock, piece: _Piece) -> None:
        """Pass a piece to the builder, and keep what the block's end will need."""
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

    def _close_block(self, index: int) -> None:
        """Close a block: pass on a complete thought, or arguments that came with the start of a call."""
        block = self._open.pop(index, None)
        if block is None:
            return
        if block.kind == "tool_use" and not (block.text or block.initial):
            self._without_arguments.append(index)
        elif block.kind == "tool_use" and not block.text:
            self._answer.add_call(CallFragment(index=index, arguments=block.initial))
        elif block.kind in {"thinking", "redacted_thinking"}:
            self._answer.add_thought(Thought("", "".join(block.text), "".join(block.signature), block.sealed))

    def _close_all_blocks(self) -> None:
        for index in list(self._open):
            self._close_block(index)

    def _finish(self, end: _Event) -> None:
        """Set why the model stopped, if the event says so.

        Raises:
            ModelError: the model refused to answer.
        """
        if end.stop_reason is None:
            return
        if end.stop_reason == "refusal":
            raise self._errors.refusal(f"refused to answer{_explained(end.stop_details)}")
        self._close_all_blocks()
        self._answer.finish(end.stop_reason)
        if end.stop_reason == PAUSE and not self._ids:
            self._answer.oddity = PAUSED

    def _count(self, counts: object) -> None:
        """Update the usage. Counts are totals of the answer so far; a server may omit or null what it sent before."""
        table = table_of(counts)
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
    return text_in(table_of(decoded(_fields, fields)).get("type"))


def _explained(details: object) -> str:
    fields = table_of(details)
    reason = fields.get("explanation") or fields.get("category")
    return f" ({reason})" if reason else ""


class AnthropicBackend(HttpBackend):
    """A ``ModelBackend`` for the Messages API. ``api_base`` may include the version path or not."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        super().__init__(
            errors=ErrorMapper(provider=provider, api_key=api_key),
            urls=[address(versioned(provider.api_base), "messages")],
            headers=headers_for(api_key),
            encode=MessagesEncoder().encode,
            taker=MessageTaker,
        )


def headers_for(api_key: str | None) -> dict[str, str]:
    """Return the headers of every request: the API's version and the key."""
    return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})
