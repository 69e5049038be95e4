"""Reads an answer off the wire, whichever HTTP client carries it; the events of chat completions, one by one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

import anyio
import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from vibe.core.llm.backend.assembly import AnswerBuilder, CallFragment
from vibe.core.llm.backend.sse import EventTooLongError, SseParser
from vibe.core.llm.error_table import ErrorMapper

MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 10.0
AFTER_FINISH_SECONDS: Final = 5.0
"""The time the usage and ``[DONE]`` may lag behind the finish reason."""
AFTER_DONE_SECONDS: Final = 1.0
"""The time the end of the body may lag behind ``[DONE]``."""


class ByteResponse(Protocol):
    """The part of a response that httpx and httpx2 have in common."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def is_success(self) -> bool:
        """True if the status is 2xx."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, whatever the case of their names."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decoded body as it comes."""
        ...


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(Struct):
    """A piece of content where it is a list: text, or thinking with pieces of its own."""

    text: str | None = None
    thinking: str | list[_Part] | None = None


class _Delta(Struct):
    content: str | list[_Part] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Told(Struct):
    error: Any = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None
    type: Any = None

    @property
    def failure(self) -> object:
        """The failure that the chunk tells of, or None. Some tell it without a table of its own."""
        if self.error is None and self.object == "error":
            return {"message": self.message, "code": self.code, "type": self.type}
        return self.error


_Event = TypeVar("_Event")
_told = msgspec.json.Decoder(_Told)
_chunk = msgspec.json.Decoder(_Chunk)
_KNOWN_FIELDS: Final = frozenset({"", "reasoning_content", "reasoning"})


def _chunk_with(reasoning_field: str) -> Callable[[str], str]:
    """Return what reads the thoughts of an event that tells them in a field of this name."""
    delta = msgspec.defstruct("Delta", [("thoughts", Any, None)], rename={"thoughts": reasoning_field})
    choice = msgspec.defstruct("Choice", [("delta", delta | None, None)])
    decoder = msgspec.json.Decoder(msgspec.defstruct("Chunk", [("choices", list[choice] | None, None)]))

    def thoughts(data: str) -> str:
        found: Any = decoded(decoder, data)
        said = found.choices[0].delta.thoughts if found.choices and found.choices[0].delta else None
        return said if isinstance(said, str) else ""

    return thoughts


class StreamReader(ABC):
    """Checks and reads the answers of one provider; a subclass knows what its events say."""

    def __init__(self, errors: ErrorMapper) -> None:
        self.errors = errors

    @abstractmethod
    def taker(self, answer: AnswerBuilder) -> Callable[[str], bool]:
        """Return what puts the data of an event into ``answer``, and says whether that was the last one."""

    async def check(self, response: ByteResponse) -> None:
        """Pass an event stream.

        Raises:
            ModelError: the answer is something else, as its status and body say.
        """
        kind = response.headers.get("content-type", "text/event-stream")
        if response.is_success and "event-stream" in kind.lower():
            return
        body = await self._error_body(response)
        if not response.is_success:
            raise self.errors.from_response(response.status_code, body, response.headers)
        with suppress(*INVALID_JSON):
            told = _told.decode(body).error
            if told is not None:
                raise self.errors.from_chunk(told)
        raise self.errors.protocol(f"answered with {kind!r} instead of an event stream", status=response.status_code)

    async def _error_body(self, response: ByteResponse) -> str:
        body = bytearray()
        with anyio.move_on_after(ERROR_BODY_SECONDS):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break
        return bytes(body[:MAX_ERROR_BYTES]).decode("utf-8", "replace")

    async def read(self, response: ByteResponse, answer: AnswerBuilder) -> None:
        """Put the whole stream into ``answer``, and read on to its end so that the connection can be used again.

        Raises:
            ModelError: an event is none, or tells of a failure.
        """
        parser, take = SseParser(), self._forgiving(self.taker(answer), answer)
        done, size = False, 0
        with anyio.CancelScope() as scope:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                done = done or self._feed(parser, chunk, take)
                if size > MAX_STREAM_BYTES:
                    raise self.errors.protocol(f"sent more than {MAX_STREAM_BYTES} bytes in one answer")
                if done or answer.finished:
                    grace = AFTER_DONE_SECONDS if done else AFTER_FINISH_SECONDS
                    scope.deadline = min(scope.deadline, anyio.current_time() + grace)
            if not done:
                any(map(take, parser.close()))

    def _feed(self, parser: SseParser, chunk: bytes, take: Callable[[str], bool]) -> bool:
        try:
            return any(map(take, parser.feed(chunk)))  # what comes after the last event is not looked at
        except EventTooLongError as error:
            raise self.errors.protocol(f"sent {error}") from error

    def _forgiving(self, take: Callable[[str], bool], answer: AnswerBuilder) -> Callable[[str], bool]:
        """Return ``take`` for any event: an empty one, ``[DONE]``, and one that can't be read."""

        def take_any(data: str) -> bool:
            if data.strip() == "[DONE]":
                answer.end()
                return True
            try:
                return bool(data.strip()) and take(data)
            except INVALID_JSON as error:
                raise self.errors.protocol(f"sent an event that is no completion chunk ({error})") from error

        return take_any


class ChatStreamReader(StreamReader):
    """Reads chat completions. ``reasoning_field`` is where a provider tells thoughts that has a name of its own."""

    def __init__(self, errors: ErrorMapper, reasoning_field: str = "") -> None:
        super().__init__(errors)
        self._thoughts = None if reasoning_field in _KNOWN_FIELDS else _chunk_with(reasoning_field)

    def taker(self, answer: AnswerBuilder) -> Callable[[str], bool]:
        """Return what takes the chunks of one answer; the last one is told by ``[DONE]`` alone."""

        def take(data: str) -> bool:
            self._take(data, answer)
            return False

        return take

    def _take(self, data: str, answer: AnswerBuilder) -> None:
        chunk = decoded(_chunk, data)
        if chunk.failure is not None:
            raise self.errors.from_chunk(chunk.failure)
        if chunk.usage is not None:
            answer.add_usage(chunk.usage)
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if self._thoughts is not None:
            answer.add_reasoning(self._thoughts(data))
        if choice.delta is not None:
            _take_delta(choice.delta, answer)
        if choice.finish_reason:
            answer.finish(choice.finish_reason)


def decoded(decoder: msgspec.json.Decoder[_Event], data: str | msgspec.Raw) -> _Event:
    """An event; half a surrogate pair, which a model may well write and no text can hold, becomes U+FFFD."""
    try:
        return decoder.decode(data)
    except INVALID_JSON:
        text = data if isinstance(data, str) else bytes(data).decode()
        whole = _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)
        if whole == text:
            raise
        return decoder.decode(whole)


_ESCAPE = re.compile(
    r"\\(?:u(?:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<half>d[89a-f][0-9a-f]{2}))|.)", re.IGNORECASE | re.DOTALL
)


def _take_delta(delta: _Delta, answer: AnswerBuilder) -> None:
    thoughts = delta.reasoning_content or delta.reasoning  # by both names from some: once is enough
    answer.add_reasoning(thoughts if isinstance(thoughts, str) else "")
    if isinstance(delta.content, str):
        answer.add_text(delta.content)
    else:
        for part in delta.content or ():
            _take_part(part, answer)
    answer.add_text(delta.refusal or "")
    for call in delta.tool_calls or ():
        function = call.function or _Function()
        answer.add_call(
            CallFragment(
                index=call.index, id=call.id or "", name=function.name or "", arguments=function.arguments or ""
            )
        )


def _take_part(part: _Part, answer: AnswerBuilder) -> None:
    answer.add_text(part.text or "")
    thinking = part.thinking or ""
    answer.add_reasoning(thinking if isinstance(thinking, str) else "".join(piece.text or "" for piece in thinking))
