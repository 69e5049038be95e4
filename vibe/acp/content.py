"""Converts an editor's prompts, with images and embedded context, and its folders and MCP servers into our terms."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema
from acp.helpers import ContentBlock
from msgspec import Struct

from vibe.app.conversation.mentions import LINES
from vibe.app.conversation.opening import named_folder
from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.messages import Image
from vibe.core.told_files import with_files
from vibe.core.tools.files.images import attachable
from vibe.system.errors import UsageError

GivenServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
"""An MCP server as an editor gives it."""
EMBEDDED_CHARS = 400_000
"""The most characters of an embedded resource."""


class GivenPrompt(Struct, frozen=True, kw_only=True):
    """A prompt from an editor.

    ``text`` contains what was typed and, below it, what is embedded; ``typed`` only the former.
    """

    text: str
    typed: str
    images: tuple[Image, ...] = ()


def prompt_of(blocks: Sequence[ContentBlock], root: Path) -> GivenPrompt:
    """Return a prompt as the agent expects it.

    Raises:
        UsageError: it is empty, or contains something that models don't accept.
    """
    typed: list[str] = []
    embedded: list[tuple[str, str]] = []
    images: list[Image] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                typed.append(block.text)
            case schema.ResourceContentBlock():
                typed.append(_link(block, root))
            case schema.EmbeddedResourceContentBlock():
                typed.append(f"`{_path_of(block.resource.uri, root) or block.resource.uri}`")
                embedded.append(_embedded(block.resource, root))
            case schema.ImageContentBlock():
                images.append(_image(block))
            case schema.AudioContentBlock():
                raise UsageError("a prompt holds audio, which vibe does not take: write it out")
    words = "".join(typed).strip()
    if not words and not images and not embedded:
        raise UsageError("the prompt is empty: say what is to be done")
    return GivenPrompt(text=with_files(words or "(see below)", embedded), typed=words, images=tuple(images))


def folder_of(given: str, name: str) -> Path:
    """Return the folder that an editor names. Reads the file system.

    Raises:
        UsageError: it is not absolute, or not a folder.
    """
    return named_folder(given, f"{name} {given[:200]!r}")


def server_of(given: GivenServer) -> McpServerConfig:
    """Return the settings of an MCP server.

    Raises:
        UsageError: it is of a kind that vibe does not support.
    """
    match given:
        case schema.McpServerStdio():
            env = {one.name: one.value for one in given.env}
            return McpServerConfig(
                name=given.name, transport=McpTransport.STDIO, command=(given.command,), args=tuple(given.args), env=env
            )
        case schema.HttpMcpServer():
            headers = {one.name: one.value for one in given.headers}
            return McpServerConfig(name=given.name, transport=McpTransport.HTTP, url=given.url, headers=headers)
        case _:
            raise UsageError(f"MCP server {given.name!r} can't be used: vibe speaks to servers by stdio and http")


def _path_of(uri: str, root: Path) -> str:
    """Return the file, relative to ``root``, and the lines that an address names, or nothing if it names none."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # It is not an address at all.
        return ""
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or "\0" in str(path):
        return ""
    lines = f"#{parts.fragment}" if LINES.fullmatch(f"#{parts.fragment}") else ""
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}{lines}"


def _link(block: schema.ResourceContentBlock, root: Path) -> str:
    """Return a link to a file as a mention that the conversation reads, and any other link as text."""
    path = _path_of(block.uri, root)
    if not path:
        return f"{block.title or block.name} ({block.uri})"
    return f'@"{path}"' if '"' not in path and "\n" not in path else f"`{path}`"


def _embedded(resource: schema.TextResourceContents | schema.BlobResourceContents, root: Path) -> tuple[str, str]:
    """Return the name of a resource and its text."""
    name = (_path_of(resource.uri, root) or resource.uri).replace('"', "'")
    if isinstance(resource, schema.BlobResourceContents):
        return name, f"[not text: {resource.mime_type or 'unknown data'}]"
    note = "\n[cut here]" if len(resource.text) > EMBEDDED_CHARS else ""
    return name, f"{resource.text[:EMBEDDED_CHARS]}{note}"


def _image(block: schema.ImageContentBlock) -> Image:
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError("a picture of the prompt is not base64: attach it again") from error
    return attachable(data, "picture")
