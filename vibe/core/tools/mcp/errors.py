"""What goes wrong with MCP servers.

VibeError
├── ToolError
│   └── ServerCallError          a call could not be made, or was not answered; names the server
└── EnvironmentFailure
    ├── ServerSettingError       an entry of mcp_servers can't be started as it stands
    └── RequiredServerError      a server the run can't do without is not there
"""

from __future__ import annotations

from vibe.core.errors import EnvironmentFailure
from vibe.core.tools.errors import ToolError


class ServerCallError(ToolError):
    """A call that no result came of. ``lost``: the session is gone, and with it whatever the call was doing."""

    def __init__(self, server: str, problem: str, *, lost: bool = False) -> None:
        super().__init__(f"MCP server {server!r} {problem}")
        self.server = server
        self.problem = problem
        self.lost = lost


class ServerSettingError(EnvironmentFailure):
    """A server that can't be started: its command is missing, or a variable it needs is not set."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"mcp_servers[{server}] {problem}")
        self.server = server
        self.problem = problem


class RequiredServerError(EnvironmentFailure):
    """A server with ``required = true`` did not start."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"MCP server {server!r} is required: {problem}")
        self.server = server
        self.problem = problem
