"""How the configured MCP servers stand, found out by connecting to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread

from vibe import __version__
from vibe.app.build import EngineRequest, build_engine
from vibe.app.host import Host
from vibe.core.config.paths import VibePaths
from vibe.core.tools.mcp.connection import ServerPlace
from vibe.core.tools.mcp.servers import McpServers

DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server. ``status``: ``ready``, ``failed`` or ``disabled``; ``tools`` are the names agents know them by."""

    name: str
    transport: str
    status: str
    tools: tuple[str, ...] = ()
    problem: str = ""
    unusable: tuple[str, ...] = ()
    required: bool = False
    origin: str = ""

    def as_document(self) -> Mapping[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpStatus:
    """All servers, in the order they are configured; ``warnings`` are about the configuration."""

    servers: tuple[ServerReport, ...]
    warnings: tuple[str, ...]


async def mcp_status(host: Host, workdir: Path, *, trust: bool = False) -> McpStatus:
    """Connect to every enabled server, side by side, and let go of them again.

    Raises:
        UsageError: the configuration is wrong.
    """
    engine = await to_thread.run_sync(build_engine, host, EngineRequest(workdir=workdir, trust=trust))
    place = ServerPlace(
        environ=engine.environ, cwd=workdir, log_dir=VibePaths(host.home).logs / "mcp", version=__version__
    )
    configs = engine.config.mcp_servers
    servers = McpServers(configs, place, taken=engine.tools.known())
    async with servers.running():
        await servers.settled(strict=False)
        states = {state.name: state for state in servers.states()}
    reports: list[ServerReport] = []
    for config in configs:
        state = states.get(config.name)
        reports.append(
            ServerReport(
                name=config.name,
                transport=config.transport.value,
                status=state.status.value if state else DISABLED,
                tools=state.tools if state else (),
                problem=state.problem if state else "",
                unusable=state.unusable if state else (),
                required=config.required,
                origin=engine.loaded.origins.get(f"mcp_servers[{config.name}].name", ""),
            )
        )
    return McpStatus(servers=tuple(reports), warnings=engine.loaded.warnings)
