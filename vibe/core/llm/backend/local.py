"""LocalBackend: runs a model file on this machine in a server of our own, with a JSON schema in place of tools."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import uuid4

import msgspec
from anyio import to_thread

from vibe.core.config.models import LocalConfig, ProviderConfig
from vibe.core.llm.backend.assembly import is_json_object
from vibe.core.llm.backend.chat import USAGE_TOLD, ChunkTaker, chat_body, wire_arguments
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.local_server import SERVERS, LocalModelError, LocalServer, LocalServers
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelAccessError
from vibe.core.llm.port import (
    CallDelta,
    Completion,
    Delta,
    FinishReason,
    ModelObserver,
    ModelRequest,
    Notice,
    ToolSchema,
)
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage
from vibe.core.schemas import closed_object, map_schema

LONGEST: Final = 1_000
"""Higher limits on lengths and counts are left out of schemas, since a grammar spells out each repetition."""
_LEFT_OUT: Final = frozenset({"$schema", "pattern", "patternProperties", "format", "title", "examples", "default"})
_BOUNDS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_CALL: Final = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"]*)"\s*,\s*"arguments"\s*:\s*(.*)', re.DOTALL)
_LETTER: Final = (
    r'[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
)
"""Matches a complete character of a JSON string, so that none is shown in halves."""
_ANSWER: Final = re.compile(rf'\s*\{{\s*"answer"\s*:\s*"((?:{_LETTER})*)(.*)', re.DOTALL)


def encoded(request: ModelRequest) -> bytes:
    """Return the body of a streaming chat completions request that has a schema in place of tools."""
    body = {**chat_body(request, list(_messages(request))), **USAGE_TOLD}
    if request.tools:
        wanted = {"name": "turn", "strict": True, "schema": turn_schema(request.tools)}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return msgspec.json.encode(body)


def turn_schema(tools: Sequence[ToolSchema]) -> dict[str, Any]:
    """Return the schema of one turn: a call of one of the tools, or the answer that ends the work.

    If one of the tools ends the work, an answer is not allowed.
    """
    branches = [
        closed_object({"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/{_pointer(tool.name)}"}})
        for tool in tools
    ]
    if not any(tool.ends_work for tool in tools):
        branches.append(closed_object({"answer": {"type": "string"}}))
    defs = {tool.name: _enforceable(tool.parameters, f"#/$defs/{_pointer(tool.name)}") for tool in tools}
    return {"anyOf": branches, "$defs": defs}


def tools_prompt(tools: Sequence[ToolSchema]) -> str:
    """Return the description of the tools for the system prompt: the schema does not say what they are for."""
    lines = [
        "You act by JSON alone, one object a turn.",
        '{"name": TOOL, "arguments": {...}} calls a tool; its result comes with the next message.',
    ]
    if not any(tool.ends_work for tool in tools):
        lines.append('{"answer": "..."} ends your work and says what came of it.')
    lines.append("The tools:")
    lines += [f"- {tool.name}: {tool.description.strip()} {_shape(tool.parameters)}" for tool in tools]
    return "\n".join(lines)


def parsed_turn(completion: Completion) -> Completion:
    """Return the completion with the tool call or the answer that its JSON text contains."""
    text = completion.message.content
    call = _CALL.fullmatch(text)
    if call is not None:
        is_whole = is_json_object(text)
        arguments = call[2].rstrip().removesuffix("}") if is_whole else call[2]
        calls = (ToolCall(uuid4().hex[:9], call[1], arguments),)
        cut = completion.finish_reason is FinishReason.LENGTH and not is_whole
        message = msgspec.structs.replace(completion.message, content="", tool_calls=calls)
        reason = FinishReason.LENGTH if cut else FinishReason.TOOL_CALLS
        return msgspec.structs.replace(completion, message=message, finish_reason=reason)
    answer = _ANSWER.fullmatch(text)
    if answer is None:
        return completion
    message = msgspec.structs.replace(completion.message, content=_unescaped(answer[1]))
    return msgspec.structs.replace(completion, message=message)


class TurnObserver:
    """Extracts the call or the answer from the JSON of a turn as it streams, and passes it to another observer."""

    def __init__(self, observer: ModelObserver) -> None:
        self._observer = observer
        self._text = ""
        self._shown = ""

    def delta(self, delta: Delta, /) -> None:
        """Add a piece of the JSON, and pass on what is new in its call or answer."""
        if not delta.text:
            self._observer.delta(delta)
            return
        self._text += delta.text
        if (call := _CALL.fullmatch(self._text)) is not None:
            if piece := self._new(call[2].rstrip().removesuffix("}")):
                self._observer.delta(Delta(call=CallDelta(index=0, name=call[1], arguments=piece)))
        elif (answer := _ANSWER.fullmatch(self._text)) is not None and (piece := self._new(_unescaped(answer[1]))):
            self._observer.delta(Delta(text=piece))

    def notice(self, notice: Notice, /) -> None:
        """Pass a notice on."""
        self._observer.notice(notice)

    def _new(self, text: str) -> str:
        if not text.startswith(self._shown):  # a brace held back turned out to be the last one
            return ""
        piece, self._shown = text[len(self._shown) :], text
        return piece


def _messages(request: ModelRequest) -> Iterable[dict[str, Any]]:
    messages = list(request.messages)
    if request.tools:
        first = messages[0] if messages else None
        own = first.content if isinstance(first, SystemMessage) else ""
        yield {"role": "system", "content": f"{own}\n\n{tools_prompt(request.tools)}".strip()}
        messages = messages[1:] if isinstance(first, SystemMessage) else messages
    for message in messages:
        yield _message_fields(message)


def _message_fields(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": f"Result of {message.name} ({message.status}):\n{message.content}"}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [
            f'{{"name": {json.dumps(call.name)}, "arguments": {wire_arguments(call.arguments)}}}'
            for call in message.tool_calls
        ]
        return {"role": "assistant", "content": "\n".join(calls)}
    return {"role": message.__struct_config__.tag, "content": message.content}


def _enforceable(schema: Any, root: str) -> Any:
    """Return a schema without what a grammar can't enforce, and with references to itself rewritten to ``root``."""

    def enforceable(table: dict[str, Any]) -> dict[str, Any]:
        return {
            key: root + value[1:] if key == "$ref" and isinstance(value, str) and value.startswith("#") else value
            for key, value in table.items()
            if key not in _LEFT_OUT and not (key in _BOUNDS and isinstance(value, int) and value > LONGEST)
        }

    return map_schema(schema, enforceable)


def _shape(parameters: Mapping[str, Any]) -> str:
    """Return the names of the arguments, with a question mark after the optional ones."""
    required = parameters.get("required", ())
    names = cast("Mapping[str, Any]", parameters.get("properties", {}))
    return f"Arguments: {', '.join(name if name in required else f'{name}?' for name in names) or 'none'}."


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(inside: str) -> str:
    """Return the text that the inside of a JSON string stands for."""
    return str(json.loads(f'"{inside}"', strict=False))


class LocalBackend:
    """A ``ModelBackend`` for a model file. Its server starts with the first call and is stopped by ``aclose``.

    The next call starts a server that has died again. ``servers`` are the servers that this process shares.
    """

    def __init__(self, provider: ProviderConfig, settings: LocalConfig, servers: LocalServers = SERVERS) -> None:
        self._provider = provider
        self._settings = settings
        self._servers = servers
        self._lock = threading.RLock()
        self._server: LocalServer | None = None
        self._backend: HttpBackend | None = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        backend = await to_thread.run_sync(self._ready, abandon_on_cancel=True)
        if not request.tools:
            return await backend.complete(request, observer)
        return parsed_turn(await backend.complete(request, TurnObserver(observer)))

    async def aclose(self) -> None:
        """Stop the server, unless others in this process use it."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.aclose()
        await to_thread.run_sync(self._release)

    def _ready(self) -> HttpBackend:
        """Return the backend that calls the server, starting the server if needed; blocks.

        Raises:
            ModelAccessError: the model can't be served.
        """
        with self._lock:
            if self._server is not None and not self._server.is_alive:
                self._release()
            if self._server is None or self._backend is None:
                try:
                    self._server = self._servers.acquire(self._settings, self._provider.silence_seconds)
                except LocalModelError as error:
                    raise ModelAccessError(str(error), provider=self._provider.name) from error
                self._backend = self._backend_for(self._server)
            return self._backend

    def _backend_for(self, server: LocalServer) -> HttpBackend:
        provider = self._provider.model_copy(update={"api_base": f"{server.address}/v1"})
        return HttpBackend(
            errors=ErrorMapper(provider=provider, api_key=server.token),
            urls=[f"{server.address}/v1/chat/completions"],
            # The server may drop a kept-alive connection after a stream just as the next request is sent.
            headers={"authorization": f"Bearer {server.token}", "connection": "close"},
            encode=encoded,
            taker=ChunkTaker,
        )

    def _release(self) -> None:
        with self._lock:
            server, self._server = self._server, None
            if server is not None:
                self._servers.release(server)
