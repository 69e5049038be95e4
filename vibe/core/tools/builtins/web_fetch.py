"""web_fetch: one public page over http(s), as text."""

from __future__ import annotations

import codecs
import re
from typing import Annotated, Any, ClassVar
from urllib.parse import urljoin

from anyio import fail_after, to_thread
from pydantic import BaseModel, Field

from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolArgs, ToolError
from vibe.core.tools.permissions import Assessment, listed
from vibe.core.tools.web_client import NetworkAccess, Response, SystemNetwork, WebUrl, fetch, parse_url
from vibe.core.tools.workspace import Workspace
from vibe.system.plain_text import shortened

TEXT_TYPES = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-ndjson|x-yaml|x-sh|sql|graphql)"
)
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_BYTES = 2_048
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "nav")


def media_type(content_type: str) -> str:
    """The type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_text(content_type: str, body: bytes) -> bool:
    """Return whether a body can be read as text; without a type, a NUL byte says no."""
    kind = media_type(content_type)
    return bool(TEXT_TYPES.fullmatch(kind)) if kind else b"\0" not in body


def decode(content_type: str, body: bytes) -> str:
    """The body as text: by its byte order mark, else what the header says, else what the page says, else UTF-8."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body.decode(encoding, errors="replace")
    named = _CHARSET.search(content_type)
    if named is None and media_type(content_type) in {*HTML_TYPES, ""}:
        named = _CHARSET.search(body[:_META_BYTES].decode("latin-1"))
    return body.decode(_known_encoding(named[1] if named else ""), errors="replace")


def to_markdown(html: str, url: str) -> str:
    """A page as Markdown, without what is not read; links are absolute. Blocks: run it in a thread."""
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
    except RecursionError:  # nested on purpose
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
        except ValueError:  # such as http://[
            del link["href"]


def _known_encoding(name: str) -> str:
    """A text codec of that name, else UTF-8."""
    try:
        found = codecs.lookup(name or "utf-8")
    except (LookupError, ValueError):
        return "utf-8"
    return found.name if getattr(found, "_is_text_encoding", True) else "utf-8"


SUMMARY_LENGTH = 200


class WebFetchArgs(ToolArgs):
    """Which page, and how many seconds it may take."""

    url: Annotated[str, Field(min_length=1, max_length=4_000)]
    timeout: Annotated[int | None, Field(ge=1, description="seconds")] = None


class WebFetchResult(BaseModel):
    """The page as text; ``redirected_to`` is set where the server sends to another site, which is not followed."""

    url: str
    status: int
    content_type: str = ""
    text: str = ""
    was_truncated: bool = False
    redirected_to: str | None = None


class WebFetchConfig(BaseToolConfig):
    """Limits. ``allowlist`` and ``denylist`` are globs over host names.

    A denied domain takes its subdomains with it.
    """

    max_bytes: Annotated[int, Field(ge=1_000, le=5_000_000)] = 120_000
    default_timeout: Annotated[int, Field(ge=1)] = 30
    max_timeout: Annotated[int, Field(ge=1)] = 120


class WebFetch(BaseTool[WebFetchArgs, WebFetchResult, WebFetchConfig, BaseToolState]):
    """Fetches pages. ``network`` is how; unless given, the machine's own."""

    description: ClassVar[str] = "Fetch a public web page (http or https) as text; HTML comes as Markdown."
    read_only: ClassVar[bool] = True
    uses_network: ClassVar[bool] = True

    def __init__(self, config: WebFetchConfig, state: BaseToolState, network: NetworkAccess | None = None) -> None:
        super().__init__(config, state)
        self._network = network or SystemNetwork()

    async def run(self, args: WebFetchArgs, ctx: InvokeContext) -> WebFetchResult:  # noqa: ARG002  the interface
        """Get it.

        Raises:
            ToolError: the URL, or where it leads, is not public, it gives no answer in time, or none that is text.
        """
        url = parse_url(args.url)
        seconds = min(args.timeout or self.config.default_timeout, self.config.max_timeout)
        try:
            with fail_after(seconds):
                response = await fetch(url, self._network, max_bytes=self.config.max_bytes)
        except TimeoutError:
            raise ToolError(f"{url} took longer than {seconds} s; give a larger timeout, or go on without it") from None
        return await _as_result(response)

    def assess(self, args: WebFetchArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the host with the lists; a lasting yes covers the other pages of the domain."""
        host = parse_url(args.url).host
        denied = [glob for name in map(str.lower, self.config.denylist) for glob in (name, f"*.{name}")]
        by_lists = listed([host], list(map(str.lower, self.config.allowlist)), denied)
        return Assessment(listed=by_lists, reason=f"it reaches {host}", covers=(host,))

    def summarize(self, args: WebFetchArgs) -> str:
        """``web_fetch https://example.com/page``."""
        return f"web_fetch {shortened(args.url, SUMMARY_LENGTH)}"

    def format_result(self, result: WebFetchResult) -> str:
        """The text, and what is to be known about it."""
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
    if not is_text(kind, response.body):
        raise ToolError(f"{url} is {kind or 'binary'}, not text; it can't be shown")
    return WebFetchResult(
        url=str(url),
        status=response.status,
        content_type=kind,
        text=await to_thread.run_sync(_text, response, url),
        was_truncated=response.cut,
    )


def _text(response: Response, url: WebUrl) -> str:
    text = decode(response.content_type, response.body)
    kind = media_type(response.content_type)
    if kind in HTML_TYPES or (not kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))):
        return to_markdown(text, str(url))
    return text
