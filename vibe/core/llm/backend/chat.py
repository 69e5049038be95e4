"""GenericBackend: calls OpenAI-compatible servers. Encodes and reads chat completions for other backends, too."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from vibe.core.config.models import ProviderConfig, Thinking
from vibe.core.llm.backend.assembly import (
    FAILURE_REASONS,
    AnswerBuilder,
    CallFragment,
    is_json_object,
    read_cost,
    read_usage,
    source_of,
)
from vibe.core.llm.backend.http import HttpBackend, address, decoded, versioned
from vibe.core.llm.backend.tool_schemas import wire_schema
from vibe.core.llm.error_table import WORD_FIELDS, ErrorMapper
from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.core.schemas import list_of, table_of, tables_of, text_in, whole_number

MALFORMED_KEY: Final = "malformed_arguments"
"""The key under which arguments that are not a JSON object are sent back, since providers refuse them bare."""

_TAKES_TEMPERATURE: Final = re.compile(r"(ft:)?(chatgpt-|gpt-3|gpt-4)")
USAGE_TOLD: Final = MappingProxyType({"stream_options": {"include_usage": True}})
"""The option that makes a server send the usage with a stream."""
LONGEST_NAME: Final = 64
"""The most characters of a tool's name that providers accept."""
LONGEST_ID: Final = 40
"""The most characters of a call's id that OpenAI accepts."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_CACHE_LIMIT: Final = 4096


def message_fields(message: Message, reasoning_field: str = "") -> dict[str, Any]:
    """Return one message in the format of chat completions.

    Reasoning is left out, since most providers refuse it as input. With a ``reasoning_field``, the reasoning that led
    to tool calls is sent back with them.
    """
    role = message.__struct_config__.tag
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [_call_fields(call) for call in message.tool_calls]
        thoughts = {reasoning_field: message.reasoning} if reasoning_field and message.reasoning else {}
        return {"role": role, "content": message.content or None, **thoughts, "tool_calls": calls}
    if isinstance(message, ToolMessage):
        return {"role": role, "tool_call_id": wire_id(message.tool_call_id), "content": message.content}
    if isinstance(message, UserMessage) and message.images:
        text = [{"type": "text", "text": message.content}] if message.content.strip() else []
        images = ({"url": f"data:{image.media_type};base64,{image.data}"} for image in message.images)
        return {"role": role, "content": [*text, *({"type": "image_url", "image_url": image} for image in images)]}
    return {"role": role, "content": message.content}


def tool_fields(tool: ToolSchema) -> dict[str, Any]:
    """Return one tool in the format of chat completions."""
    function = {"name": tool.name, "description": tool.description, "parameters": wire_schema(tool.parameters)}
    return {"type": "function", "function": function}


def wire_arguments(arguments: str) -> str:
    """Return arguments as the JSON text of an object, wrapping them in one if they are something else."""
    if is_json_object(arguments):
        return arguments
    if not arguments.strip():
        return "{}"
    return msgspec.json.encode({MALFORMED_KEY: arguments}).decode()


def chat_body(request: ModelRequest, messages: object) -> dict[str, Any]:
    """Return the part of a request's body that every server accepts."""
    bound = max_tokens(request)
    return {
        "model": request.model.name,
        "messages": messages,
        "temperature": request.model.temperature,
        "stream": True,
        **({} if bound is None else {"max_tokens": bound}),
    }


def max_tokens(request: ModelRequest) -> int | None:
    """Return the smaller of the request's and the model's output limit, None if neither has one."""
    bounds = [bound for bound in (request.max_tokens, request.model.max_output_tokens) if bound is not None]
    return min(bounds, default=None)


def mistral_call_id(identity: str) -> str:
    """Return an id that Mistral accepts (nine letters or digits), always the same for the same id."""
    if _MISTRAL_ID.fullmatch(identity):
        return identity
    return hashlib.sha256(identity.encode()).hexdigest()[:9]


def wire_name(name: str) -> str:
    """Return a tool's name as providers accept it: a model may have called a tool by an impossible name."""
    return _NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME] or "unnamed"


def wire_id(identity: str) -> str:
    """Return a call's id as OpenAI accepts it, of at most ``LONGEST_ID`` characters. The same id gives the same."""
    return identity if len(identity) <= LONGEST_ID else hashlib.sha256(identity.encode()).hexdigest()[:LONGEST_ID]


def _call_fields(call: ToolCall) -> dict[str, Any]:
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments)}
    return {"id": wire_id(call.id), "type": "function", "function": function}


def openai_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body as OpenAI itself accepts it.

    The output limit has another name there, and only models older than the reasoning models accept a temperature.
    """
    adapted = {("max_completion_tokens" if name == "max_tokens" else name): value for name, value in body.items()}
    if not _TAKES_TEMPERATURE.match(adapted["model"]):
        del adapted["temperature"]
    return adapted


class EncodedParts:
    """Caches the encoded messages and tools of a conversation, since each turn sends them all again.

    The cache holds at most ``_CACHE_LIMIT`` parts, and is emptied when it is full.
    """

    def __init__(self, encode: Callable[[Message | ToolSchema, str], bytes]) -> None:
        self._encode = encode
        self._known: dict[tuple[int, str], tuple[Message | ToolSchema, bytes]] = {}
        """Keyed by identity, since hashing the parts costs as much as encoding them."""

    def of(self, message: Message | ToolSchema, source: str = "") -> bytes:
        """Return an encoded part. Only a message with thoughts depends on ``source``, the model it is sent to."""
        known = self._known.get((id(message), "")) or self._known.get((id(message), source))
        if known is None:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            cached_for = source if isinstance(message, AssistantMessage) and message.thoughts else ""
            # The cache keeps the message alive, so that no other object can get its identity.
            known = self._known[id(message), cached_for] = message, self._encode(message, source)
        return known[1]


class PayloadEncoder:
    """Encodes requests. ``options`` go into every body, and ``adapt`` may change a body at the end."""

    def __init__(
        self,
        format_message: Callable[[Message], dict[str, Any]] = message_fields,
        options: Mapping[str, Any] = USAGE_TOLD,
        adapt: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        self._format_message = format_message
        self._options = options
        self._adapt = adapt
        self._encoder = msgspec.json.Encoder()
        self._parts = EncodedParts(self._encoded)

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of a streaming chat completions request."""
        source = source_of(request)
        messages = b",".join([self._parts.of(message, source) for message in request.messages])
        body = {**chat_body(request, msgspec.Raw(b"[" + messages + b"]")), **self._options}
        if request.model.thinking is not Thinking.OFF:
            # No provider has a level above high, and all of them know high.
            effort = Thinking.HIGH if request.model.thinking is Thinking.MAX else request.model.thinking
            body["reasoning_effort"] = effort.value
        if request.tools:
            body["tools"] = [msgspec.Raw(self._parts.of(tool)) for tool in request.tools]
        return self._encoder.encode(self._adapt(body))

    def _encoded(self, part: Message | ToolSchema, source: str) -> bytes:
        if isinstance(part, ToolSchema):
            return self._encoder.encode(tool_fields(part))
        return self._encoder.encode(self._with_thoughts(part, source))

    def _with_thoughts(self, message: Message, source: str) -> dict[str, Any]:
        """Format a message with the thoughts that the model requires back unchanged, unless they are incomplete."""
        fields = self._format_message(message)
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


EXTRA: Final = "extra_content"
"""The field in which Gemini puts a thought's signature, beside the call it led to."""
_NO_REASONS: Final = frozenset({"", "null", "none"})
_THOUGHT_PARTS: Final = frozenset({"thinking", "reasoning"})
_chunk = msgspec.json.Decoder(dict[str, Any] | list[dict[str, Any]])

Table = dict[str, Any]


class ChunkTaker:
    """Adds the chunks of one chat completion to its builder. Any field may be missing or of the wrong type.

    The provider may have its own name for the field with reasoning. Only ``[DONE]`` marks the end.
    """

    def __init__(self, answer: AnswerBuilder, errors: ErrorMapper) -> None:
        self._answer = answer
        self._errors = errors
        self._thoughts = (errors.provider.reasoning_field_name, "reasoning_content", "reasoning", "reasoning_text")
        self._thought_fields = {"reasoning_details", *self._thoughts}
        self._streamed = False

    def __call__(self, data: str) -> None:
        """Add one event; once the answer is done, it can only bring usage."""
        for event in tables_of(decoded(_chunk, data)):
            chunk = table_of(event.get("data")) or event
            if failure := failure_of(chunk):
                raise self._errors.from_chunk(failure)
            choices = [choice for choice in tables_of(chunk.get("choices")) if not whole_number(choice.get("index"))]
            for place in (chunk, table_of(chunk.get("x_groq")), *choices):
                if usage := table_of(place.get("usage")):
                    self._answer.count(read_usage(usage), read_cost(usage))
                    break
            for choice in () if self._answer.is_done else choices:
                self._take_choice(choice)

    def _take_choice(self, choice: Table) -> None:
        self._streamed |= self._take_delta(table_of(choice.get("delta")))
        if not self._streamed and "message" in choice:  # after streamed pieces it only repeats them
            self._take_delta(table_of(choice["message"]), is_whole=True)
        if text_in(choice.get("native_finish_reason")).lower() in FAILURE_REASONS:
            self._answer.finish(choice["native_finish_reason"])
        reason = text_in(choice.get("finish_reason"))
        if reason.lower() not in _NO_REASONS:
            self._answer.finish(reason)

    def _take_delta(self, delta: Table, *, is_whole: bool = False) -> bool:
        """Add what a delta says, and return whether it says anything."""
        filled = {name: value for name, value in delta.items() if value}  # most deltas have a single non-empty field
        says_anything = not self._thought_fields.isdisjoint(filled) and self._take_reasoning(filled)
        for thought, text in _parts(filled.get("content")):
            self._answer.add_reasoning(thought)
            self._answer.add_text(text)
            says_anything |= bool(thought or text)
        refusal = text_in(filled.get("refusal"))
        self._answer.add_text(refusal)
        return self._take_calls(filled, is_whole=is_whole) or says_anything or bool(refusal)

    def _take_reasoning(self, delta: Table) -> bool:
        records = tables_of(delta.get("reasoning_details"))
        for record in records:
            self._answer.add_record(record)
        thoughts = next((text for name in self._thoughts if (text := text_in(delta.get(name)))), "")
        thoughts = thoughts or "".join(text_in(one.get("text")) or text_in(one.get("summary")) for one in records)
        self._answer.add_reasoning(thoughts)
        return bool(thoughts or records)

    def _take_calls(self, delta: Table, *, is_whole: bool) -> bool:
        if extra := table_of(delta.get(EXTRA)):
            self._answer.add_extra({EXTRA: extra})
        legacy = table_of(delta.get("function_call"))
        calls = tables_of(delta.get("tool_calls")) or [{"index": 0, "function": legacy}] * bool(legacy)
        for number, call in enumerate(calls):
            index, identity = whole_number(call.get("index")), call.get("id")
            function = table_of(call.get("function")) or call
            fragment = CallFragment(
                index=number if is_whole and index is None else index,
                id="" if identity is None else str(identity),
                name=text_in(function.get("name")),
                arguments=function.get("arguments", function.get("parameters")),
                extra={EXTRA: beside} if (beside := table_of(call.get(EXTRA))) else None,
            )
            self._answer.add_call(fragment)
        return bool(calls)


def failure_of(chunk: Table) -> Table | None:
    """Return the failure that a chunk reports, in any of the known places, or None."""
    groq = table_of(chunk.get("x_groq"))
    for place in (chunk, *tables_of(chunk.get("choices")), groq):
        error: object = place.get("error")
        if any((fields := table_of(error)).values()):
            return fields
        if isinstance(error, str) and error.strip():
            return {"message": error, "type": chunk.get("error_type", chunk.get("type")), "code": chunk.get("code")}
        if error and not fields:
            return {name: value for name, value in place.items() if name != "error"} or {"message": "no reason told"}
    if code := table_of(chunk.get("base_resp")).get("status_code"):  # MiniMax: 0 for success
        return {"type": f"base_resp.{code}", "message": chunk["base_resp"].get("status_msg")}
    says_nothing = not (chunk.get("choices") or chunk.get("usage"))
    words = any(isinstance(chunk.get(field), str | list) and chunk[field] for field in WORD_FIELDS)
    return chunk if chunk.get("object") == "error" or (says_nothing and words) else None


def _parts(content: object) -> Iterator[tuple[str, str]]:
    """Yield pairs of reasoning and text from a content, which is text or a list of parts."""
    if isinstance(content, str):
        yield "", content
        return
    for part in list_of(content):
        if isinstance(part, str):
            yield "", part
        elif fields := table_of(part):
            text, thinking = text_in(fields.get("text")), fields.get("thinking")
            inner = "".join(text for _, text in _parts(thinking)) if thinking else ""
            yield (inner or text, "") if fields.get("type") in _THOUGHT_PARTS else (inner, text)


CALL: Final = "chat/completions"
OPENAI: Final = "https://api.openai.com"


class GenericBackend(HttpBackend):
    """A ``ModelBackend`` for OpenAI-compatible servers."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        errors = ErrorMapper(provider=provider, api_key=api_key)
        super().__init__(
            errors=errors,
            urls=[address(base, CALL) for base in (provider.api_base, versioned(provider.api_base))],
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            encode=encoder_for(provider, errors.endpoint).encode,
            taker=ChunkTaker,
        )


def encoder_for(provider: ProviderConfig, endpoint: str) -> PayloadEncoder:
    """Return the encoder of requests to a provider at this endpoint."""
    field = provider.reasoning_field_name if provider.returns_reasoning else ""
    adapt = openai_body if endpoint == OPENAI else dict[str, Any]
    return PayloadEncoder(partial(message_fields, reasoning_field=field), adapt=adapt)
