"""HTTP clients: everything that speaks HTTP uses these options, with either of the two libraries."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from vibe.system.errors import EnvironmentFailure

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine, which is never reached through a proxy."""
CA_FILE = "SSL_CERT_FILE"
"""The variable that names a file of certificates, in place of the system's, to OpenSSL."""
USUAL_PORTS = {"80": "http", "443": "https"}


def client_options(library: Any, *, is_async: bool = True, limits: Any = None) -> dict[str, Any]:
    """Return the arguments for a client of ``library`` (httpx or httpx2): certificates, and the user's proxies.

    A proxy that can't be used raises ``EnvironmentFailure`` for each request that has to go through it.
    """
    transport = library.AsyncHTTPTransport if is_async else library.HTTPTransport
    options: dict[str, Any] = {"verify": system_tls()} | ({} if limits is None else {"limits": limits})
    proxies = getproxies()
    mounts: dict[str, Any] = {}
    for scheme in ("http", "https", "all"):
        if address := proxies.get(scheme, "").strip():
            mounts[f"{scheme}://"] = _proxy_transport(library, transport, scheme, address, options)
    mounts |= {name: None for name in _no_proxy_patterns(proxies.get("no", "")) if _is_usable(library, name)}
    if "*" in proxies.get("no", "").replace(",", " ").split():
        mounts = {}
    return {**options, "mounts": mounts, "trust_env": False}


def _proxy_transport(library: Any, transport: Any, scheme: str, address: str, options: dict[str, Any]) -> Any:
    """Return a transport through a proxy. If it can't be created, each request fails with a sentence that says so."""
    url = address if "://" in address else f"http://{address}"
    try:
        _ = urlsplit(url).port  # Raises for an impossible port, which httpx only notices when it connects.
        return transport(proxy=url.replace("socks://", "socks5://", 1), **options)
    except (ValueError, library.InvalidURL):
        wanted = "write http://, https:// or socks5://HOST:PORT, or unset it"
        problem = f"the proxy in {scheme}_proxy can't be used: {wanted}"

    def refuse(_request: Any) -> Any:
        raise EnvironmentFailure(problem)

    return library.MockTransport(refuse)


def _no_proxy_patterns(no_proxy: str) -> Iterator[str]:
    """Yield httpx's patterns for hosts without a proxy, which people list as names, suffixes or addresses."""
    for entry in (*LOOPBACK, *no_proxy.replace(",", " ").split()):
        name = entry.rpartition("://")[2].strip("/").lstrip("*.")
        with suppress(ValueError):
            name = f"[{ipaddress.IPv6Address(name)}]"
        host, _, port = name.rpartition(":")
        scheme, name = (USUAL_PORTS[port], host) if ":" in name and port in USUAL_PORTS else ("all", name)
        yield f"{scheme}://{name}" if name[:1].isdigit() or name.startswith("[") else f"{scheme}://*{name}"


def _is_usable(library: Any, pattern: str) -> bool:
    """Return whether httpx accepts a pattern."""
    with suppress(library.InvalidURL):
        return bool(library.URL(pattern).host)
    return False


def proxy_note(address: str) -> str:
    """Return words for the proxy through which an address is reached, or an empty string if there is none."""
    parts, proxies = urlsplit(address), getproxies()
    names = [f"{scheme}_proxy" for scheme in (parts.scheme, "all") if proxies.get(scheme)]
    is_direct = parts.hostname in {"::1", *LOOPBACK} or proxy_bypass(parts.hostname or "")
    return "" if is_direct or not names else f" through the proxy in {names[0]}"


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


def import_httpx() -> Any:
    """Import httpx without its command line, which would import click, rich and pygments (0.2 s)."""
    fresh = "httpx" not in sys.modules
    if fresh:
        sys.modules["httpx._main"] = cast("ModuleType", None)
    try:
        import httpx
    finally:
        if fresh:
            sys.modules.pop("httpx._main", None)
    return httpx
