"""A server's answer, as a model can read it: text stays, data goes into files."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field

from vibe.core.tools.files.images import MAX_IMAGE_BYTES, image_type
from vibe.core.tools.mcp.sieve import table_of
from vibe.core.tools.outputs import keep_file

if TYPE_CHECKING:
    from mcp.types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ReadResourceResult,
        TextResourceContents,
    )


class MCPToolResult(BaseModel):
    """The answer to a call. ``text`` is what the model reads; ``structured`` what the server gave as data."""

    ok: bool
    server: str
    tool: str
    text: str
    structured: Any = None
    pictures: tuple[tuple[str, str], ...] = Field(default=(), exclude=True)
    """Media type and base64 of what a model that sees images is shown."""


MOST_PICTURES = 10
"""The most pictures of one answer that are shown."""


class ResultReader:
    """Reads the answers to one call; data in them is saved below ``folder`` (None: it is not kept).

    ``sees_images``: its pictures are shown, too.
    """

    def __init__(self, server: str, tool: str, call_id: str, folder: Path | None, *, sees_images: bool = False) -> None:
        self._server = server
        self._tool = tool
        self._call_id = call_id
        self._folder = folder
        self._room = MOST_PICTURES if sees_images else 0
        self._pictures: list[tuple[str, str]] = []

    async def read(self, answer: CallToolResult) -> MCPToolResult:
        """The whole answer, in the order the server gave it."""
        parts = [await self._part(block) for block in answer.content]
        structured = answer.structured_content
        if structured is not None and not _is_told(structured, parts):
            parts.append(json.dumps(structured, ensure_ascii=False, default=str))
        return self._result(parts, ok=not answer.is_error, structured=structured)

    async def read_resource(self, answer: ReadResourceResult) -> MCPToolResult:
        """The contents of a resource; of one that is not text, where they are kept."""
        several = len(answer.contents) > 1
        parts = [await self._resource(contents, named=several) for contents in answer.contents]
        return self._result(parts, ok=True)

    def _result(self, parts: list[str], *, ok: bool, structured: Any = None) -> MCPToolResult:
        text, pictures = "\n".join(part for part in parts if part), tuple(self._pictures)
        return MCPToolResult(
            ok=ok, server=self._server, tool=self._tool, text=text, structured=structured, pictures=pictures
        )

    async def _part(self, block: ContentBlock) -> str:
        match block.type:
            case "text":
                return block.text
            case "image" | "audio":
                return await self._data(block.type, block.data, block.mime_type)
            case "resource_link":
                about = "; ".join(filter(None, (block.title or block.name, block.mime_type, block.description)))
                return f"[link to {block.uri}: {about}]"
            case "resource":
                return await self._resource(block.resource, named=True)

    async def _resource(self, resource: TextResourceContents | BlobResourceContents, *, named: bool) -> str:
        text = getattr(resource, "text", None)
        if isinstance(text, str):
            return f"[resource {resource.uri}]\n{text}" if named else text
        blob = str(getattr(resource, "blob", ""))
        return await self._data(f"resource {resource.uri}", blob, resource.mime_type or "unknown type")

    async def _data(self, what: str, encoded: str, mime_type: str) -> str:
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return f"[{what}, {mime_type}: its data is not valid base64]"
        kind = image_type(data)
        if kind and len(self._pictures) < self._room and len(data) <= MAX_IMAGE_BYTES:
            self._pictures.append((kind, base64.b64encode(data).decode("ascii")))
        return f"[{what}, {mime_type}, {len(data)} bytes; {await self._keep(data, mime_type)}]"

    async def _keep(self, data: bytes, mime_type: str) -> str:
        if self._folder is None:
            return "not kept"
        suffix = mimetypes.guess_extension(mime_type.partition(";")[0].strip()) or ".bin"
        try:
            path = await keep_file(data, self._call_id, self._folder, suffix)
        except OSError as error:
            return f"it could not be saved ({error.strerror})"
        return f"saved as {path}"


def _is_told(structured: Any, texts: list[str]) -> bool:
    """Return True if the texts say the structured answer: it, its only value, or each entry of that."""
    values = list(table_of(structured).values())
    only: Any = values[0] if len(values) == 1 else structured
    entries = _entries(only)
    return (
        only is None
        or any(_says(text, value) for text in texts for value in (structured, only))
        or (0 < len(texts) == len(entries) and all(map(_says, texts, entries)))
    )


def _entries(value: Any) -> list[Any]:
    """The entries of a list and of those in it; of all else, it alone."""
    return (
        [inner for entry in cast("list[Any]", value) for inner in _entries(entry)]
        if isinstance(value, list)
        else [value]
    )


def _says(text: str, value: Any) -> bool:
    try:
        return text == value or json.loads(text) == value
    except ValueError:
        return False
