"""The parts of the MCP client that need no server."""

from __future__ import annotations
