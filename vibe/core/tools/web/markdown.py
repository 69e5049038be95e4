"""The text of a page for a model: decoded, and HTML as Markdown."""

from __future__ import annotations

import codecs
import re
from typing import Any
from urllib.parse import urljoin

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
