"""The MCP servers of a run: started while it is prepared, announced, and their tools given to its agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec.structs import replace

from ipc.events import ToolServerEvent, WarningEvent
from ipc.sink import EventSink
from vibe import __version__
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.core.config.models import McpServerConfig
from vibe.core.config.paths import VibePaths

if TYPE_CHECKING:
    from vibe.core.tools.mcp.connection import ServerState
    from vibe.core.tools.mcp.remote import RemotePrompt
    from vibe.core.tools.mcp.servers import McpServers

FAILED = "failed"
"""A value of ``ServerStatus``, which is imported only if there are servers."""


class ToolServers:
    """The MCP servers of one run, if any are configured."""

    def __init__(self, engine: Engine, servers: McpServers | None = None, passed_over: Sequence[str] = ()) -> None:
        self._engine = engine
        self._passed_over = tuple(passed_over)
        self._servers = servers
        self._sink: EventSink | None = None
        self._is_equipped = False
        self._announced: dict[str, ServerState] = {}

    def states(self) -> Sequence[ServerState]:
        """Return the state of each server."""
        return () if self._servers is None else self._servers.states()

    def prompts(self) -> Sequence[tuple[str, RemotePrompt]]:
        """Return the prompts that the servers have listed so far, each with its server's name."""
        return () if self._servers is None else self._servers.prompts()

    async def prompted(self, call: str) -> str | None:
        """Return the text that a server has for ``server:prompt ARGUMENTS``; None if no server has that prompt.

        The text begins with a line of ours, so that what a server says is never itself a command.

        Raises:
            UsageError: an argument is missing, or there are too many.
            VibeError: the server returns no text.
        """
        name, *rest = call.split(maxsplit=1) or [""]
        server = next((one.name for one in self.states() if name.startswith(f"{one.name}:")), None)
        if self._servers is None or server is None:
            return None
        from vibe.core.tools.mcp.remote import given_arguments  # noqa: PLC0415  most runs have no servers

        await self.settled()
        for owner, prompt in self.prompts():
            if name == f"{owner}:{prompt.name}":
                given = given_arguments(prompt, "".join(rest).strip())
                text = await self._servers.prompt_text(owner, prompt.name, given)
                return f"The prompt {prompt.name!r} of the MCP server {owner!r}:\n\n{text}"
        return None

    async def equip(self, sink: EventSink, *, waits: bool = True) -> Engine:
        """Wait for the servers once, announce the state of each, and give the engine's agents their tools.

        Without ``waits``, when there is no agent yet, this happens for each server as soon as it is ready.

        Raises:
            EnvironmentFailure: a required server is missing.
            UsageError: a ``[tools.*]`` table does not fit its tool.
        """
        passed_over, self._passed_over = self._passed_over, ()
        for name in passed_over:
            message = f"the front end's MCP server {name!r} is not used: one with that name is configured"
            sink.publish(WarningEvent(code="start", message=message))
        if self._servers is None or self._is_equipped:
            return self._engine
        self._sink, self._is_equipped = sink, not waits
        if not waits:
            return self._engine
        self._announce(sink)
        try:
            await self._servers.wait_ready()
        finally:
            self._announce(sink)
        warnings = await self._adopt()
        self._is_equipped = True
        problems = [_sentence(state) for state in self._servers.states() if state.problem]
        unusable = [
            f"MCP server {state.name!r} lists what can't be offered: {'; '.join(state.unusable)}"
            for state in self._servers.states()
            if state.unusable
        ]
        for message in (*unusable, *warnings):
            sink.publish(WarningEvent(code="start", message=message))
        return replace(self._engine, warnings=(*self._engine.warnings, *problems, *unusable, *warnings))

    async def settled(self) -> None:
        """Wait until each server is ready or has failed."""
        if self._servers is not None:
            await self._servers.wait_ready(strict=False)

    async def refresh(self) -> None:
        """Take over the tools that the servers offer by now. Agents see them from their next turn on."""
        if self._sink is not None and self._is_equipped:
            await self._adopt()
            self._announce(self._sink)

    async def move_to(self, engine: Engine) -> None:
        """Give the servers' tools to another engine, in place of the present one."""
        self._engine = engine
        await self.refresh()

    async def _adopt(self) -> tuple[str, ...]:
        tools, servers = self._engine.tools, self._servers
        if servers is None:
            return ()
        survey = await to_thread.run_sync(tools.survey, servers.tool_classes(), servers.notes())
        tools.adopt(survey)
        return survey.warnings

    def _announce(self, sink: EventSink) -> None:
        """Announce the states that have changed."""
        changed = {state.name: state for state in self.states() if self._announced.get(state.name) != state}
        self._announced |= changed
        for state in changed.values():
            event = ToolServerEvent(
                server=state.name,
                transport=state.transport,
                status=state.status.value,
                tools=len(state.tools),
                detail=state.problem,
            )
            sink.publish(event)
            if state.status.value == FAILED:
                sink.publish(WarningEvent(code="mcp.failed", message=_sentence(state)))


@asynccontextmanager
async def tool_servers(
    engine: Engine, host: Host, workdir: Path, brought: Sequence[McpServerConfig] = (), *, attended: bool = False
) -> AsyncGenerator[ToolServers]:
    """Start the configured servers without waiting for them. They are stopped when the block ends.

    Servers ``brought`` by a front end never replace a configured one. With ``attended``, questions from servers can be
    put to a person.
    """
    taken = {config.name for config in engine.config.mcp_servers}
    passed_over = [config.name for config in brought if config.name in taken]
    configs = [config for config in engine.config.mcp_servers if config.in_use]
    configs += {config.name: config for config in brought if config.name not in taken}.values()
    if not configs:
        yield ToolServers(engine, passed_over=passed_over)
        return
    servers = servers_of(engine, host, workdir, configs, attended=attended)
    run_servers = ToolServers(engine, servers, passed_over)
    async with servers.running(run_servers.refresh):
        yield run_servers


def servers_of(
    engine: Engine, host: Host, workdir: Path, configs: Sequence[McpServerConfig], *, attended: bool = False
) -> McpServers:
    """Return the servers, not started yet, with names kept apart from the engine's tools."""
    from vibe.core.tools.mcp.connection import ServerPlace  # noqa: PLC0415  most runs have no servers
    from vibe.core.tools.mcp.servers import McpServers  # noqa: PLC0415  as above

    paths = VibePaths(host.home)
    place = ServerPlace(
        environ=engine.environ,
        cwd=workdir,
        log_dir=paths.logs / "mcp",
        sign_ins=paths.sign_ins,
        version=__version__,
        is_attended=attended,
    )
    return McpServers(configs, place, taken=engine.tools.known())


def _sentence(state: ServerState) -> str:
    lack = "its tools fail until it works again" if state.tools else "its tools are missing"
    return f"MCP server {state.name!r} {state.problem}; {lack}: fix it, or set `enabled = false` for it"
