"""Status of the configured MCP servers, by connecting to each of them."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from vibe.app.engine.build import EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.app.engine.tool_servers import servers_of
from vibe.core.tools.mcp.connection import ServerStatus
from vibe.core.tools.mcp.servers import ServerState


class McpStatus(Struct, frozen=True, kw_only=True):
    """The status of all servers."""

    servers: tuple[ServerState, ...]
    """In the order they are configured."""
    warnings: tuple[str, ...]
    """Of the configuration."""


async def mcp_status(host: Host, workdir: Path, *, trust: bool = False) -> McpStatus:
    """Connect to every enabled server, side by side, and disconnect.

    Raises:
        UsageError: the configuration is wrong.
    """
    engine = await to_thread.run_sync(build_engine, host, EngineRequest(workdir=workdir, trust=trust))
    configs = engine.config.mcp_servers
    servers = servers_of(engine, host, workdir, configs)
    async with servers.running():
        await servers.wait_ready(strict=False)
        states = {state.name: state for state in servers.states()}
    reports: list[ServerState] = []
    for config in configs:
        disabled = ServerState(
            name=config.name,
            transport=config.transport.value,
            status=ServerStatus.DISABLED,
            required=config.required,
        )
        origin = engine.loaded.origins.get(f"mcp_servers[{config.name}].name", "")
        reports.append(replace(states.get(config.name, disabled), origin=origin))
    return McpStatus(servers=tuple(reports), warnings=engine.loaded.warnings)
