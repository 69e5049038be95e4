"""Says a conversation in the words of the chat completions format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from vibe.core.config.models import Thinking
from vibe.core.llm.backend.assembly import is_json_object, source_of
from vibe.core.llm.backend.wire_schema import wire_schema
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Image, Message, ToolCall, ToolMessage, UserMessage

MALFORMED_KEY: Final = "malformed_arguments"
"""Key under which arguments that are no JSON object travel back, since providers refuse them as they are."""

_TAKES_TEMPERATURE: Final = re.compile(r"(ft:)?(chatgpt-|gpt-3|gpt-4)")
LONGEST_NAME: Final = 64
LONGEST_ID: Final = 40
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_CACHE_LIMIT: Final = 4096


def message_fields(message: Message, reasoning_field: str = "") -> dict[str, Any]:
    """One message as providers take it.

    Reasoning stays at home, since most providers refuse it as input, unless there is a ``reasoning_field``: then what
    led to tool calls goes back with them.
    """
    role = message.__struct_config__.tag
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [_call_fields(call) for call in message.tool_calls]
        thoughts = {reasoning_field: message.reasoning} if reasoning_field and message.reasoning else {}
        return {"role": role, "content": message.content or None, **thoughts, "tool_calls": calls}
    if isinstance(message, ToolMessage):
        return {"role": role, "tool_call_id": wire_id(message.tool_call_id), "content": message.content}
    if isinstance(message, UserMessage) and message.images:
        return {"role": role, "content": [{"type": "text", "text": message.content}, *map(_image_part, message.images)]}
    return {"role": role, "content": message.content}


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def tool_fields(tool: ToolSchema) -> dict[str, Any]:
    """One tool as providers take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": wire_schema(tool.parameters)}
    return {"type": "function", "function": function}


def wire_arguments(arguments: str) -> str:
    """Arguments as JSON text of an object: as they were where possible, else wrapped so that nothing is lost."""
    if is_json_object(arguments):
        return arguments
    if not arguments.strip():
        return "{}"
    return msgspec.json.encode({MALFORMED_KEY: arguments}).decode()


def max_tokens(request: ModelRequest) -> int | None:
    """The tighter of the request's and the model's bound."""
    bounds = [bound for bound in (request.max_tokens, request.model.max_output_tokens) if bound is not None]
    return min(bounds, default=None)


def mistral_call_id(identity: str) -> str:
    """An id that Mistral takes (nine letters or digits), the same for the same id."""
    if _MISTRAL_ID.fullmatch(identity):
        return identity
    return hashlib.sha256(identity.encode()).hexdigest()[:9]


def wire_name(name: str) -> str:
    """A tool's name as providers take it back: a model may have called one by a name that no tool can have."""
    return _NO_NAME.sub("_", name)[:LONGEST_NAME] or "unnamed"


def wire_id(identity: str) -> str:
    """The id of a call as OpenAI takes it back, of 40 characters at most; the same for the same id."""
    return identity if len(identity) <= LONGEST_ID else hashlib.sha256(identity.encode()).hexdigest()[:LONGEST_ID]


def _call_fields(call: ToolCall) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments)}
    return {"id": wire_id(call.id), "type": "function", "function": function}


def openai_body(body: dict[str, Any]) -> dict[str, Any]:
    """The body as OpenAI itself takes it.

    The bound has another name there, and only models before the thinking ones take a temperature.
    """
    adapted = {("max_completion_tokens" if name == "max_tokens" else name): value for name, value in body.items()}
    if not _TAKES_TEMPERATURE.match(adapted["model"]):
        del adapted["temperature"]
    return adapted


class EncodedMessages:
    """Messages as ``encode`` words them for a model, each encoded once: a conversation is sent again with each turn.

    Remembers at most 4096 and starts over when they are full.
    """

    def __init__(self, encode: Callable[[Message, str], bytes]) -> None:
        self._encode = encode
        self._known: dict[tuple[int, str], tuple[Message, bytes]] = {}  # by identity: hashing them all costs as much

    def of(self, message: Message, source: str) -> bytes:
        """Return a message; only one with thoughts is another for each model, its ``source``, that it is sent to."""
        key = (id(message), source if isinstance(message, AssistantMessage) and message.thoughts else "")
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            # The message is kept alive here, so that no other gets its identity.
            known = self._known[key] = message, self._encode(message, source)
        return known[1]


class PayloadEncoder:
    """Encodes requests: ``say`` words one message, ``options`` go into every body, ``adapt`` has the last word."""

    def __init__(
        self,
        say: Callable[[Message], dict[str, Any]] = message_fields,
        options: Mapping[str, Any] = MappingProxyType({"stream_options": {"include_usage": True}}),
        adapt: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        self._say = say
        self._options = dict(options)
        self._adapt = adapt
        self._encoder = msgspec.json.Encoder()
        self._messages = EncodedMessages(self._encoded)

    def encode(self, request: ModelRequest) -> bytes:
        """The body of a streaming chat completions request."""
        source = source_of(request)
        messages = b",".join(self._messages.of(message, source) for message in request.messages)
        body: dict[str, Any] = {
            "model": request.model.name,
            "messages": msgspec.Raw(b"[" + messages + b"]"),
            "temperature": request.model.temperature,
            "stream": True,
            **self._options,
        }
        if request.model.thinking is not Thinking.OFF:
            # No provider has a name of its own for the most there is; all know high.
            effort = Thinking.HIGH if request.model.thinking is Thinking.MAX else request.model.thinking
            body["reasoning_effort"] = effort.value
        if request.tools:
            body["tools"] = [tool_fields(tool) for tool in request.tools]
        bound = max_tokens(request)
        if bound is not None:
            body["max_tokens"] = bound
        return self._encoder.encode(self._adapt(body))

    def _encoded(self, message: Message, source: str) -> bytes:
        return self._encoder.encode(self._with_thoughts(message, source))

    def _with_thoughts(self, message: Message, source: str) -> dict[str, Any]:
        """Word a message, with the thoughts that the model wants back as it told them, unless they are torn."""
        fields = self._say(message)
        if not isinstance(message, AssistantMessage):
            return fields
        own = [one for one in message.thoughts if one.source == source]
        records = [msgspec.Raw(one.record.encode()) for one in own if one.record]
        if records and not (message.cut or message.interrupted):
            fields["reasoning_details"] = records
        for thought in (one for one in own if one.extra):
            beside = fields["tool_calls"][thought.after_calls - 1] if thought.after_calls else fields
            beside |= msgspec.json.decode(thought.extra, type=dict[str, msgspec.Raw])
        return fields
