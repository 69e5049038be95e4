"""One request a call over a pooled HTTP client, for any protocol that answers with server-sent events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from vibe import __version__
from vibe.core.llm.backend.assembly import AnswerBuilder
from vibe.core.llm.backend.reader import StreamReader
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.system.http import client_options, import_httpx

if TYPE_CHECKING:
    import httpx

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
