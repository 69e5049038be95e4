"""McpServers: every configured server, started side by side, closed side by side, and the tools they offer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from anyio import create_task_group, move_on_after
from anyio.abc import TaskGroup

from vibe.core.config.models import McpServerConfig
from vibe.core.tools.loading import ToolClass
from vibe.core.tools.mcp.connection import ServerConnection, ServerPlace, ServerStatus
from vibe.core.tools.mcp.errors import RequiredServerError, ServerCallError
from vibe.core.tools.mcp.proxy import RunningCall, proxy_class
from vibe.core.tools.mcp.remote import RemotePrompt, RemoteTool, proxy_names
from vibe.system.plain_text import plain, shortened

NOTE_LENGTH = 4_000
CLOSE_SECONDS = 6.0
"""The time all servers together may take to end; one that still runs then is killed with its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of one server. ``tools`` are the names its tools are offered under, ``problem`` says why it failed.

    ``unusable`` are tools it lists that can't be offered, each with the reason; ``origin`` says where it is configured,
    if that was asked.
    """

    name: str
    transport: str
    status: ServerStatus
    tools: tuple[str, ...] = ()
    resources: int = 0
    problem: str = ""
    unusable: tuple[str, ...] = ()
    required: bool = False
    origin: str = ""


class McpServers:
    """The servers of one process. ``taken`` are tool names that no server may use."""

    def __init__(self, configs: Iterable[McpServerConfig], place: ServerPlace, taken: Iterable[str] = ()) -> None:
        self._connections = tuple(ServerConnection(config, place) for config in configs if config.in_use)
        self._taken = frozenset(taken)
        self._group: TaskGroup | None = None
        self._classes: dict[tuple[str, RemoteTool, str], ToolClass] = {}

    @asynccontextmanager
    async def running(self, on_change: Callable[[], Awaitable[None]] | None = None) -> AsyncGenerator[McpServers]:
        """Start them all, without waiting; they are gone when the block ends.

        ``on_change`` is awaited when a server's tools have become others.
        """
        try:
            async with create_task_group() as group:
                self._group = group
                for connection in self._connections:
                    connection.on_change = on_change
                    group.start_soon(connection.run)
                try:
                    yield self
                finally:
                    await self._close()
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            # What the block itself raised: connections raise nothing.
            raise errors.exceptions[0] from None

    async def wait_ready(self, *, strict: bool = True) -> None:
        """Wait until each server is ready or has failed: as long as the slowest may take to start.

        Raises:
            RequiredServerError: one that has failed is required, and ``strict`` is set.
        """
        for connection in self._connections:
            await connection.wait_ready()
        for connection in self._connections:
            if strict and connection.config.required and connection.status is ServerStatus.FAILED:
                raise RequiredServerError(connection.name, connection.problem)

    def states(self) -> tuple[ServerState, ...]:
        """Return how each stands, in the order they are configured."""
        names = self._names()
        return tuple(
            ServerState(
                name=connection.name,
                transport=connection.config.transport.value,
                status=connection.status,
                tools=tuple(names[connection.name, tool.name] for tool in connection.tools),
                resources=connection.resources,
                problem=connection.problem,
                unusable=connection.unusable,
                required=connection.config.required,
            )
            for connection in self._connections
        )

    def prompts(self) -> tuple[tuple[str, RemotePrompt], ...]:
        """Return the prompts of the servers that are there, each with its server's name."""
        return tuple(
            (connection.name, prompt)
            for connection in self._connections
            for prompt in connection.prompts
            if connection.status is ServerStatus.READY
        )

    def notes(self) -> tuple[str, ...]:
        """Return the words of the servers that are there on how they are to be used, for a system prompt."""
        return tuple(
            f"# The MCP server {connection.name}\n\nIt says of itself:\n{shortened(plain(said), NOTE_LENGTH)}"
            for connection in self._connections
            if connection.status is ServerStatus.READY and (said := connection.instructions.strip())
        )

    async def prompt_text(self, server: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text that a server has for a prompt.

        Raises:
            ServerCallError: there is none.
        """
        for connection in self._connections:
            if connection.name == server:
                return await connection.prompt_text(prompt, arguments)
        raise ServerCallError(server, "is not there; go on without it")

    def tool_classes(self) -> tuple[ToolClass, ...]:
        """The tools of the servers that have listed some; the same class as long as a tool stays the same."""
        names = self._names()
        classes: dict[tuple[str, RemoteTool, str], ToolClass] = {}
        for connection in self._connections:
            for tool in connection.tools:
                name = names[connection.name, tool.name]
                key = (connection.name, tool, name)
                classes[key] = self._classes.get(key) or proxy_class(name, tool, connection, self)
        self._classes = classes
        return tuple(classes.values())

    def start_call(self, call: RunningCall) -> None:
        """Run a call in a task of ours."""
        if self._group is None:
            raise RuntimeError("McpServers.running() is not under way")
        self._group.start_soon(call.run)

    def _names(self) -> dict[tuple[str, str], str]:
        listed: Sequence[tuple[str, str]] = [
            (connection.name, tool.name) for connection in self._connections for tool in connection.tools
        ]
        return proxy_names(listed, self._taken)

    async def _close(self) -> None:
        for connection in self._connections:
            connection.close()
        with move_on_after(CLOSE_SECONDS, shield=True):
            for connection in self._connections:
                await connection.finished.wait()
