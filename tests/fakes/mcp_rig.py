"""Running MCP servers, and an agent's tool executor with their tools."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import to_thread

from ipc.events import ToolResultEvent, ToolStreamEvent
from tests.fakes.tools import ExecutorRig, call
from vibe.core.config.models import McpServerConfig
from vibe.core.messages import ToolMessage
from vibe.core.tools.gate import Approvals
from vibe.core.tools.mcp.connection import ServerPlace, ServerState
from vibe.core.tools.mcp.servers import McpServers
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.questions import UserInput


class McpRig:
    """Gives a test the states of servers, and calls their tools as an agent does."""

    rig: ExecutorRig

    def __init__(self, servers: McpServers, root: Path) -> None:
        self.servers = servers
        self.root = root
        self.user_input: UserInput | None = None
        self.sees_images = False

    async def hire(
        self, tables: Mapping[str, dict[str, Any]] | None = None, mode: ApprovalMode = ApprovalMode.ALL
    ) -> None:
        """Replace the agent with a new one, which has the tools that the servers offer now."""
        self.rig = await to_thread.run_sync(self._agent, tables, Approvals(mode))

    def _agent(self, tables: Mapping[str, dict[str, Any]] | None, approvals: Approvals) -> ExecutorRig:
        return ExecutorRig(
            self.root,
            *self.servers.tool_classes(),
            approvals=approvals,
            tables=tables,
            output_dir=self.root / "outputs",
            user_input_callback=self.user_input,
            sees_images=self.sees_images,
        )

    def state(self, name: str) -> ServerState:
        """Return the state of a server."""
        return next(state for state in self.servers.states() if state.name == name)

    async def call(self, tool: str, /, **arguments: Any) -> ToolMessage:
        """Call a tool and return the message that an agent reads."""
        batch = await self.rig.executor.run_all([call("c1", tool, **arguments)], self.rig.record)
        return batch.messages[0]

    @property
    def progress(self) -> list[str]:
        """The progress texts that running tools streamed."""
        return [event.text for event in self.rig.sink.events if isinstance(event, ToolStreamEvent)]

    @property
    def results(self) -> list[ToolResultEvent]:
        """The published results of calls."""
        return [event for event in self.rig.sink.events if isinstance(event, ToolResultEvent)]


@asynccontextmanager
async def running(
    root: Path,
    *configs: McpServerConfig,
    environ: Mapping[str, str] | None = None,
    on_change: Callable[[], Awaitable[None]] | None = None,
    user_input: UserInput | None = None,
) -> AsyncGenerator[McpRig]:
    """Run servers, and yield once each has started or failed to."""
    place = ServerPlace(
        environ=environ or os.environ,
        cwd=root,
        log_dir=root / "logs",
        sign_ins=root / "sign_ins.json",
        version="0",
        is_attended=user_input is not None,
    )
    servers = McpServers(configs, place)
    async with servers.running(on_change):
        await servers.wait_ready()
        rig = McpRig(servers, root)
        rig.user_input = user_input
        await rig.hire()
        yield rig
