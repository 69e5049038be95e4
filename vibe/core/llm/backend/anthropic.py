"""Talks to Anthropic's Messages API, and to other servers of it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe.core.config.models import ModelConfig, ProviderConfig, Thinking
from vibe.core.llm.backend.assembly import source_of
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.messages_reader import messages_reader
from vibe.core.llm.backend.payload import EncodedMessages, max_tokens, wire_arguments, wire_id, wire_name
from vibe.core.llm.backend.transport import address, versioned
from vibe.core.llm.backend.wire_schema import wire_schema
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
    UserMessage,
)

VERSION: Final = "2023-06-01"
"""The version of the API that every request names; there has been no later one."""
LONGEST_ANSWER: Final = 32_000
"""The bound that is sent where none is set, since there has to be one: all models in service take it."""
SHARE_OF_CONTEXT: Final = 4
"""Of a small context, an answer gets no more than this part unless a bound is set."""
BUDGETS: Final[Mapping[Thinking, int]] = {
    Thinking.LOW: 4_000,
    Thinking.MEDIUM: 8_000,
    Thinking.HIGH: 16_000,
    Thinking.MAX: 24_000,
}
"""Tokens to think with, for models that are told a number."""
SMALLEST_BUDGET: Final = 1_024
"""The API refuses less."""
NOTHING: Final = "(nothing)"
"""Stands where there is no text, which the API refuses."""
START: Final = "(The conversation goes on from here.)"
CONTINUE: Final = "Go on."
"""The end of a conversation that a model has ended: newer models take no beginning of their own answer."""

_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_EFFORT_SINCE: Final = (4, 6)
_NO_TEMPERATURE_SINCE: Final = (4, 7)
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")

Block = dict[str, Any]


def generation(model: str) -> tuple[int, int] | None:
    """Return the version of a Claude model, the newest for one without a number; None: another maker's model."""
    if "claude" not in model.lower():
        return None
    found = _CLAUDE.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


class MessagesEncoder:
    """Encodes requests."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._messages = EncodedMessages(lambda message, source: self._joined(blocks_of(message, source)))

    def encode(self, request: ModelRequest) -> bytes:
        """The body of a streaming Messages request.

        The marks say up to where the prompt will come again: the tools, the system prompt, the last two turns.
        """
        bound = max_tokens(request) or min(LONGEST_ANSWER, max(1, request.model.context_size // SHARE_OF_CONTEXT))
        spoken = list(request.messages)
        system = [message for message in spoken if isinstance(message, SystemMessage)]
        body: dict[str, Any] = {"model": request.model.name, "max_tokens": bound, "stream": True}
        if request.tools:
            body["tools"] = self._marked([self._encoder.encode(tool_block(tool)) for tool in request.tools])
        texts = [{"type": "text", "text": message.content} for message in system if message.content.strip()]
        if texts:
            body["system"] = self._marked([self._encoder.encode(block) for block in texts])
        body["messages"] = self._turns(spoken, source_of(request))
        body |= settings(request, bound)
        return self._encoder.encode(body)

    def _turns(self, messages: Sequence[Message], source: str) -> list[dict[str, Any]]:
        """All messages, neighbours of one role as one, the last two of the user marked."""
        turns: list[tuple[str, list[bytes]]] = []
        ids = _WireIds()
        for message in messages:
            if isinstance(message, SystemMessage):
                continue
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            if not turns or turns[-1][0] != role:
                turns.append((role, []))
            turns[-1][1].append(self._message(message, source, ids.of(message)))
        if not turns or turns[0][0] != "user":
            turns.insert(0, ("user", [self._encoder.encode({"type": "text", "text": START})]))
        if turns[-1][0] != "user":
            turns.append(("user", [self._encoder.encode({"type": "text", "text": CONTINUE})]))
        for _, blocks in [turn for turn in turns if turn[0] == "user"][-2:]:
            blocks[-1] = _with_mark(blocks[-1])
        return [{"role": role, "content": msgspec.Raw(b"[" + b",".join(blocks) + b"]")} for role, blocks in turns]

    def _message(self, message: Message, source: str, ids: Sequence[str] | None) -> bytes:
        """The blocks of one message with commas between; with ``ids``, its calls or its result bear those."""
        if ids is not None:
            return self._joined(blocks_of(message, source, ids))
        return self._messages.of(message, source)

    def _joined(self, blocks: Sequence[Block]) -> bytes:
        return b",".join(map(self._encoder.encode, blocks))

    def _marked(self, blocks: list[bytes]) -> msgspec.Raw:
        return msgspec.Raw(b"[" + b",".join([*blocks[:-1], _with_mark(blocks[-1])]) + b"]")


def _with_mark(blocks: bytes) -> bytes:
    """Mark the last of encoded blocks: what is sent up to there will be sent again."""
    return blocks[:-1] + _MARK


def settings(request: ModelRequest, bound: int) -> dict[str, Any]:
    """Return how much to think and how freely to choose, in the words that the model's generation takes."""
    model, version = request.model, generation(request.model.name)
    if model.thinking is not Thinking.OFF and version is not None and version >= _EFFORT_SINCE:
        # Without "display" newer models tell nothing of what they think.
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": model.thinking.value},
        }
    budget = _thinking_budget(model, bound)
    if budget and not _lacks_thought(request):
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if version is not None and version >= _NO_TEMPERATURE_SINCE:
        return {}
    return {"temperature": min(model.temperature, 1.0)}


def _thinking_budget(model: ModelConfig, bound: int) -> int:
    """Return the tokens to think with; 0: none, since there is no room for it, or it is not wanted."""
    budget = min(BUDGETS.get(model.thinking, 0), bound * 3 // 4)
    return budget if budget >= SMALLEST_BUDGET else 0


def _lacks_thought(request: ModelRequest) -> bool:
    """Return whether calls were just made without a thought of this model before them, as by another model.

    The API then refuses to think until those calls are done with.
    """
    last = next((one for one in reversed(request.messages) if isinstance(one, AssistantMessage)), None)
    if last is None or not last.tool_calls:
        return False
    return not any(thought.source == source_of(request) for thought in last.thoughts)


def tool_block(tool: ToolSchema) -> Block:
    """One tool as the API takes it."""
    return {"name": tool.name, "description": tool.description, "input_schema": wire_schema(tool.parameters)}


def blocks_of(message: Message, source: str, ids: Sequence[str] | None = None) -> list[Block]:
    """The blocks of one message. ``ids`` stand for its own ids of calls; thoughts of another ``source`` stay here."""
    if isinstance(message, AssistantMessage):
        named = ids or [call.id for call in message.tool_calls]
        return list(_said(message, source, named)) or [_text(EMPTY_ANSWER)]
    if isinstance(message, ToolMessage):
        return [_result(message, ids[0] if ids else message.tool_call_id)]
    images = message.images if isinstance(message, UserMessage) else ()
    text = [_text(message.content)] if message.content.strip() or not images else []
    return [*text, *map(_image, images)]


def _said(message: AssistantMessage, source: str, ids: Sequence[str]) -> Iterator[Block]:
    """Yield what a model said in the order in which it did: thoughts, text and calls."""
    calls = [_call(call, name) for call, name in zip(message.tool_calls, ids, strict=True)]
    characters = done = 0
    for thought in (one for one in message.thoughts if one.source == source and not (one.record or one.extra)):
        if message.cut and not (thought.signature or thought.sealed):
            continue  # torn: no provider takes it back
        yield from _pieces(message.content[characters : thought.after_characters])
        yield from calls[done : thought.after_calls]
        characters, done = max(characters, thought.after_characters), max(done, thought.after_calls)
        yield _thought(thought)
    yield from _pieces(message.content[characters:])
    yield from calls[done:]


def _call(call: ToolCall, identity: str) -> Block:
    arguments = msgspec.Raw(wire_arguments(call.arguments).encode())
    return {"type": "tool_use", "id": identity, "name": wire_name(call.name), "input": arguments}


def _pieces(text: str) -> Iterator[Block]:
    if text.strip():
        yield _text(text)


def _text(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else NOTHING}


def _thought(thought: Thought) -> Block:
    if thought.sealed:
        return {"type": "redacted_thinking", "data": thought.sealed}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _result(message: ToolMessage, identity: str) -> Block:
    content: str | list[Block] = message.content if message.content.strip() else NOTHING
    if message.images:
        content = [_text(message.content), *map(_image, message.images)]
    failed = {} if message.status == "ok" else {"is_error": True}
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **failed}


def _image(image: Image) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


class _WireIds:
    """Ids of calls as the API takes them: letters, digits, ``_`` and ``-``, and none twice in a conversation."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._waiting: dict[str, deque[str]] = {}

    def of(self, message: Message) -> list[str] | None:
        """Return the ids for a message's calls or result; None: its own will do."""
        if isinstance(message, AssistantMessage):
            own = [call.id for call in message.tool_calls]
            given = [self._given(identity) for identity in own]
            self._waiting = {}
            for identity, name in zip(own, given, strict=True):
                self._waiting.setdefault(identity, deque()).append(name)
            return None if given == own else given
        if isinstance(message, ToolMessage) and self._waiting.get(message.tool_call_id):
            name = self._waiting[message.tool_call_id].popleft()
            return None if name == message.tool_call_id else [name]
        return None

    def _given(self, identity: str) -> str:
        plain = _NO_NAME.sub("_", wire_id(identity)) or "call"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name


class AnthropicBackend(HttpBackend):
    """A ``ModelBackend`` for the Messages API. ``api_base`` may end with the version path or before it."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        errors = ErrorMapper(provider=provider, api_key=api_key)
        super().__init__(
            provider,
            urls=[address(versioned(provider.api_base), "messages")],
            headers=headers_for(api_key),
            encode=MessagesEncoder().encode,
            reader=messages_reader(errors),
        )


def headers_for(api_key: str | None) -> dict[str, str]:
    """Return what every request to the API says of its version and of who asks."""
    return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})
