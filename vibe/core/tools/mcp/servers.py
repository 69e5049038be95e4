"""McpServers: starts and closes all configured servers concurrently, and offers their tools."""

from __future__ import annotations

import base64
import binascii
import json
import math
import mimetypes
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from anyio import current_time, move_on_after
from msgspec.structs import replace
from pydantic import BaseModel, Field, RootModel

from vibe.core.config.models import McpServerConfig
from vibe.core.messages import Image
from vibe.core.schemas import table_of
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolClass, ToolStreamLine
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.images import MAX_IMAGE_BYTES, image_type
from vibe.core.tools.mcp.connection import ServerConnection, ServerPlace, ServerState, ServerStatus
from vibe.core.tools.mcp.remote import RemotePrompt, RemoteTool, proxy_names
from vibe.core.tools.outputs import keep_file
from vibe.core.tools.permissions import Assessment, match_lists
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import EnvironmentFailure
from vibe.system.plain_text import plain, plain_line, shortened
from vibe.system.racing import bare_task_group

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import BlobResourceContents, CallToolResult, ContentBlock, ReadResourceResult, TextResourceContents


class MCPToolResult(BaseModel):
    """The answer to a call. The model reads ``text``."""

    ok: bool
    text: str
    pictures: tuple[tuple[str, str], ...] = Field(default=(), exclude=True)
    """The media type and base64 data of each image for a model that accepts images."""


MOST_IMAGES = 10
"""The most images of one answer that are shown."""


class ResultReader:
    """Reads the answers to one call.

    Binary data is saved below ``folder``, or dropped if that is None. If ``sees_images``, images are shown, too.
    """

    def __init__(self, call_id: str, folder: Path | None, *, sees_images: bool = False) -> None:
        self._call_id = call_id
        self._folder = folder
        self._room = MOST_IMAGES if sees_images else 0
        self._pictures: list[tuple[str, str]] = []

    async def read(self, answer: CallToolResult) -> MCPToolResult:
        """Return the whole answer, in the order the server gave it."""
        parts = [await self._part(block) for block in answer.content]
        structured = answer.structured_content
        if structured is not None and not _is_in_texts(structured, parts):
            parts.append(json.dumps(structured, ensure_ascii=False, default=str))
        return self._result(parts, ok=not answer.is_error)

    async def read_resource(self, answer: ReadResourceResult) -> MCPToolResult:
        """Return the contents of a resource. For one that is not text, say where it is saved."""
        several = len(answer.contents) > 1
        return self._result([await self._resource(contents, named=several) for contents in answer.contents])

    def _result(self, parts: list[str], *, ok: bool = True) -> MCPToolResult:
        return MCPToolResult(ok=ok, text="\n".join(filter(None, parts)), pictures=tuple(self._pictures))

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
        suffix = mimetypes.guess_extension(mime_type.partition(";")[0].strip()) or ".bin"
        kept = await keep_file(data, self._call_id, self._folder, suffix)
        return f"[{what}, {mime_type}, {len(data)} bytes; it {kept}]"


def _is_in_texts(structured: Any, texts: list[str]) -> bool:
    """Return whether the texts contain the structured answer: all of it, its only value, or each entry of that."""
    values = list(table_of(structured).values())
    only: Any = values[0] if len(values) == 1 else structured
    entries = _entries(only)
    return (
        only is None
        or any(_means(text, value) for text in texts for value in (structured, only))
        or (0 < len(texts) == len(entries) and all(map(_means, texts, entries)))
    )


def _entries(value: Any) -> list[Any]:
    """Return the entries of a list and of the lists inside it. Anything else is returned as the only entry."""
    if not isinstance(value, list):
        return [value]
    return [inner for entry in cast("list[Any]", value) for inner in _entries(entry)]


def _means(text: str, value: Any) -> bool:
    try:
        return text == value or json.loads(text) == value
    except (ValueError, RecursionError):
        return False


MOST_PROGRESS = 1_000
"""The most progress notes of one call that are shown."""
PROGRESS_LENGTH = 200
"""The most characters of a progress note."""
PROGRESS_INTERVAL_SECONDS = 0.25
"""Seconds between two progress notes. Those that come sooner are dropped, except for the last one of all."""


class McpArguments(RootModel[dict[str, Any]]):
    """The arguments as the model gave them. The server validates them, because it knows its own schema best."""


def progress_to(show: Callable[[str], None]) -> ProgressFnT:
    """Return a function that receives the progress of a call, and shows as much of it as can be read."""
    shown, shown_at = 0, -math.inf

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown, shown_at
        now, is_last = current_time(), total is not None and progress >= total
        if shown < MOST_PROGRESS and (is_last or now >= shown_at + PROGRESS_INTERVAL_SECONDS):
            shown, shown_at = shown + 1, now
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            show(shortened(f"{share} {plain_line(message or '')}".rstrip(), PROGRESS_LENGTH))

    return tell


class McpTool(BaseTool[McpArguments, MCPToolResult, BaseToolConfig, BaseToolState]):
    """The base of all proxies. ``proxy_class`` derives a class for each remote tool."""

    uses_network = True  # A server may do anything, so agents that may only look don't get its tools.

    proxy_name: ClassVar[str]
    remote: ClassVar[RemoteTool]
    server: ClassVar[ServerConnection]

    async def execute(
        self, args: McpArguments, ctx: InvokeContext, show: Callable[[ToolStreamLine], None]
    ) -> MCPToolResult:
        """Call the remote tool, and pass its progress to ``show``. Raises as ``run`` does."""
        name, call_id = self.proxy_name, ctx.tool_call_id
        on_progress = progress_to(lambda note: show(ToolStreamLine(tool_name=name, message=note, tool_call_id=call_id)))
        return await self.run(args, ctx, on_progress)

    async def run(
        self, args: McpArguments, ctx: InvokeContext, on_progress: ProgressFnT | None = None
    ) -> MCPToolResult:
        """Call the remote tool, or read or list resources.

        Raises:
            ToolError: the server says that it failed, or there is no answer, or no such resource.
        """
        server, ask, uri = self.server, ctx.user_input_callback, args.root.get("uri")
        reader = ResultReader(ctx.tool_call_id, ctx.output_dir, sees_images=ctx.sees_images)
        if not self.remote.reads_resources:
            result = await reader.read(await server.call(self.remote, args.root, on_progress, ask))
        elif uri is not None and not isinstance(uri, str):
            raise ToolError("uri must be the address of a resource, as text")
        elif uri:
            result = await reader.read_resource(await server.read_resource(uri, ask))
        else:
            result = MCPToolResult(ok=True, text="\n".join(await server.list_resources()) or "there are no resources")
        if not result.ok:
            raise ToolError(result.text or f"{self.proxy_name} failed, and its server does not say why")
        return result

    def images(self, result: MCPToolResult) -> tuple[Image, ...]:
        """Return the images of the answer."""
        return tuple(Image(*picture) for picture in result.pictures)

    @classmethod
    def get_name(cls) -> str:
        """Return ``server_tool``."""
        return cls.proxy_name

    @classmethod
    def get_description(cls) -> str:
        """Return the server's own description."""
        return cls.remote.description or f"{cls.remote.name} of the MCP server {cls.server.name}"

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """Return the server's own schema."""
        return json.loads(cls.remote.schema)

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """Return the usage hint that the configuration has for the server."""
        return cls.server.config.prompt or None

    def assess(self, args: McpArguments, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the text arguments with the lists, as for any tool."""
        texts = (value for value in args.root.values() if isinstance(value, str))
        return Assessment(listed=match_lists(texts, self.config.allowlist, self.config.denylist))

    def summarize(self, args: McpArguments) -> str:
        """Return the call with its arguments, on one line."""
        return self.named(json.dumps(args.root, ensure_ascii=False, default=str))

    def format_result(self, result: MCPToolResult) -> str:
        """Return the answer's text."""
        return result.text or "(no content)"


def proxy_class(name: str, remote: RemoteTool, server: ServerConnection) -> ToolClass:
    """Return a tool class called ``name`` that stands for ``remote``."""
    members = {
        "__doc__": remote.description,
        "__module__": __name__,
        "proxy_name": name,
        "remote": remote,
        "server": server,
        "read_only": remote.read_only,
    }
    return type(name, (McpTool,), members)


NOTE_LENGTH = 4_000
"""The most characters of a server's own instructions in the system prompt."""
CLOSE_SECONDS = 6.0
"""The most seconds in which all servers together may end. One that still runs afterwards is killed with its session."""


class McpServers:
    """The servers of one process. Disabled ones are not started. No server may use the tool names in ``taken``."""

    def __init__(self, configs: Iterable[McpServerConfig], place: ServerPlace, taken: Iterable[str] = ()) -> None:
        self._connections = tuple(ServerConnection(config, place) for config in configs)
        self._taken = frozenset(taken)
        self._classes: dict[tuple[str, RemoteTool, str], ToolClass] = {}

    @asynccontextmanager
    async def running(self, on_change: Callable[[], Awaitable[None]] | None = None) -> AsyncGenerator[McpServers]:
        """Start all servers without waiting for them, and end them with the block.

        ``on_change`` is awaited when a server is ready for the first time, and when its tools have changed.
        """
        async with bare_task_group() as group:
            for connection in self._connections:
                connection.on_change = on_change
                group.start_soon(connection.run)
            try:
                yield self
            finally:
                await self._close()
                group.cancel_scope.cancel()

    async def wait_ready(self, *, strict: bool = True) -> None:
        """Wait until each server is ready or has failed, at most as long as the slowest may take to start.

        Raises:
            EnvironmentFailure: a required server has failed, and ``strict`` is set.
        """
        for connection in self._connections:
            await connection.wait_ready()
        for connection in self._connections:
            if strict and connection.config.required and connection.state.status is ServerStatus.FAILED:
                raise EnvironmentFailure(f"MCP server {connection.name!r} is required: {connection.state.problem}")

    def states(self) -> tuple[ServerState, ...]:
        """Return the state of each server, in the order of the configuration."""
        names = self._names()
        return tuple(
            replace(connection.state, tools=tuple(names[connection.name, tool.name] for tool in connection.tools))
            for connection in self._connections
        )

    def prompts(self) -> tuple[tuple[str, RemotePrompt], ...]:
        """Return the prompts of the servers that are ready, each with its server's name."""
        return tuple(
            (connection.name, prompt)
            for connection in self._connections
            for prompt in connection.prompts
            if connection.state.status is ServerStatus.READY
        )

    def notes(self) -> tuple[str, ...]:
        """Return the usage instructions of the servers that are ready, for a system prompt."""
        return tuple(
            f"# The MCP server {connection.name}\n\nIt says of itself:\n{shortened(plain(instructions), NOTE_LENGTH)}"
            for connection in self._connections
            if connection.state.status is ServerStatus.READY and (instructions := connection.instructions.strip())
        )

    async def prompt_text(self, server: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text of one of a server's prompts.

        Raises:
            ServerCallError: there is no session, or no answer.
        """
        connection = next(one for one in self._connections if one.name == server)
        return await connection.prompt_text(prompt, arguments)

    def tool_classes(self) -> tuple[ToolClass, ...]:
        """Return the tools of the servers that have listed some. The class stays the same as long as its tool does."""
        names = self._names()
        classes: dict[tuple[str, RemoteTool, str], ToolClass] = {}
        for connection in self._connections:
            for tool in connection.tools:
                name = names[connection.name, tool.name]
                key = (connection.name, tool, name)
                classes[key] = self._classes.get(key) or proxy_class(name, tool, connection)
        self._classes = classes
        return tuple(classes.values())

    def _names(self) -> dict[tuple[str, str], str]:
        listed = ((one.name, tool.name) for one in self._connections for tool in one.tools)
        return proxy_names(listed, self._taken)

    async def _close(self) -> None:
        for connection in self._connections:
            connection.close()
        with move_on_after(CLOSE_SECONDS, shield=True):
            for connection in self._connections:
                await connection.finished.wait()
