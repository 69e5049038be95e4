"""Tools of MCP servers: one live session a server, shared by every agent of the process."""

from __future__ import annotations
