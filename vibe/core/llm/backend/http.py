"""One request a call over a pooled HTTP client, for any protocol that answers with server-sent events; read here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec

from ipc.errors import INVALID_JSON
from vibe import __version__
from vibe.core.llm.backend.assembly import HALF_BASE, AnswerBuilder
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelError, ModelProtocolError
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.system.http import client_options, import_httpx

if TYPE_CHECKING:
    import httpx


MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLongError(ValueError):
    """One event is longer than the parser is willing to hold."""


class SseParser:
    """Turns a byte stream into the data of its events; comments and other fields are dropped.

    Lines may end in LF, CRLF or CR, and the stream may be cut between any two bytes. At most ``max_event_bytes``
    are held. What a server names an error comes as one (``{"error": …}``), and so does a bare line of JSON. A body that
    begins with ``{`` is no stream (``is_plain``): all of it is one event, at the end.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._started = False
        self._is_error = False
        self._is_plain: bool | None = None

    @property
    def is_plain(self) -> bool:
        """True if what came so far is JSON and no stream."""
        return self._is_plain is True

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that ``chunk`` completes.

        Raises:
            EventTooLongError: an event outgrew the limit.
        """
        if not chunk:
            return []
        if self._after_cr:
            # The other half of a CRLF that was cut in two.
            chunk = chunk.removeprefix(b"\n")
        events: list[str] = []
        for piece in chunk.splitlines(keepends=True):
            self._line += piece
            if piece.endswith((b"\n", b"\r")):
                self._take_line(events)
            self._check_size()
        self._after_cr = chunk.endswith(b"\r")
        return events

    def close(self) -> list[str]:
        """The data of an event that the end of the stream left without its blank line."""
        events: list[str] = []
        self._take_line(events)
        self._dispatch(events)
        return events

    def _take_line(self, events: list[str]) -> None:
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        if not self._started:
            line = line.removeprefix(_BOM)
            self._started = True
        if not line:
            if not self._is_plain:
                self._dispatch(events)
            return
        if self._is_plain is None:
            self._is_plain = line.lstrip().startswith(b"{")
        if self._is_plain or line.startswith(b"{"):
            self._add(line)
        else:
            self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._is_error = value.strip() == b"error"
        elif name == b"error":  # llama.cpp's own way of it
            self._is_error = True
            self._add(value)
        elif name == b"data":
            self._add(value)

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._size += len(value) + 1

    def _dispatch(self, events: list[str]) -> None:
        if self._data:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            events += [_as_error(data)] if self._is_error else _parted(data)
            self._data.clear()
            self._size = 0
        self._is_error = False

    def _check_size(self) -> None:
        if self._size + len(self._line) > self._limit:
            raise EventTooLongError(f"an event longer than {self._limit:,} bytes")


def _as_error(data: str) -> str:
    told: object = data
    with suppress(*INVALID_JSON):  # words, not JSON
        told = msgspec.json.decode(data)
    if isinstance(told, dict) and cast("dict[str, Any]", told).get("error"):
        return data
    return msgspec.json.encode({"error": told or "no reason told"}).decode()


MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 10.0
AFTER_FINISH_SECONDS: Final = 5.0
"""The time the usage and ``[DONE]`` may lag behind the finish reason."""
AFTER_DONE_SECONDS: Final = 1.0
"""The time the end of the body may lag behind ``[DONE]``."""


_Event = TypeVar("_Event")
JSON: Final = "application/json"
_TYPES: Final = ("event-stream", "json", "text/plain", "octet-stream")
"""The types of content that are read: some servers name no better one for their events."""
DONE: Final = "[DONE]"
"""The last event of chat completions."""


class StreamReader:
    """Checks and reads the answers of one provider.

    ``taker`` knows what its events say: it makes what puts the data of each into an answer, and says whether that was
    the last one.
    """

    def __init__(self, errors: ErrorMapper, taker: Callable[[AnswerBuilder], Callable[[str], bool]]) -> None:
        self.errors = errors
        self._taker = taker

    async def check(self, response: httpx.Response) -> None:
        """Pass an event stream, and JSON: some servers answer with the whole at once, whatever was asked for.

        Raises:
            ModelError: the answer is something else, as its status and body say.
        """
        kind = _type_of(response)
        if response.is_success and any(known in kind.lower() for known in _TYPES):
            return
        if not response.is_success:
            body = await self._error_body(response)
            raise self.errors.from_response(response.status_code, body, response.headers, str(response.url))
        raise self._no_stream(kind, response)

    def _no_stream(self, kind: str, response: httpx.Response) -> ModelProtocolError:
        problem = f"answered with {kind!r} instead of an event stream"
        return self.errors.protocol(problem, status=response.status_code)

    async def _error_body(self, response: httpx.Response) -> str:
        body = bytearray()
        with anyio.move_on_after(ERROR_BODY_SECONDS):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break
        return bytes(body[:MAX_ERROR_BYTES]).decode("utf-8", "replace")

    async def read(self, response: httpx.Response, answer: AnswerBuilder) -> None:
        """Put the whole stream into ``answer``, and read on to its end so that the connection can be used again.

        Raises:
            ModelError: an event is none, or tells of a failure.
        """
        parser, taker = SseParser(), self._taker(answer)
        take = partial(self._take, taker, answer)
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
            rest = parser.close()
            if parser.is_plain:
                self._take_plain(taker, rest, response)
            elif not done:
                any(map(take, rest))
        kind = JSON if parser.is_plain else _type_of(response)
        if "event-stream" not in kind.lower() and not (answer.finished or answer.says_anything):
            raise self._no_stream(kind, response)
        if parser.is_plain:
            answer.end()

    def _take_plain(self, take: Callable[[str], bool], bodies: list[str], response: httpx.Response) -> None:
        """Take a body that is no stream, but JSON."""
        try:
            any(map(take, bodies))
        except INVALID_JSON as error:
            raise self._no_stream(JSON, response) from error

    def _feed(self, parser: SseParser, chunk: bytes, take: Callable[[str], bool]) -> bool:
        try:
            return any(map(take, parser.feed(chunk)))  # what comes after the last event is not looked at
        except EventTooLongError as error:
            raise self.errors.protocol(f"sent {error}") from error

    def _take(self, take: Callable[[str], bool], answer: AnswerBuilder, data: str) -> bool:
        """Have any event taken: an empty one, ``[DONE]``, and one that can't be read.

        Whatever goes wrong after the finish reason harms nothing: the answer is whole.
        """
        if data.strip().upper() == DONE:
            answer.end()
            return True
        try:
            return bool(data.strip()) and take(data)
        except (ModelError, *INVALID_JSON) as error:
            if answer.finished_well:
                return False
            if isinstance(error, ModelError):
                raise
            raise self.errors.protocol(f"sent an event that is no completion chunk ({error})") from error


def _type_of(response: httpx.Response) -> str:
    return response.headers.get("content-type", "text/event-stream")


def decoded(decoder: msgspec.json.Decoder[_Event], data: str | msgspec.Raw) -> _Event:
    """An event, mended where it is not quite JSON.

    Half a surrogate pair, which no text can hold, becomes a character of private use: the other half may come with the
    next event, and ``AnswerBuilder`` puts them together, or U+FFFD in their place; NaN and infinity, which
    belong to numbers unused here, become null; control characters in a string stay what they are.
    """
    try:
        return decoder.decode(data)
    except INVALID_JSON:
        text = data if isinstance(data, str) else bytes(data).decode()
        try:
            mended = json.dumps(json.loads(text, strict=False, parse_constant=_nothing, parse_float=_finite))
        except (ValueError, RecursionError):
            mended = ""
        if not mended:
            raise
        return decoder.decode(_ESCAPE.sub(lambda found: _as_one(found["half"]) if found["half"] else found[0], mended))


_ESCAPE = re.compile(
    r"\\(?:u(?:d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<half>d[89a-f][0-9a-f]{2}))|.)", re.IGNORECASE | re.DOTALL
)


def _as_one(half: str) -> str:
    return chr(HALF_BASE + int(half, 16))


def _nothing(_constant: str) -> None:
    """Stand for a number that is none."""


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if isfinite(number) else None


def _parted(data: str) -> list[str]:
    """Return the events of one: some servers leave out the blank line between two."""
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if len(lines) > 1 and all(line == DONE or (line[0] == "{" and line[-1] == "}") for line in lines):
        return lines
    return [data]


NOT_FOUND: Final = 404
USER_AGENT: Final = f"vibe/{__version__}"
CONNECT_SECONDS: Final = 30.0
"""The longest a connection may take, however patient the provider's ``timeout_seconds`` is."""

_END: Final = re.compile(r"/(?:chat/completions|completions|responses|messages|models)$")
"""The paths of the calls themselves, as documentation shows them."""
_VERSION: Final = re.compile(r"/v\d+\w*$")


def address(api_base: str, *path: str) -> str:
    """Return the address of ``path`` below ``api_base``, which people also paste with a path of its own and a query."""
    parts = urlsplit(api_base.strip())
    base = _END.sub("", parts.path.rstrip("/"))
    return urlunsplit(parts._replace(path="/".join((base, *path)), fragment=""))


def versioned(api_base: str) -> str:
    """Return ``api_base`` with its version path, which every server of the Messages API has."""
    return address(api_base, *([] if _VERSION.search(urlsplit(address(api_base)).path) else ["v1"]))


class HttpBackend:
    """A ``ModelBackend`` that posts to the first of ``urls`` at which there is something.

    Proxy variables and the system's CA store are honoured.

    ``encode`` words a request's body, ``reader`` reads the answer; redirects are not followed, so that ``headers``,
    the key among them, reach no other host. ``timeout_seconds`` of the provider bounds the silence between two bytes,
    not the whole answer.
    """

    def __init__(
        self,
        *,
        urls: Sequence[str],
        headers: Mapping[str, str],
        encode: Callable[[ModelRequest], bytes],
        reader: StreamReader,
    ) -> None:
        self._errors = reader.errors
        self._provider = self._errors.provider
        self._urls = list(urls)
        own = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": USER_AGENT}
        self._headers = {**own, **headers}
        self._users_headers = {name.lower(): value for name, value in self._provider.extra_headers.items()}
        self._encode = encode
        self._reader = reader
        self._client: Any = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        httpx = self._library()
        client = self._client = self._client or self._connect(httpx)
        body = self._encode(request)
        headers = {**self._headers, **request.extra_headers, **self._users_headers}
        answer = AnswerBuilder(observer, self._provider.reasoning_tag)
        try:
            for url in (known := self._urls):
                posting = client.stream("POST", url, content=body, headers=headers)
                if await self._read(posting, answer, is_last=url == known[-1]):
                    self._urls = [url]
                    break
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            # Whatever breaks after the finish reason breaks nothing: the answer is whole.
            if not answer.finished:
                raise self._errors.from_wire(error) from error
        return answer.build(request, self._errors)

    async def _read(
        self, posting: AbstractAsyncContextManager[httpx.Response], answer: AnswerBuilder, *, is_last: bool
    ) -> bool:
        """Read the answer of an address; False: there is nothing, and it is not the last one."""
        async with posting as response:
            if response.status_code == NOT_FOUND and not is_last:
                return False
            await self._reader.check(response)
            await self._reader.read(response, answer)
            return True

    async def aclose(self) -> None:
        """Close pooled connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _library(self) -> Any:
        """Return what carries the requests: httpx, or httpx2."""
        return import_httpx()

    def _connect(self, httpx: Any) -> Any:
        """Return what streams the answers to requests, with connections of its own."""
        timeout = self._provider.silence_seconds
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._provider.max_concurrency)
        return httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), pool=None),
            **client_options(httpx, limits=limits),
        )
