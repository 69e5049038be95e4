"""HttpBackend: calls a model by HTTP and reads the server-sent events of its answer, for any protocol over them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec
from anyio import CancelScope, current_time, to_thread

from ipc.errors import INVALID_JSON
from vibe import __version__
from vibe.core.llm.backend.assembly import HALF_BASE, AnswerBuilder
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.system.http import client_options

if TYPE_CHECKING:
    import httpx2


MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r){2}")


class EventTooLongError(ValueError):
    """One event is longer than the parser may hold."""


class SseParser:
    """Turns a byte stream into the data of its events, dropping comments and other fields.

    Lines may end in LF, CRLF or CR, and the stream may be cut between any two bytes. At most ``max_event_bytes``
    are held. An event that the server names an error is returned as ``{"error": …}``; a bare line of JSON counts as
    data. A body of plain JSON is not a stream: all of it is one event, returned at the end. ``is_plain`` says whether
    it is one, None that nothing was read yet.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._held = bytearray()
        self.is_plain: bool | None = None

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of every event that ``chunk`` completes.

        Raises:
            EventTooLongError: an event exceeds the limit.
        """
        self._held += chunk
        if len(self._held) > len(_BOM):
            self._look()
        ended: list[bytearray] = []
        if self.is_plain is False and _EVENT_END.search(self._held, max(0, len(self._held) - len(chunk) - 3)):
            *ended, self._held = map(bytearray, _EVENT_END.split(self._held))
        if len(self._held) > self._limit:
            raise EventTooLongError(f"an event longer than {self._limit:,} bytes")
        return [data for event in ended for data in _data_in(event)]

    def close(self) -> list[str]:
        """Return the data of a last event that has no blank line after it."""
        self._look()
        if not self.is_plain:
            return _data_in(self._held)
        lines = filter(None, self._held.removeprefix(_BOM).splitlines())
        return _split_events(b"\n".join(lines).decode("utf-8", "replace"))

    def _look(self) -> None:
        """Find out by its first character whether the body is plain JSON."""
        if self.is_plain is None and (start := self._held.removeprefix(_BOM).lstrip()):
            self.is_plain = start.startswith((b"{", b"["))


def _data_in(event: bytearray) -> list[str]:
    """Return the data of an event, which may be several pieces; none if it has no data."""
    found: list[bytes] = []
    is_error = False
    for line in bytes(event).removeprefix(_BOM).splitlines():
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            is_error = value.strip() == b"error"
        elif name in {b"data", b"error"}:  # llama.cpp reports errors in a field of this name
            is_error = is_error or name == b"error"
            found.append(value)
        elif line.startswith(b"{"):
            found.append(line)
    data = b"\n".join(found).decode("utf-8", "replace")
    if is_error and found:
        return [_as_error(data)]
    return _split_events(data) if found else []


def _as_error(data: str) -> str:
    """Return the data of an error event as a JSON object with the key ``error``."""
    error: object = data
    with suppress(*INVALID_JSON):  # it may be plain text
        error = msgspec.json.decode(data)
    if isinstance(error, dict) and cast("dict[str, Any]", error).get("error"):
        return data
    return msgspec.json.encode({"error": error or "no reason told"}).decode()


AFTER_FINISH_SECONDS: Final = 5.0
"""Seconds that usage and ``[DONE]`` may come after the finish reason."""
AFTER_DONE_SECONDS: Final = 1.0
"""Seconds that usage and the end of the body may come after ``[DONE]``."""


_Event = TypeVar("_Event")
JSON: Final = "application/json"
DONE: Final = "[DONE]"
"""The last event of a chat completion."""
_SAYS_NOTHING: Final = frozenset({"", "[done]", "null", "ping", "heartbeat", "keepalive", "keep-alive"})
"""The last event, and those by which servers and gateways only keep a connection open."""


def decoded(decoder: msgspec.json.Decoder[_Event], data: str | msgspec.Raw) -> _Event:
    """Decode an event, repairing it if it is almost JSON.

    Half a surrogate pair, which no text can hold, becomes a private-use character: the other half may come with the
    next event, and ``AnswerBuilder`` joins them or puts U+FFFD in their place. NaN and infinity become null, since the
    numbers they belong to are not used here. Control characters in a string are kept.
    """
    try:
        return decoder.decode(data)
    except INVALID_JSON:
        text = data if isinstance(data, str) else bytes(data).decode()
        with suppress(ValueError, RecursionError):
            value = json.loads(text, strict=False, parse_constant=lambda _: None, parse_float=_finite)
            mended = json.dumps(value, ensure_ascii=False)
            return decoder.decode(re.sub("[\ud800-\udfff]", lambda half: chr(HALF_BASE + ord(half[0])), mended))
        raise


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if isfinite(number) else None


def _split_events(data: str) -> list[str]:
    """Split one event into several if a server has left out the blank lines between them."""
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if len(lines) > 1 and all(line == DONE or (line[0] == "{" and line[-1] == "}") for line in lines):
        return lines
    return [data]


NOT_FOUND: Final = 404
USER_AGENT: Final = f"vibe/{__version__}"
CONNECT_SECONDS: Final = 30.0
"""The most seconds that connecting may take, however long the provider's ``timeout_seconds`` is."""

_ENDPOINT: Final = re.compile(r"/(?:chat/completions|completions|responses|messages|models)$")
"""The endpoints' own paths, which people paste from documentation into ``api_base``."""
_VERSION: Final = re.compile(r"/v\d+\w*$")


def address(api_base: str, *path: str) -> str:
    """Return the address of ``path`` below ``api_base``, dropping an endpoint's path and keeping a query."""
    parts = urlsplit(api_base.strip())
    base = _ENDPOINT.sub("", parts.path.rstrip("/"))
    return urlunsplit(parts._replace(path="/".join((base, *path)), fragment=""))


def versioned(api_base: str) -> str:
    """Return ``api_base`` with a version path, by default ``v1``: every server of the Messages API has one."""
    return address(api_base, *([] if _VERSION.search(urlsplit(address(api_base)).path) else ["v1"]))


class HttpBackend:
    """A ``ModelBackend`` that posts to the first of ``urls`` that does not answer with 404.

    ``encode`` makes the body of a request, ``taker`` makes the function that adds the data of one event to an
    answer; once that is done, it only counts usage. Proxy variables and the system's CA store are
    honoured. Redirects are not followed, so that ``headers``, which include the key, reach no other host. The
    provider's ``timeout_seconds`` limits the silence between two bytes, not the whole answer.
    """

    def __init__(
        self,
        *,
        errors: ErrorMapper,
        urls: Sequence[str],
        headers: Mapping[str, str],
        encode: Callable[[ModelRequest], bytes],
        taker: Callable[[AnswerBuilder, ErrorMapper], Callable[[str], None]],
    ) -> None:
        self.errors = errors
        self._provider = errors.provider
        self._urls = list(urls)
        own = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": USER_AGENT}
        self._headers = {**own, **headers}
        self._users_headers = {name.lower(): value for name, value in self._provider.extra_headers.items()}
        self._encode = encode
        self._taker = taker
        self._client: Any = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        if self._client is None:
            made = await to_thread.run_sync(self._connect)  # imports the library and reads certificates: up to 1 s
            self._client = self._client or made
        import httpx2

        answer = AnswerBuilder(observer, self._provider.reasoning_tag)
        try:
            await self._read(self._client, request, answer)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            # A failure after the finish reason does not matter: the answer is complete.
            if not answer.finished:
                raise self.errors.from_wire(error) from error
        return answer.build(request, self.errors)

    async def _read(self, client: Any, request: ModelRequest, answer: AnswerBuilder) -> None:
        body = self._encode(request)
        headers = {**self._headers, **request.extra_headers, **self._users_headers}
        for url in (known := self._urls):
            async with client.stream("POST", url, content=body, headers=headers) as response:
                if response.status_code == NOT_FOUND and url != known[-1]:
                    continue
                await self.check(response)
                await self.read(response, answer)
            self._urls = [url]
            break

    async def check(self, response: httpx2.Response) -> None:
        """Accept a success of any type: some servers label their events as a page, or send the whole answer at once.

        Raises:
            ModelError: the response is an error.
        """
        if not response.is_success:
            body = (await response.aread()).decode("utf-8", "replace")
            raise self.errors.from_response(response.status_code, body, response.headers, str(response.url))

    async def read(self, response: httpx2.Response, answer: AnswerBuilder) -> None:
        """Read the whole stream into ``answer``, to the end of the body so that the connection can be reused.

        Raises:
            ModelError: an event can't be read, or reports a failure.
        """
        parser, take = SseParser(), partial(self._take, self._taker(answer, self.errors), answer)
        with CancelScope() as scope:
            async for chunk in response.aiter_bytes():
                try:
                    take(parser.feed(chunk))
                except EventTooLongError as error:
                    raise self.errors.protocol(f"sent {error}") from error
                if answer.finished:
                    grace = AFTER_DONE_SECONDS if answer.is_done else AFTER_FINISH_SECONDS
                    scope.deadline = min(scope.deadline, current_time() + grace)
        rest = parser.close()
        take(rest, is_rest=True)
        kind = JSON if parser.is_plain else response.headers.get("content-type") or "text/event-stream"
        if "event-stream" not in kind.lower() and not (answer.finished or answer.says_anything):
            problem = f"answered with {kind!r} instead of an event stream"
            raise self.errors.protocol(problem, " ".join(rest), status=response.status_code)
        if parser.is_plain:
            answer.is_done = True

    def _take(
        self, take: Callable[[str], None], answer: AnswerBuilder, events: Iterable[str], *, is_rest: bool = False
    ) -> None:
        """Add events to the answer. ``is_rest`` means that the body ended with them.

        An error after the finish reason is ignored: the answer is complete.
        """
        for data in events:
            answer.is_done |= data.strip().upper() == DONE
            try:
                if data.strip().lower() not in _SAYS_NOTHING:
                    take(data)
            except (ModelError, *INVALID_JSON) as error:
                if answer.finished_well or answer.is_done:
                    continue
                if isinstance(error, ModelError):
                    raise
                # "truncated" is what msgspec says of JSON that ends too early; all else is malformed.
                cut = "broke off in the middle of its answer" if is_rest and "truncated" in str(error) else ""
                problem = f"{cut or 'sent an event that is not a completion chunk'} ({error})"
                raise self.errors.protocol(problem) from error

    async def aclose(self) -> None:
        """Close pooled connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connect(self) -> Any:
        """Return a new client with its own pool of connections."""
        import httpx2

        timeout = self._provider.silence_seconds
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self._provider.max_concurrency)
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), pool=None),
            **client_options(limits=limits),
        )
