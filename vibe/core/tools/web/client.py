"""One GET over http(s) to a public address: the address that was checked is the one that is connected to."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from socket import SOCK_STREAM
from typing import Any, Protocol

import anyio

from vibe.core.tools.errors import ToolError
from vibe.core.tools.web.address import UrlError, WebUrl, refusal

MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
USER_AGENT = "vibe"
ACCEPT = "text/html, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8, */*;q=0.1"


class NetworkAccess(Protocol):
    """Names to addresses, and addresses to connections."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Every IP address of a host.

        Raises:
            OSError: there is none.
        """
        ...

    async def connect(self, address: str, port: int) -> Any:
        """A connection, as ``httpcore.AsyncNetworkStream``.

        Raises:
            OSError, httpcore.NetworkError, httpcore.TimeoutException: it can't be fetched.
        """
        ...

    def tls(self) -> ssl.SSLContext:
        """Trusted certificates."""
        ...


class SystemNetwork:
    """The machine's own: its resolver, its sockets, its certificates."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Ask the system's resolver."""
        found = await anyio.getaddrinfo(host, None, type=SOCK_STREAM)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def connect(self, address: str, port: int) -> Any:
        """Connect to exactly this address."""
        import httpcore

        backend: Any = httpcore.AnyIOBackend()
        return await backend.connect_tcp(address, port, timeout=CONNECT_SECONDS)

    def tls(self) -> ssl.SSLContext:
        """The system's certificates."""
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A server's answer. ``elsewhere`` is the other site it redirects to, if it does; then there is no body."""

    url: WebUrl
    status: int
    content_type: str = ""
    body: bytes = b""
    cut: bool = False
    elsewhere: WebUrl | None = None


class FetchError(ToolError):
    """A page that could not be fetched."""

    def __init__(self, url: WebUrl, problem: str) -> None:
        super().__init__(f"{url} {problem}")
        self.url = url


async def fetch(url: WebUrl, network: NetworkAccess, *, max_bytes: int) -> Response:
    """Get a page, with at most ``max_bytes`` of it; redirects are followed within one host only.

    Raises:
        UrlError: an address on the way is not public.
        FetchError: there is no answer, or none in HTTP.
    """
    import httpcore

    pool = httpcore.AsyncConnectionPool(
        ssl_context=network.tls(), network_backend=_checked_backend(network), max_connections=1
    )
    async with pool:
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = await _get(pool, url, max_bytes)
            except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
                raise FetchError(
                    url, f"can't be reached ({error or type(error).__name__}); check the address"
                ) from error
            except httpcore.ProtocolError as error:
                raise FetchError(url, f"did not answer as a web server does ({error})") from error
            following = response.elsewhere
            if following is None or following.host != url.host or following.scheme == "http" != url.scheme:
                return response
            url = following
    raise FetchError(url, f"redirects more than {MAX_REDIRECTS} times; giving up")


async def _get(pool: Any, url: WebUrl, max_bytes: int) -> Response:
    headers = {"Host": _authority(url), "User-Agent": USER_AGENT, "Accept": ACCEPT, "Accept-Encoding": "identity"}
    async with pool.stream("GET", str(url), headers=headers) as answer:
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        location = received.get("location")
        if answer.status in REDIRECTS and location:
            return Response(url=url, status=answer.status, elsewhere=url.join(location))
        body, cut = await _body(answer, url, received, max_bytes)
        return Response(
            url=url, status=answer.status, content_type=received.get("content-type", ""), body=body, cut=cut
        )


async def _body(answer: Any, url: WebUrl, headers: Mapping[str, str], max_bytes: int) -> tuple[bytes, bool]:
    """The body unpacked, as far as it is wanted; reading stops there."""
    unpack = _unpacker(headers.get("content-encoding", ""), url)
    body = b""
    async for chunk in answer.aiter_stream():
        try:
            body += chunk if unpack is None else unpack.decompress(chunk, max_bytes + 1 - len(body))
        except zlib.error as error:
            raise FetchError(url, f"sent a body that can't be unpacked ({error})") from error
        if len(body) > max_bytes:
            return body[:max_bytes], True
    return body, False


def _unpacker(encoding: str, url: WebUrl) -> Any:
    word = encoding.strip().lower()
    if word in {"", "identity"}:
        return None
    if word in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise FetchError(url, f"sent a body packed with {word[:40]!r}, which was not asked for")


def _authority(url: WebUrl) -> str:
    return str(url).split("/", 3)[2]


def _checked_backend(network: NetworkAccess) -> Any:
    """Return what opens httpcore's connections."""
    import httpcore

    class CheckedBackend(httpcore.AsyncNetworkBackend):
        """Looks a host up, refuses it if any of its addresses is not public, and connects to one it has checked."""

        async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> Any:
            addresses = await _public_addresses(host, network)
            for address in addresses[:-1]:
                try:
                    return await network.connect(address, port)
                except (httpcore.NetworkError, httpcore.TimeoutException, OSError):
                    continue
            return await network.connect(addresses[-1], port)

    return CheckedBackend()


async def _public_addresses(host: str, network: NetworkAccess) -> Sequence[str]:
    """The addresses of a host, all of them public."""
    addresses = [host] if refusal(host) != "is not an IP address" else await network.resolve(host)
    if not addresses:
        raise OSError(f"{host} has no address")
    for address in addresses:
        why = refusal(address)
        if why is not None:
            leads = host if address == host else f"{host}, which leads to {address}: that"
            raise UrlError(leads, f"{why}; only public pages are fetched")
    return addresses
