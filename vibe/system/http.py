"""HTTP clients: everything that speaks HTTP uses these options."""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from anyio import CancelScope, current_time, move_on_after, run

from vibe.system.errors import EnvironmentFailure

if TYPE_CHECKING:
    import httpx2

CA_FILE = "SSL_CERT_FILE"
"""The variable that names a file of certificates, in place of the system's, to OpenSSL."""
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
"""The names of this machine, which is never reached through a proxy."""
USUAL_PORTS = {"80": "http", "443": "https"}
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of an answer, decompressed."""
ERROR_BYTES, ERROR_SECONDS = 64 * 1024, 10.0
"""The most bytes of a refusal that are read, and the most seconds spent on reading them."""
WHOLE_SECONDS = 30.0
"""The most seconds that ``answer_to`` takes."""


def client_options(limits: httpx2.Limits | None = None) -> dict[str, Any]:
    """Return the arguments for a client of httpx2: certificates, the user's proxies, and bounds of what is read.

    A proxy that can't be used raises ``EnvironmentFailure`` for each request that has to go through it. Answers are
    read as ``bounded`` says.
    """
    options: dict[str, Any] = {"verify": system_tls()} | ({} if limits is None else {"limits": limits})
    proxies = getproxies()
    mounts: dict[str, Any] = {}
    for scheme in ("http", "https", "all"):
        if address := proxies.get(scheme, "").strip():
            mounts[f"{scheme}://"] = _proxy_transport(scheme, address, options)
    mounts |= dict.fromkeys(_no_proxy_patterns(proxies.get("no", "")))
    if "*" in proxies.get("no", "").replace(",", " ").split():
        mounts = {}
    hooks = {"response": [partial(bounded, MOST_BYTES)]}
    return {**options, "mounts": mounts, "trust_env": False, "event_hooks": hooks}


async def bounded(most: int, response: Any) -> None:
    """Have only the beginning of an answer read if it is a refusal, else at most ``most`` bytes.

    Reading a longer one raises ``httpx2.DecodingError``.
    """
    response.aiter_bytes = partial(_parts, most, response, response.aiter_bytes())


async def _parts(most: int, response: Any, given: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    import httpx2

    until = math.inf if response.is_success else current_time() + ERROR_SECONDS
    size, part = 0, b"first"
    while part and (response.is_success or size < ERROR_BYTES):
        part = b""
        with CancelScope(deadline=until):
            part = await anext(given, b"")
        size += len(part)
        if response.is_success and size > most:
            raise httpx2.DecodingError(f"it is longer than {most:,} bytes", request=response.request)
        yield part
    await response.aclose()


def answer_to(method: str, url: httpx2.URL | str, seconds: float, **options: Any) -> httpx2.Response:
    """Return the complete answer to one request, waiting ``seconds`` for each part of it. Blocks: call it in a thread.

    Raises:
        httpx2.HTTPError, httpx2.InvalidURL: there is none.
    """
    import httpx2

    async def asked() -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=seconds, **client_options()) as client:
            with move_on_after(WHOLE_SECONDS):
                return await client.request(method, url, **options)
        raise httpx2.ReadTimeout(f"no complete answer came within {WHOLE_SECONDS:g} s")

    return run(asked)


def _proxy_transport(scheme: str, address: str, options: dict[str, Any]) -> Any:
    """Return a transport through a proxy. If it can't be created, each request fails with a sentence that says so."""
    import httpx2
    from socksio import SOCKSError  # noqa: PLC0415  only where there is a proxy

    class Proxied(httpx2.AsyncHTTPTransport):
        """Blames the proxy for what happens before the server is asked. That may take as long as to connect."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            scope = CancelScope(deadline=current_time() + request.extensions["timeout"]["connect"])
            streams: list[Any] = []

            async def note(event: str, about: dict[str, Any]) -> None:
                if event.endswith("connect_tcp.complete"):
                    streams.append(about["return_value"])
                if getattr(about.get("request"), "method", b"CONNECT") != b"CONNECT":
                    scope.deadline = math.inf

            request.extensions = {**request.extensions, "trace": note, "proxy": f"{scheme}_proxy"}
            try:
                with scope:
                    return await super().handle_async_request(request)
                raise httpx2.ConnectTimeout("it does not answer")
            except (httpx2.TransportError, SOCKSError) as error:
                if scope.deadline == math.inf:
                    raise
                for stream in streams:  # the library leaves those to a SOCKS proxy open
                    await stream.aclose()
                raise httpx2.ProxyError(str(error), request=request) from error

    url = address if "://" in address else f"http://{address}"
    try:
        _ = urlsplit(url).port  # Raises for an impossible port, which httpx2 only notices when it connects.
        return Proxied(proxy=url.replace("socks://", "socks5://", 1), **options)
    except (ValueError, httpx2.InvalidURL):
        problem = (
            f"the proxy in {scheme}_proxy can't be used: write http://, https:// or socks5://HOST:PORT, or unset it"
        )

    def refuse(_request: Any) -> Any:
        raise EnvironmentFailure(problem)

    return httpx2.MockTransport(refuse)


def _no_proxy_patterns(no_proxy: str) -> Iterator[str]:
    """Yield httpx2's patterns for hosts without a proxy, which people list as names, suffixes or addresses."""
    import httpx2

    for entry in (*THIS_MACHINE, *no_proxy.replace(",", " ").split()):
        name = entry.rpartition("://")[2].strip("/").lstrip("*.")
        with suppress(ValueError):
            name = f"[{ipaddress.IPv6Address(name)}]"
        host, _, port = name.rpartition(":")
        scheme, name = (USUAL_PORTS[port], host) if ":" in name and port in USUAL_PORTS else ("all", name)
        pattern = f"{scheme}://{name}" if name[:1].isdigit() or name.startswith("[") else f"{scheme}://*{name}"
        with suppress(httpx2.InvalidURL):
            if httpx2.URL(pattern).host:
                yield pattern


def proxy_note(error: BaseException) -> str:
    """Return words for the proxy that a failed request went through, or an empty string if there was none."""
    name = getattr(getattr(error, "_request", None), "extensions", {}).get("proxy")
    return f" through the proxy in {name}" if name else ""


def system_tls() -> Any:
    """Return a TLS context that trusts what the system trusts, including company CAs."""
    import ssl  # noqa: PLC0415  only needed once something is asked

    import truststore

    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # by which other programs are told such a file
        with suppress(KeyError, OSError):  # If this file was needed, the refused certificate is told.
            context.load_verify_locations(os.environ[name])
    return context


def trust_advice(problem: str) -> str:
    """Return what helps if a certificate or, with status 407, a user of a proxy was refused, or an empty string."""
    if problem.startswith("407"):
        return "name your user and password in the proxy's variable: http://USER:PASSWORD@HOST:PORT"
    if "CERTIFICATE_VERIFY_FAILED" not in problem:
        return ""
    if "expired" in problem or "not yet valid" in problem:
        return "have its certificate renewed, or set the clock of this machine"
    if "not valid for" in problem:
        return "use the host name that its certificate is for"
    given = f", which is {path!r} now" if (path := os.environ.get(CA_FILE)) else ""
    return f"name a file with the certificate of its CA in {CA_FILE}{given}, or have the system trust that CA"
