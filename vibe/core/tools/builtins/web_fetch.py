"""web_fetch: fetches one public page over http(s), as text."""

from __future__ import annotations

import codecs
import ipaddress
import re
import string
import zlib
from collections.abc import Mapping, Sequence
from socket import SOCK_STREAM
from typing import Annotated, Any, ClassVar, Protocol
from urllib.parse import quote, urljoin, urlsplit

import anyio
from msgspec import Struct
from pydantic import BaseModel, Field

from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolArgs
from vibe.core.tools.errors import ToolError
from vibe.core.tools.permissions import Assessment, match_lists
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import error_as
from vibe.system.http import system_tls, trust_advice
from vibe.system.plain_text import shortened

_UNSAFE = re.compile(r"[\x00-\x20\x7f\\<>\"]")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)
_NAME = re.compile(r"(?=.{1,253}$)(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.IGNORECASE)
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".onion")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The third quarter of an IPv6 address whose last quarter is an IPv4 address (RFC 5214)."""
_AZURE = "168.63.129.16"
"""The address at which Azure gives its machines secrets, which looks public: "What is IP address 168.63.129.16" in the
documentation of its virtual networks. Those of other clouds are link-local, private or special-purpose addresses.
"""
_CLOSED = ("loopback", "link_local", "multicast", "private", "reserved", "site_local")
"""Kinds of addresses that are not public, as ``ipaddress`` names its checks; only IPv6 knows the last."""
_NOT_GLOBAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20")))
"""Special-purpose networks of the registries (RFC 6890) that some Python versions consider public."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class WebUrl(Struct, frozen=True, kw_only=True):
    """A checked URL. ``host`` is lower-case ASCII without brackets, and ``target`` is what the server is asked for."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def parse_url(text: str) -> WebUrl:
    """Parse and check a URL.

    Raises:
        ToolError: it is not http(s), contains a name or password, or names its host in an unusual way.
    """
    if _UNSAFE.search(text):
        raise _refused(text, "holds white space or characters no URL has; encode them")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused(text, f"is not a URL ({error}); give one such as https://example.com/page") from error
    if parts.scheme.lower() not in _DEFAULT_PORTS:
        raise _refused(text, "is not http or https; give a URL such as https://example.com/page")
    if parts.username is not None or parts.password is not None:
        raise _refused(text, "holds a name or password; leave them out")
    scheme = parts.scheme.lower()
    return WebUrl(
        scheme=scheme,
        host=_host(text, parts.hostname or ""),
        port=port or _DEFAULT_PORTS[scheme],
        target=_target(parts.path, parts.query),
    )


def _refused(url: str, problem: str) -> ToolError:
    return ToolError(f"{url[:200]!r} {problem}")


def refusal(address: str) -> str | None:
    """Return why an IP address must not be connected to, as a phrase, or None if it is public."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "is not an IP address"
    ip = _embedded_ipv4(ip)
    if str(ip) == _AZURE:
        return "is where Azure keeps the secrets of a machine"
    if ip.is_unspecified:
        return "means this machine"
    kind = next((kind for kind in _CLOSED if getattr(ip, f"is_{kind}", False)), "")
    if kind:
        return f"is a {kind.replace('_', '-')} address"
    return None if ip.is_global and not any(ip in network for network in _NOT_GLOBAL) else "is not a public address"


def _host(url: str, name: str) -> str:
    if not name:
        raise _refused(url, "names no host; give a URL such as https://example.com/page")
    if ":" in name:
        return _ip_literal(url, name)
    with error_as(UnicodeError, lambda _: _refused(url, "names an impossible host; check its spelling")):
        ascii_name = name.encode("idna").decode("ascii").lower().removesuffix(".")
    if _NUMERIC.fullmatch(ascii_name):
        return _ip_literal(url, ascii_name)
    if not _NAME.fullmatch(ascii_name):
        raise _refused(url, "names an impossible host; check its spelling")
    if ascii_name == "localhost" or ascii_name.endswith(_LOCAL_SUFFIXES):
        raise _refused(url, "names a host of this machine or network; only public pages are fetched")
    return ascii_name


def _ip_literal(url: str, name: str) -> str:
    """Return an IP address in its usual form.

    Raises:
        ToolError: it is written in an unusual form such as 127.1 or 0x7f000001, which are tricks.
    """
    if "%" in name:
        raise _refused(url, "names an address of this network; only public pages are fetched")
    with error_as(ValueError, lambda _: _refused(url, "writes an IP address in an unusual way; give the host's name")):
        return str(ipaddress.ip_address(name))


def _target(path: str, query: str) -> str:
    target = f"{path or '/'}?{query}" if query else path or "/"
    return quote(target, safe=string.printable, errors="replace")


def _embedded_ipv4(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, or else the address itself.

    It may be mapped, 6to4, NAT64, ISATAP, or that of a Teredo client.
    """
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64 or (int(ip) >> 32) & 0xFFFF_FFFF in _ISATAP or (int(ip) >> 32 == 0 and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    teredo = ip.teredo
    return ip.ipv4_mapped or ip.sixtofour or (teredo[1] if teredo else None) or ip


MAX_REDIRECTS = 5
"""The most redirects that are followed."""
CONNECT_SECONDS = 10.0
"""The timeout for connecting to one address, in seconds."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
USER_AGENT = "vibe"
ACCEPT = "text/html, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8, */*;q=0.1"
"""The content types that are asked for, text before others."""


class NetworkAccess(Protocol):
    """Resolves names to addresses, and connects to addresses."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return all IP addresses of a host.

        Raises:
            OSError: it has none.
        """
        ...

    async def connect(self, address: str, port: int) -> Any:
        """Open a connection, an ``httpcore.AsyncNetworkStream``.

        Raises:
            OSError, httpcore.NetworkError, httpcore.TimeoutException: the address can't be reached.
        """
        ...


class SystemNetwork:
    """The machine's own resolver, sockets and certificates."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses from the system's resolver."""
        found = await anyio.getaddrinfo(host, None, type=SOCK_STREAM)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def connect(self, address: str, port: int) -> Any:
        """Connect to exactly this address."""
        import httpcore

        backend: Any = httpcore.AnyIOBackend()
        return await backend.connect_tcp(address, port, timeout=CONNECT_SECONDS)


class Response(Struct, frozen=True, kw_only=True):
    """A server's answer. If it redirects to another site, ``elsewhere`` is that site and there is no body."""

    url: WebUrl
    status: int
    content_type: str = ""
    body: bytes = b""
    cut: bool = False
    elsewhere: WebUrl | None = None


async def fetch(url: WebUrl, network: NetworkAccess, *, max_bytes: int) -> Response:
    """Fetch at most ``max_bytes`` of a page. Redirects are followed within one host only.

    Raises:
        ToolError: an address on the way is not public, or there is no answer in HTTP.
    """
    import httpcore

    pool = httpcore.AsyncConnectionPool(
        ssl_context=system_tls(), network_backend=_checked_backend(network), max_connections=1
    )
    async with pool:
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = await _get(pool, url, max_bytes)
            except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
                advice = trust_advice(str(error)) or "check the address"
                raise ToolError(f"{url} can't be reached ({error or type(error).__name__}); {advice}") from error
            except httpcore.ProtocolError as error:
                raise ToolError(f"{url} did not answer as a web server does ({error})") from error
            following = response.elsewhere
            if following is None or following.host != url.host or following.scheme == "http" != url.scheme:
                return response
            url = following
    raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times; giving up")


async def _get(pool: Any, url: WebUrl, max_bytes: int) -> Response:
    host = str(url).split("/", 3)[2]
    headers = {"Host": host, "User-Agent": USER_AGENT, "Accept": ACCEPT, "Accept-Encoding": "identity"}
    async with pool.stream("GET", str(url), headers=headers) as answer:
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        location = received.get("location")
        if answer.status in REDIRECTS and location:
            return Response(url=url, status=answer.status, elsewhere=parse_url(urljoin(str(url), location.strip())))
        body, cut = await _body(answer, url, received, max_bytes)
        return Response(
            url=url, status=answer.status, content_type=received.get("content-type", ""), body=body, cut=cut
        )


async def _body(answer: Any, url: WebUrl, headers: Mapping[str, str], max_bytes: int) -> tuple[bytes, bool]:
    """Return the decompressed body, and whether it was cut. Reading stops at ``max_bytes``."""
    unpack = _unpacker(headers.get("content-encoding", ""), url)
    body = b""
    async for chunk in answer.aiter_stream():
        with error_as(zlib.error, lambda error: ToolError(f"{url} sent a body that can't be unpacked ({error})")):
            body += chunk if unpack is None else unpack.decompress(chunk, max_bytes + 1 - len(body))
        if len(body) > max_bytes:
            return body[:max_bytes], True
    return body, False


def _unpacker(encoding: str, url: WebUrl) -> Any:
    word = encoding.strip().lower()
    if word in {"", "identity"}:
        return None
    if word in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise ToolError(f"{url} sent a body packed with {word[:40]!r}, which was not asked for")


def _checked_backend(network: NetworkAccess) -> Any:
    """Return the network backend for httpcore's connections."""
    import httpcore

    class CheckedBackend(httpcore.AsyncNetworkBackend):
        """Resolves a host, refuses it if any of its addresses is not public, and connects to one it has checked."""

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
    """Return the addresses of a host.

    Raises:
        ToolError: one of them is not public.
        OSError: it has none.
    """
    addresses = [host] if refusal(host) != "is not an IP address" else await network.resolve(host)
    if not addresses:
        raise OSError(f"{host} has no address")
    for address in addresses:
        why = refusal(address)
        if why is not None:
            leads = host if address == host else f"{host}, which leads to {address}: that"
            raise _refused(leads, f"{why}; only public pages are fetched")
    return addresses


TEXT_TYPES = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-ndjson|x-yaml|x-sh|sql|graphql)"
)
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_BYTES = 2_048
"""The number of bytes at the start of a page that are searched for its charset."""
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "nav")


def media_type(content_type: str) -> str:
    """Return the media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def decode(content_type: str, body: bytes) -> str:
    """Decode the body by its byte order mark, else by the charset of the header, else of the page, else as UTF-8."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body.decode(encoding, errors="replace")
    named = _CHARSET.search(content_type)
    if named is None and media_type(content_type) in {*HTML_TYPES, ""}:
        named = _CHARSET.search(body[:_META_BYTES].decode("latin-1"))
    return body.decode(_known_encoding(named[1] if named else ""), errors="replace")


def to_markdown(html: str, url: str) -> str:
    """Return a page as Markdown with absolute links, without the parts that nobody reads.

    Blocks: run it in a thread.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    # The first line keeps the parser from guessing that a short text is a file name or XML.
    soup = BeautifulSoup(f"<!DOCTYPE html>\n{html}", "html.parser")
    for element in soup(_DROPPED):
        element.decompose()
    for link in soup("a"):
        _absolute(link, url)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    try:
        text = str(MarkdownConverter(heading_style="ATX", strip=["img", "title"]).convert_soup(soup.body or soup))
    except RecursionError:  # The page is nested too deeply, perhaps on purpose.
        text = soup.get_text("\n")
    text = _BLANK_LINES.sub("\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and f"# {title}" not in text[: len(title) + 200] else text


def _absolute(link: Any, url: str) -> None:
    target = link.get("href", "")
    if target.startswith(("javascript:", "data:", "#")):
        del link["href"]
    elif target:
        try:
            link["href"] = urljoin(url, target)
        except ValueError:  # For example http://[
            del link["href"]


def _known_encoding(name: str) -> str:
    """Return the text codec of that name, or UTF-8 if there is none."""
    try:
        found = codecs.lookup(name or "utf-8")
    except (LookupError, ValueError):
        return "utf-8"
    return found.name if getattr(found, "_is_text_encoding", True) else "utf-8"


SUMMARY_LENGTH = 200
"""The most characters of a URL in a call's summary."""


class WebFetchArgs(ToolArgs):
    """The page, and the most seconds it may take."""

    url: Annotated[str, Field(min_length=1, max_length=4_000)]
    timeout: Annotated[int | None, Field(ge=1, description="seconds")] = None


class WebFetchResult(BaseModel):
    """The page as text. ``redirected_to`` is set if the server redirects to another site, which is not followed."""

    url: str
    status: int
    content_type: str = ""
    text: str = ""
    was_truncated: bool = False
    redirected_to: str | None = None


class WebFetchConfig(BaseToolConfig):
    """Limits. ``allowlist`` and ``denylist`` are globs over host names.

    Denying a domain also denies its subdomains.
    """

    max_bytes: Annotated[int, Field(ge=1_000, le=5_000_000)] = 120_000
    default_timeout: Annotated[int, Field(ge=1)] = 30
    max_timeout: Annotated[int, Field(ge=1)] = 120


class WebFetch(BaseTool[WebFetchArgs, WebFetchResult, WebFetchConfig, BaseToolState]):
    """Fetches web pages through ``network``, or through the machine's own network by default."""

    description: ClassVar[str] = "Fetch a public web page (http or https) as text; HTML comes as Markdown."
    read_only: ClassVar[bool] = True
    uses_network: ClassVar[bool] = True

    def __init__(self, config: WebFetchConfig, state: BaseToolState, network: NetworkAccess | None = None) -> None:
        super().__init__(config, state)
        self._network = network or SystemNetwork()

    async def run(self, args: WebFetchArgs, ctx: InvokeContext) -> WebFetchResult:  # noqa: ARG002  the interface
        """Fetch the page.

        Raises:
            ToolError: the URL or a redirect is not public, or there is no answer in time, or the answer is not text.
        """
        url = parse_url(args.url)
        seconds = min(args.timeout or self.config.default_timeout, self.config.max_timeout)
        try:
            with anyio.fail_after(seconds):
                response = await fetch(url, self._network, max_bytes=self.config.max_bytes)
        except TimeoutError:
            raise ToolError(f"{url} took longer than {seconds} s; give a larger timeout, or go on without it") from None
        return await _as_result(response)

    def assess(self, args: WebFetchArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the host with the lists. A lasting approval covers the other pages of the host."""
        host = parse_url(args.url).host
        denied = [glob for name in map(str.lower, self.config.denylist) for glob in (name, f"*.{name}")]
        by_lists = match_lists([host], list(map(str.lower, self.config.allowlist)), denied)
        return Assessment(listed=by_lists, reason=f"it reaches {host}", covers=(host,))

    def summarize(self, args: WebFetchArgs) -> str:
        """Return the call with its URL: ``web_fetch https://example.com/page``."""
        return f"web_fetch {shortened(args.url, SUMMARY_LENGTH)}"

    def format_result(self, result: WebFetchResult) -> str:
        """Return the text, or where it redirects, and a note if it was cut."""
        if result.redirected_to:
            return f"{result.url} redirects to another site: {result.redirected_to}\nFetch that address if you want it."
        note = f"\n[only the first {self.config.max_bytes} bytes of the page]" if result.was_truncated else ""
        return (result.text or "[the page is empty]") + note


async def _as_result(response: Response) -> WebFetchResult:
    url = response.url
    if response.elsewhere is not None:
        return WebFetchResult(url=str(url), status=response.status, redirected_to=str(response.elsewhere))
    if response.status >= 400:
        raise ToolError(f"{url} answered with status {response.status}; check the address")
    kind = media_type(response.content_type)
    if not TEXT_TYPES.fullmatch(kind) if kind else b"\0" in response.body:
        raise ToolError(f"{url} is {kind or 'binary'}, not text; it can't be shown")
    text = await anyio.to_thread.run_sync(_text, response, url)
    return WebFetchResult(
        url=str(url), status=response.status, content_type=kind, text=text, was_truncated=response.cut
    )


def _text(response: Response, url: WebUrl) -> str:
    text = decode(response.content_type, response.body)
    kind = media_type(response.content_type)
    if kind in HTML_TYPES or (not kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))):
        return to_markdown(text, str(url))
    return text
